//! Large answers: how long a page is, and what happens to those that nobody reads.

use std::collections::HashSet;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use futures_util::future::{join_all, select};
use serde_json::json;
use service::{UserId, caller};
use testkit::databases::Backend;
use testkit::kit::bearer;
use testkit::{Kit, on_both};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::pipeline::create;

const COLLECTION: &str = "pipeline_destinations";
/// A page may have one more result than fits.
const MAX_PAGE: usize = (4 << 20) + 300_000;

/// The path of an app with 20 configurations. A control character takes six bytes in JSON, so that each takes 240 kB.
async fn with_large_configs(kit: &Kit) -> String {
    let fields = json!([{ "key": "text", "type": "string" }]);
    let app = create(
        kit,
        COLLECTION,
        json!({ "plugin_type": "source", "config_schema": fields }),
    )
    .await;
    for order in 0..20 {
        let config = json!({ "order": order, "config": { "text": "\u{1}".repeat(40_000) } });
        let made = kit.post(&kit.member.key, &format!("{app}configs/"), config).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    app
}

/// How many results are on each page of a list, from the first to the last. None of them is there twice, and none is left out.
async fn pages(kit: &Kit, path: &str) -> Vec<usize> {
    let (mut pages, mut ids, mut next) = (Vec::new(), HashSet::new(), Some(path.to_owned()));
    while let Some(address) = next {
        let page = kit.get(&kit.member.key, &address).await;
        assert_eq!(page.status, 200, "{}", page.body["detail"]);
        assert!(page.body.to_string().len() <= MAX_PAGE);
        let results = page.body["results"].as_array().unwrap();
        pages.push(results.len());
        ids.extend(results.iter().map(|item| item["id"].to_string()));
        next = page.body["next"].as_str().map(str::to_owned);
        if next.is_none() {
            assert_eq!(page.body["count"], json!(ids.len()));
        }
    }
    assert_eq!(pages.iter().sum::<usize>(), ids.len());
    pages
}

async fn ask(kit: &Kit, key: &str, path: &str) -> Response {
    let request = bearer("GET", path, key).body(Body::empty()).unwrap();
    kit.app.clone().oneshot(request).await.unwrap()
}

on_both! {
    /// Security case A1: what is short in the database can be long as JSON.
    async fn a_page_ends_early_when_it_is_large_and_the_next_goes_on(kit: Kit) {
        let app = with_large_configs(&kit).await;
        assert_eq!(pages(&kit, &format!("{app}configs/?limit=1000")).await, [18, 2]);
        assert_eq!(pages(&kit, &format!("{app}configs/?limit=10")).await, [10, 10]);
        kit.database.run("UPDATE pipeline_config SET enabled = TRUE").await;
        assert_eq!(pages(&kit, &kit.at("pipeline_destinations/exports_unsubscribe_configs/")).await, [18, 2]);
        let changes = json!([{ "action": "changed", "field": "text", "before": null, "after": "x".repeat(240_000) }]);
        kit.database.run(&format!("UPDATE activity SET changes = '{changes}'")).await;
        assert!(pages(&kit, &kit.at("activity/?limit=1000")).await.len() > 1);
        assert!(pages(&kit, &kit.at("pipeline_destinations/activity/?limit=1000")).await.len() > 1);
    }

    /// Security case A1: answers that nobody reads.
    async fn unread_answers_of_one_user_have_a_limit_and_leave_others_alone(kit: Kit) {
        let app = with_large_configs(&kit).await;
        let (path, small) = (format!("{app}configs/?limit=1000"), kit.at(""));
        let mut unread = Vec::new();
        let refused = loop {
            let answer = ask(&kit, &kit.member.key, &path).await;
            if answer.status() != 200 {
                break answer;
            }
            unread.push(answer);
            assert!(unread.len() < 60, "they are all kept");
        };
        assert!(unread.len() >= 4, "{}", unread.len());
        assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
        let refused = kit.get(&kit.member.key, &path).await;
        assert_eq!(refused.code(), (503, "server_busy"), "{refused:?}");
        assert_eq!(kit.get(&kit.member.key, &small).await.status, 200);
        assert_eq!(kit.get(&kit.owner.key, &path).await.status, 200);
        drop(unread);
        assert_eq!(kit.get(&kit.member.key, &path).await.status, 200);
    }
}

/// How many read a table of PostgreSQL at a time, if this is asked for. All get it in the end.
async fn readers_at_a_time(kit: &Kit, lock: &'static str, asked: impl Future<Output = Vec<Response>>) -> i64 {
    const READING: &str =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    // Whoever reads it waits.
    let held = kit.database.holding(lock).await;
    let watched = async {
        let mut most = 0;
        for _ in 0..20 {
            most = most.max(kit.database.column::<i64>(READING).await[0]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(held);
        most
    };
    let (answers, most) = tokio::join!(asked, watched);
    assert!(answers.iter().all(|answer| answer.status() == 200), "{answers:?}");
    most
}

/// Security case A1: a page counts only once it is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_pages_of_an_organization_are_read_at_a_time() {
    let kit = Kit::new(Backend::Postgres).await;
    let slots = kit.service.page_slots();
    let mut held = Vec::new();
    for user in 1001..=1008 {
        let slot = caller::on_behalf_of_organization(kit.organization, slots.acquire(Some(UserId(user))));
        held.push(slot.await.unwrap());
    }
    let path = kit.at("activity/");
    let page = timeout(Duration::from_millis(500), kit.get(&kit.member.key, &path)).await;
    assert!(page.is_err(), "it does not wait: {page:?}");
    held.pop();
    assert_eq!(kit.get(&kit.member.key, &path).await.status, 200);
}

/// Security case A1: the code of an app has megabytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_code_of_apps_is_in_memory_twice_for_an_organization() {
    let kit = Kit::new(Backend::Postgres).await;
    let source = json!({ "index.js": "export function onEvent() {}" });
    let app = create(&kit, COLLECTION, json!({ "plugin_type": "source", "source": source })).await;
    let lock = "BEGIN; LOCK TABLE pipeline_version IN ACCESS EXCLUSIVE MODE";
    let path = format!("{app}source/");
    let asked = join_all((0..12).map(|_| ask(&kit, &kit.member.key, &path)));
    assert_eq!(readers_at_a_time(&kit, lock, asked).await, 2);
}

/// A query takes memory from the moment it is parsed, and previews of an organization wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_are_read_when_it_is_the_turn_of_their_preview() {
    let kit = Kit::new(Backend::Postgres).await;
    let new = json!({ "name": "Nowhere", "interval": "hour", "destination": { "type": "NoOp", "config": {} } });
    let made = kit.post(&kit.admin.key, &kit.at("batch_exports/"), new).await;
    assert_eq!(made.status, 201, "{made:?}");
    let lock = "BEGIN; LOCK TABLE batch_export IN ACCESS EXCLUSIVE MODE";
    let path = kit.at(&format!("batch_exports/{}/preview/", made.text("/id")));
    let asked = join_all((0..4).map(|_| ask(&kit, &kit.member.key, &path)));
    assert_eq!(readers_at_a_time(&kit, lock, asked).await, 1);
}

const LOCKED_SCRIPTS: &str = "BEGIN; LOCK TABLE pipeline_script IN ACCESS EXCLUSIVE MODE";

/// The path of a configuration whose app has a script, and the path of the script.
async fn with_script(kit: &Kit) -> (String, String) {
    let source = json!({ "site.ts": "export function inject() {}" });
    let body = json!({ "plugin_type": "source", "source": source });
    let app = create(kit, "pipeline_frontend_apps", body).await;
    let made = kit
        .post(&kit.admin.key, &format!("{app}configs/"), json!({ "enabled": true }))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let (id, token) = (&made.body["id"], made.text("/web_token"));
    (format!("{app}configs/{id}/"), format!("/site_app/{id}/{token}/1/"))
}

/// As a page does.
async fn load(kit: &Kit, script: &str) -> Response {
    let capture = api::capture_router(kit.service.clone(), kit.events.clone(), api::Settings::default());
    let request = Request::get(script).body(Body::empty()).unwrap();
    capture.oneshot(request).await.unwrap()
}

/// Security case A2: anybody can ask for scripts, from as many networks as they like.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_of_an_organization_are_read_one_at_a_time_and_once() {
    let kit = Kit::new(Backend::Postgres).await;
    let (config, script) = with_script(&kit).await;
    let asked = join_all((0..12).map(|_| load(&kit, &script)));
    assert_eq!(readers_at_a_time(&kit, LOCKED_SCRIPTS, asked).await, 1);
    let held = kit.database.holding(LOCKED_SCRIPTS).await;
    assert_eq!(load(&kit, &script).await.status(), 200, "it is in memory");
    drop(held);
    let disabled = kit.patch(&kit.admin.key, &config, json!({ "enabled": false })).await;
    assert_eq!(disabled.status, 200, "{disabled:?}");
    assert_eq!(
        load(&kit, &script).await.status(),
        404,
        "what is in memory is not for everybody"
    );
}

/// Security case A2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_script_is_asked_to_come_back() {
    let kit = Kit::new(Backend::Postgres).await;
    let (_, script) = with_script(&kit).await;
    let held = kit.database.holding(LOCKED_SCRIPTS).await;
    let asked = || Box::pin(load(&kit, &script));
    let (refused, reading) = select(asked(), asked()).await.factor_first();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "2");
    drop(held);
    assert_eq!(reading.await.status(), 200);
}

/// Security case A2: what a page is told may be large, and many can wait for a script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_script_has_not_read_what_it_is_told() {
    let kit = Kit::new(Backend::Postgres).await;
    let (_, script) = with_script(&kit).await;
    let held = kit.database.holding(LOCKED_SCRIPTS).await;
    kit.database
        .run("UPDATE pipeline_config SET config = '\"not to be read\"'")
        .await;
    let asked = || Box::pin(load(&kit, &script));
    let (refused, reading) = select(asked(), asked()).await.factor_first();
    assert_eq!(refused.status(), 503);
    kit.database.run("UPDATE pipeline_config SET config = '{}'").await;
    drop(held);
    assert_eq!(reading.await.status(), 200, "it is read after the script");
}
