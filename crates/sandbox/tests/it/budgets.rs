//! The memory that organizations share, as their apps use it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sandbox::{
    Failure, FetchRequest, FetchResponse, Host, HostCall, Instance, Json, Level, Limits, Meta, Reservation, Sandbox,
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

use crate::kit::{files, limits, sandbox_with};

const MIB: usize = 1024 * 1024;

/// A host of one organization that shows how much is in progress.
struct Counting {
    organization: Uuid,
    in_progress: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Answers that are there in part and do not go on.
    stuck: Arc<Semaphore>,
    /// Apps that said that they have begun, and how many are waited for.
    begun: Arc<watch::Sender<usize>>,
    begins_with: usize,
}

impl Counting {
    fn of(organization: u128) -> Self {
        Self {
            organization: Uuid::from_u128(organization),
            in_progress: Arc::default(),
            most: Arc::default(),
            stuck: Arc::new(Semaphore::new(0)),
            begun: Arc::default(),
            begins_with: 0,
        }
    }
}

#[async_trait]
impl Host for Counting {
    async fn fetch(&self, request: FetchRequest, memory: &Arc<Reservation>) -> Result<FetchResponse, String> {
        if request.url.ends_with("/unread") {
            self.stuck.add_permits(1);
            std::future::pending::<()>().await;
        }
        if request.url.ends_with("/stuck") {
            memory.grow(15 * MIB).await;
            self.stuck.add_permits(1);
            std::future::pending::<()>().await;
        }
        if request.url.ends_with("/large") {
            memory.grow(12 * MIB).await;
        }
        let bytes = request.body.map_or(0, |body| body.len());
        let now = self.in_progress.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most.fetch_max(now, Ordering::SeqCst);
        // The others come in the meantime, if they may.
        let mut begun = self.begun.subscribe();
        begun.wait_for(|begun| *begun >= self.begins_with).await.unwrap();
        tokio::time::sleep(Duration::from_millis(if bytes > 0 { 500 } else { 0 })).await;
        self.in_progress.fetch_sub(bytes, Ordering::SeqCst);
        Ok(FetchResponse::default())
    }

    async fn call(&self, _: HostCall, _: &Reservation) -> Result<Json, String> {
        Ok(Json::null())
    }

    fn log(&self, _: Level, _: String) {
        self.begun.send_modify(|begun| *begun += 1);
    }

    fn organization(&self) -> Uuid {
        self.organization
    }
}

async fn open(sandbox: &Sandbox, text: &str, host: Counting) -> Instance {
    let reading = sandbox.read(&files([("index.ts", text)])).await.unwrap();
    let opened = sandbox.open(&reading.code, Meta::default(), Arc::new(host)).await;
    opened.unwrap()
}

async fn call(mut app: Instance) -> Result<Value, Failure> {
    app.call("composeWebhook", vec![json!({})]).await
}

fn patient() -> Limits {
    Limits {
        memory: 64 * MIB,
        call_time: Duration::from_mins(1),
        ..limits()
    }
}

/// Four apps of one organization send four bodies of 3 MB each at the same time.
#[tokio::test]
async fn what_an_organization_sends_at_once_is_bounded() {
    let text = "export async function composeWebhook() {
        const body = 'x'.repeat(3 * 1024 * 1024)
        await Promise.all([1, 2, 3, 4].map(() => fetch('http://example.com/', { method: 'POST', body })))
        return 'sent'
    }";
    let (sandbox, counting) = (sandbox_with(patient()), Counting::of(1));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let host = Counting {
            in_progress: counting.in_progress.clone(),
            most: counting.most.clone(),
            ..Counting::of(1)
        };
        calls.spawn(call(open(&sandbox, text, host).await));
    }
    for outcome in calls.join_all().await {
        assert_eq!(outcome.unwrap(), json!("sent"));
    }
    let most = counting.most.load(Ordering::SeqCst);
    assert!(most <= 8 * MIB, "{} MB at once", most / MIB);
}

/// Sends a body of 3 MB.
fn sending(path: &str) -> String {
    format!(
        "export async function composeWebhook() {{
            await fetch('http://example.com/{path}', {{ method: 'POST', body: 'x'.repeat(3 * 1024 * 1024) }})
            return 'sent'
        }}"
    )
}

/// Many organizations send at the same time, to somebody who answers once all of them have begun. All of them wait for room, and take it
/// when it appears.
#[tokio::test]
async fn what_all_organizations_send_at_once_is_bounded() {
    const ORGANIZATIONS: usize = 16;
    let (sandbox, counting) = (sandbox_with(patient()), Counting::of(0));
    let text = sending("").replace("await fetch", "console.log('begun'); await fetch");
    let code = sandbox.read(&files([("index.ts", &text)])).await.unwrap().code;
    let mut apps = Vec::new();
    for organization in (1..).take(ORGANIZATIONS) {
        let host = Counting {
            in_progress: counting.in_progress.clone(),
            most: counting.most.clone(),
            begun: counting.begun.clone(),
            begins_with: ORGANIZATIONS,
            ..Counting::of(organization)
        };
        apps.push(sandbox.open(&code, Meta::default(), Arc::new(host)).await.unwrap());
    }
    let calls: tokio::task::JoinSet<_> = apps.into_iter().map(call).collect();
    for outcome in calls.join_all().await {
        // On a machine that is busy one may have had the memory for too long.
        let is_fine = outcome.as_ref().map_or_else(gave_way, |sent| sent == "sent");
        assert!(is_fine, "{outcome:?}");
    }
    // Each takes twice its length; what is each organization's own comes on top of what all share.
    let most = counting.most.load(Ordering::SeqCst);
    assert!(most > 0 && 2 * most <= (48 + 16) * MIB, "{} MB at once", most / MIB);
}

fn gave_way(failure: &Failure) -> bool {
    *failure == Failure::Evicted
}

/// What organizations send to somebody who does not read it keeps the memory for as long as nobody else needs it.
#[tokio::test]
async fn what_is_sent_and_not_read_gives_way_to_others() {
    let sandbox = sandbox_with(Limits {
        call_time: Duration::from_mins(10),
        ..patient()
    });
    let stuck = Arc::new(Semaphore::new(0));
    let mut unread = tokio::task::JoinSet::new();
    for organization in 1..=12 {
        let host = Counting {
            stuck: stuck.clone(),
            ..Counting::of(organization)
        };
        unread.spawn(call(open(&sandbox, &sending("unread"), host).await));
    }
    // There is room for no more than a few of them.
    stuck.acquire_many(4).await.unwrap().forget();
    let other = open(&sandbox, &sending(""), Counting::of(100)).await;
    let sent = tokio::time::timeout(Duration::from_mins(2), call(other)).await;
    assert_eq!(sent.expect("it waits for nobody's end").unwrap(), json!("sent"));
    let ended = unread.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(gave_way(&ended), "{ended}");
    assert!(ended.is_retry(), "it is not the app's fault: {ended:?}");
}

/// Many organizations start an app at the same time whose code is as long as it may be.
#[tokio::test]
async fn code_is_loaded_when_there_is_room_for_it() {
    const CODE: usize = 8 * MIB;
    let sandbox = sandbox_with(Limits {
        load_time: Duration::from_mins(1),
        ..patient()
    });
    let text = "export function composeWebhook() { return 'called' }";
    let code = sandbox.read(&files([("index.ts", text)])).await.unwrap().code;
    let code = Json::from(serde_json::to_value(&code).unwrap());
    let loading = Counting::of(0);
    let mut calls = tokio::task::JoinSet::new();
    for organization in 1..=12 {
        let (sandbox, code) = (sandbox.clone(), code.clone());
        let (in_progress, most) = (loading.in_progress.clone(), loading.most.clone());
        let load = async move {
            let now = in_progress.fetch_add(CODE, Ordering::SeqCst) + CODE;
            most.fetch_max(now, Ordering::SeqCst);
            // The others come in the meantime, if they may.
            tokio::time::sleep(Duration::from_millis(200)).await;
            in_progress.fetch_sub(CODE, Ordering::SeqCst);
            Ok(code)
        };
        calls.spawn(async move {
            let host = Arc::new(Counting::of(organization));
            let app = sandbox.open_loading((CODE, load), Meta::default(), host, 0).await?;
            call(app).await
        });
    }
    for outcome in calls.join_all().await {
        // On a machine that is busy one may have had the memory for too long.
        let is_fine = outcome
            .as_ref()
            .map_or_else(|failure| *failure == Failure::Busy, |called| called == "called");
        assert!(is_fine, "{outcome:?}");
    }
    let most = loading.most.load(Ordering::SeqCst);
    assert!(most <= 48 / 2 * MIB, "{} MB at once", most / MIB);
}

/// Code that does not come, because its organization waits for the database, keeps the memory for as long as nobody else needs it.
#[tokio::test]
async fn code_that_does_not_come_gives_way_to_others() {
    const CODE: usize = 8 * MIB;
    let sandbox = sandbox_with(Limits {
        load_time: Duration::from_mins(2),
        ..patient()
    });
    let text = "export function composeWebhook() { return 'called' }";
    let code = sandbox.read(&files([("index.ts", text)])).await.unwrap().code;
    let code = Json::from(serde_json::to_value(&code).unwrap());
    let stuck = Arc::new(Semaphore::new(0));
    let mut waiting = tokio::task::JoinSet::new();
    for organization in 1..=4 {
        let (sandbox, stuck) = (sandbox.clone(), stuck.clone());
        waiting.spawn(async move {
            let load = async {
                stuck.add_permits(1);
                std::future::pending().await
            };
            let host = Arc::new(Counting::of(organization));
            sandbox.open_loading((CODE, load), Meta::default(), host, 0).await.err()
        });
    }
    stuck.acquire_many(2).await.unwrap().forget();
    let host = Arc::new(Counting::of(100));
    let opened = sandbox
        .open_loading((CODE, async { Ok(code) }), Meta::default(), host, 0)
        .await;
    assert_eq!(call(opened.unwrap()).await.unwrap(), json!("called"));
    assert_eq!(waiting.join_next().await.unwrap().unwrap(), Some(Failure::Busy));
}

/// Its time ran out, but some of it went to waiting for what others had.
#[tokio::test]
async fn a_call_that_waited_for_others_did_not_take_too_long() {
    let sandbox = sandbox_with(Limits {
        call_time: Duration::from_secs(6),
        ..patient()
    });
    let text = |path: &str, then: &str| {
        format!("export async function composeWebhook() {{ await fetch('http://example.com/{path}'); {then} }}")
    };
    let endless = text("large", "await new Promise((done) => setTimeout(done, 60000))");
    let alone = call(open(&sandbox, &endless, Counting::of(3)).await).await;
    assert_eq!(alone.unwrap_err(), Failure::TooSlow);
    let mut stuck = tokio::task::JoinSet::new();
    for organization in 1..=2 {
        let host = Counting::of(organization);
        let is_stuck = host.stuck.clone();
        stuck.spawn(call(open(&sandbox, &text("stuck", ""), host).await));
        is_stuck.acquire().await.unwrap().forget();
    }
    let waited = call(open(&sandbox, &endless, Counting::of(3)).await).await;
    assert_eq!(waited.unwrap_err(), Failure::Evicted);
}

/// Answers that stop halfway keep the memory for as long as nobody else needs it.
#[tokio::test]
async fn an_answer_that_stops_halfway_gives_way_to_others() {
    let text = |path: &str| {
        format!(
            "export async function composeWebhook() {{ await fetch('http://example.com/{path}'); return 'answered' }}"
        )
    };
    let sandbox = sandbox_with(patient());
    let mut stuck = tokio::task::JoinSet::new();
    for organization in 1..=2 {
        let host = Counting::of(organization);
        let is_stuck = host.stuck.clone();
        stuck.spawn(call(open(&sandbox, &text("stuck"), host).await));
        is_stuck.acquire().await.unwrap().forget();
    }
    let large = open(&sandbox, &text("large"), Counting::of(3)).await;
    assert_eq!(call(large).await.unwrap(), json!("answered"));
    let ended = stuck.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(gave_way(&ended), "{ended}");
}
