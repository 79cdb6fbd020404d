//! Organizations take turns: what one of them has waiting keeps nobody else waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apps::{Apps, Outside};
use chrono::TimeDelta;
use events::Incoming;
use sandbox::{Limits, Sandbox};
use serde_json::{Map, Value, json};
use service::{OrganizationId, Rotation, TeamId, WorkerId};
use testkit::kit::{Person, organization_of};
use testkit::parts::Receiver;
use testkit::{Kit, on_both};
use tokio_util::sync::CancellationToken;

/// Queues as many jobs as the event says, each of which queues itself again.
const BUSY: &str = "
export const jobs = { again: async (_, { jobs, cache }) => { await cache.incr('done'); await jobs.again({}).runNow() } }
export async function onEvent(event, { jobs }) {
    for (let i = 0; i < event.properties.amount; i += 1) await jobs.again({}).runNow()
}
";

const HOOK: &str = "
export function composeWebhook(event, { config }) {
    return { url: config.url, body: JSON.stringify({ what: event.event }) }
}
";

/// Takes all the time that it has, with each event and every minute.
const SLOW: &str = "
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds))
export async function onEvent() { await sleep(15) }
export async function runEveryMinute() { await sleep(25) }
";

/// Within so long others' events are handed over, whatever apps do.
const SOON: Duration = Duration::from_secs(35);

/// A step is one task, or the events of one configuration.
const FEW: usize = 4;

struct Tenant<'a> {
    kit: &'a Kit,
    person: &'a Person,
    organization: OrganizationId,
    team: TeamId,
}

impl<'a> Tenant<'a> {
    fn both(kit: &'a Kit) -> [Self; 2] {
        let own = Self {
            kit,
            person: &kit.owner,
            organization: kit.organization,
            team: kit.team,
        };
        let other = Self {
            kit,
            person: &kit.outsider,
            organization: kit.other,
            team: kit.other_team,
        };
        [own, other]
    }

    /// So many organizations with somebody of their own each.
    async fn many(kit: &'a Kit, people: &'a [Person]) -> Vec<Self> {
        let mut all = Vec::new();
        for person in people {
            let (organization, team) = organization_of(&kit.service, "Many", person).await;
            all.push(Self {
                kit,
                person,
                organization,
                team,
            });
        }
        all
    }

    async fn run(&self, code: &str, config: Value) {
        let apps = format!("/api/organizations/{}/pipeline_destinations/", self.organization);
        let fields = config.as_object().unwrap().keys();
        let schema: Vec<Value> = fields.map(|key| json!({ "key": key, "type": "string" })).collect();
        let manifest = json!({ "name": "Tried", "config": schema }).to_string();
        let app = json!({ "plugin_type": "source", "source": { "plugin.json": manifest, "index.js": code } });
        let app = self.kit.post(&self.person.key, &apps, app).await;
        assert_eq!(app.status, 201, "{app:?}");
        let configs = format!("{apps}{}/configs/", app.body["id"]);
        let config = json!({ "enabled": true, "config": config });
        let made = self.kit.post(&self.person.key, &configs, config).await;
        assert_eq!(made.status, 201, "{made:?}");
    }

    async fn happen(&self, name: &str, amount: usize) {
        let now = self.kit.service.clock().now();
        let incoming = Incoming {
            uuid: None,
            event: name.to_owned(),
            distinct_id: "ann".to_owned(),
            properties: Map::from_iter([("amount".to_owned(), json!(amount))]),
            timestamp: now,
        };
        self.kit.events.append(self.team.0, vec![incoming], now).await.unwrap();
        self.kit.service.clock().advance(TimeDelta::seconds(1));
    }
}

async fn step(kit: &Kit, times: usize) {
    for _ in 0..times {
        kit.apps.step().await.unwrap();
    }
}

/// A server with so many slots, whose apps may take as long as those of a real one. Dropped, it ends.
struct Working(tokio::task::JoinHandle<()>);

impl Working {
    fn start(kit: &Kit, slots: usize) -> Self {
        let outside = testkit::kit::apps_outside(kit.local_apps());
        let limits = Limits {
            call_time: Duration::from_secs(30),
            ..outside.sandbox.limits().clone()
        };
        let sandbox = Sandbox::new(outside.sandbox.program().clone(), limits);
        let outside = Outside {
            sandbox,
            slots,
            ..outside
        };
        let apps = Apps::new(kit.service.clone(), kit.events.clone(), outside);
        Self(tokio::spawn(async move { apps.work(CancellationToken::new()).await }))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long it takes until something arrives.
async fn wait_for(receiver: &Receiver) -> Duration {
    let begun = Instant::now();
    while receiver.requests().is_empty() {
        assert!(begun.elapsed() < SOON, "nothing was handed over within {SOON:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    begun.elapsed()
}

on_both! {
    async fn apps_of_one_organization_that_sleep_keep_nobody_elses_events(kit: Kit) {
        let receiver = Receiver::start();
        let [busy, quiet] = Tenant::both(&kit);
        for _ in 0..8 {
            busy.run(SLOW, json!({})).await;
        }
        quiet.run(HOOK, json!({ "url": receiver.url() })).await;
        busy.happen("theirs", 0).await;
        // Also with one slot.
        let _working = Working::start(&kit, 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        quiet.happen("ours", 0).await;
        assert!(wait_for(&receiver).await < Duration::from_secs(20));
    }

    async fn many_slow_organizations_keep_nobody_elses_events(kit: Kit) {
        const MANY: usize = 40;
        let receiver = Receiver::start();
        let mut people = Vec::new();
        for number in 0..MANY {
            people.push(kit.someone(&format!("person-{number}@example.com")).await);
        }
        let many = Tenant::many(&kit, &people).await;
        for one in &many {
            one.run(SLOW, json!({})).await;
        }
        let [_, quiet] = Tenant::both(&kit);
        quiet.run(HOOK, json!({ "url": receiver.url() })).await;
        // What they do every minute is due as well.
        kit.service.clock().advance(TimeDelta::minutes(1));
        for one in &many {
            one.happen("theirs", 0).await;
        }
        quiet.happen("ours", 0).await;
        let _working = Working::start(&kit, 4);
        wait_for(&receiver).await;
    }

    async fn code_that_does_not_end_keeps_nobody_else_from_changing_apps(kit: Kit) {
        let kit = Arc::new(kit);
        let mut endless = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let kit = kit.clone();
            endless.spawn(async move {
                let app = json!({ "plugin_type": "source", "source": { "index.js": "while (true) {}" } });
                kit.post(&kit.owner.key, &kit.at("pipeline_destinations/"), app).await
            });
        }
        let refused = endless.join_next().await.unwrap().unwrap();
        assert_eq!((refused.status, refused.header("retry-after")), (503, "5"), "{refused:?}");
        let begun = Instant::now();
        let [_, quiet] = Tenant::both(&kit);
        quiet.run(HOOK, json!({ "url": "http://127.0.0.1:9/" })).await;
        assert!(begun.elapsed() < Duration::from_secs(8), "others do not wait for the end of any of them");
    }

    async fn a_job_that_queues_itself_keeps_nobody_elses_events(kit: Kit) {
        let receiver = Receiver::start();
        let [busy, quiet] = Tenant::both(&kit);
        busy.run(BUSY, json!({})).await;
        quiet.run(HOOK, json!({ "url": receiver.url() })).await;
        busy.happen("many", 200).await;
        step(&kit, 10).await;
        for number in 0..3 {
            quiet.happen(&format!("event {number}"), 0).await;
            step(&kit, FEW).await;
            assert_eq!(receiver.requests().len(), number + 1);
        }
    }

    async fn many_configurations_of_one_organization_keep_nobody_elses_events(kit: Kit) {
        let receiver = Receiver::start();
        let [busy, quiet] = Tenant::both(&kit);
        for _ in 0..12 {
            busy.run(HOOK, json!({ "url": receiver.url() })).await;
        }
        quiet.run(HOOK, json!({ "url": receiver.url() })).await;
        busy.happen("theirs", 0).await;
        quiet.happen("ours", 0).await;
        step(&kit, FEW).await;
        let sent: Vec<Value> = receiver.requests().into_iter().map(|request| request.body).collect();
        assert!(sent.contains(&json!({ "what": "ours" })), "{sent:?}");
        assert!(sent.contains(&json!({ "what": "theirs" })), "{sent:?}");
        kit.run_apps().await;
        assert_eq!(receiver.requests().len(), 13);
    }

    async fn a_job_that_queues_itself_is_held_to_a_rate(kit: Kit) {
        let [busy, _] = Tenant::both(&kit);
        busy.run(BUSY, json!({})).await;
        busy.happen("one", 1).await;
        // Without a rate this would never end: no time passes between two jobs.
        let mut steps = 0;
        while kit.apps.step().await.unwrap() {
            steps += 1;
            assert!(steps < 400);
        }
        assert!(steps > 200, "{steps}");
        kit.service.clock().advance(TimeDelta::milliseconds(250));
        assert!(kit.apps.step().await.unwrap(), "it goes on, at its rate");
        assert!(!kit.apps.step().await.unwrap());
    }

    async fn organizations_take_turns_at_tasks_and_a_configuration_has_one_at_a_time(kit: Kit) {
        let [busy, quiet] = Tenant::both(&kit);
        busy.run(BUSY, json!({})).await;
        busy.run(BUSY, json!({})).await;
        quiet.run(BUSY, json!({})).await;
        busy.happen("many", 50).await;
        quiet.happen("one", 1).await;
        // The events of all three, and one job or another between them.
        step(&kit, 6).await;
        let (rotation, worker) = (Rotation::default(), WorkerId(uuid::Uuid::from_u128(7)));
        let mut taken = Vec::new();
        while let Some(task) = kit.service.claim_app_task(worker, &rotation, &mut |_| true).await.unwrap() {
            taken.push(task);
        }
        let organizations: Vec<OrganizationId> = taken.iter().map(|task| task.runnable.config.organization_id).collect();
        assert_eq!(organizations.len(), 3, "one of each configuration");
        assert_eq!(organizations.iter().filter(|id| **id == quiet.organization).count(), 1);
        assert!(organizations[..2].contains(&quiet.organization), "after one of the others: {organizations:?}");
        // When one is done, its configuration has the next.
        let done = taken.iter().find(|task| task.runnable.config.organization_id == busy.organization).unwrap();
        kit.service.end_app_task(done, None, false).await.unwrap();
        let next = kit.service.claim_app_task(worker, &rotation, &mut |_| true).await.unwrap();
        assert_eq!(next.map(|task| task.runnable.config.id), Some(done.runnable.config.id));
    }
}
