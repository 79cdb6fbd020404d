//! Organizations take turns: what one of them has waiting keeps nobody else waiting.

use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Map, Value, json};
use service::{OrganizationId, Rotation, TeamId, WorkerId};
use testkit::kit::Person;
use testkit::parts::Receiver;
use testkit::{Kit, on_both};

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

on_both! {
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
        while let Some(task) = kit.service.claim_app_task(worker, &rotation).await.unwrap() {
            taken.push(task);
        }
        let organizations: Vec<OrganizationId> = taken.iter().map(|task| task.runnable.config.organization_id).collect();
        assert_eq!(organizations.len(), 3, "one of each configuration");
        assert_eq!(organizations.iter().filter(|id| **id == quiet.organization).count(), 1);
        assert!(organizations[..2].contains(&quiet.organization), "after one of the others: {organizations:?}");
        // When one is done, its configuration has the next.
        let done = taken.iter().find(|task| task.runnable.config.organization_id == busy.organization).unwrap();
        kit.service.end_app_task(done, None, false).await.unwrap();
        let next = kit.service.claim_app_task(worker, &rotation).await.unwrap();
        assert_eq!(next.map(|task| task.runnable.config.id), Some(done.runnable.config.id));
    }
}
