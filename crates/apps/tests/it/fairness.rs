//! Organizations take turns: what one of them has waiting keeps nobody else waiting.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use apps::{Apps, AppsDeps};
use chrono::TimeDelta;
use events::Incoming;
use outbound::{Dialer, Http, Policy, Resolve, Roots};
use sandbox::{Limits, Sandbox};
use serde_json::{Value, json};
use service::pipeline::TaskOutcome;
use service::{OrganizationId, TeamId, WorkerId};
use testkit::external::Receiver;
use testkit::kit::{Person, organization_of};
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

/// Says when it begins and ends.
const LASTING: &str = "
const headers = { 'Content-Type': 'application/json' }
const say = (config, body) => fetch(config.url, { method: 'POST', headers, body: JSON.stringify(body) })
export async function onEvent(event, { config }) {
    await say(config, { begins: event.event })
    await new Promise((resolve) => setTimeout(resolve, 8000))
    await say(config, { ends: event.event })
}
";

/// Takes almost as long as a call may, three times with one event.
const LENGTHY: &str = "
const sleep = () => new Promise((resolve) => setTimeout(resolve, 900))
export async function setupPlugin() { await sleep() }
export async function onEvent() { await sleep() }
export async function composeWebhook() { await sleep(); return null }
";

/// Within so long others' events are handed over, whatever apps do.
const SOON: Duration = Duration::from_secs(35);

/// Notes for whom names are looked up, and knows none.
#[derive(Default)]
struct Callers(Mutex<Vec<u128>>);

#[async_trait::async_trait]
impl Resolve for Callers {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other("no name is known"))
    }

    fn of(&self, caller: u128) -> Option<Arc<dyn Resolve>> {
        self.0.lock().unwrap().push(caller);
        None
    }
}

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

    /// The only configuration of the only app.
    async fn configs(&self) -> Value {
        let apps = format!("/api/organizations/{}/pipeline_destinations/", self.organization);
        let app = self.kit.get(&self.person.key, &apps).await.body["results"][0]["id"].clone();
        let configs = self.kit.get(&self.person.key, &format!("{apps}{app}/configs/")).await;
        configs.body["results"][0].clone()
    }

    async fn happen(&self, name: &str, amount: usize) {
        self.happen_with(name, json!({ "amount": amount })).await;
    }

    async fn happen_with(&self, name: &str, properties: Value) {
        let Value::Object(properties) = properties else {
            panic!("properties are an object");
        };
        let now = self.kit.service.clock().now();
        let incoming = Incoming {
            uuid: None,
            event: name.to_owned(),
            distinct_id: "ann".to_owned(),
            properties,
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

/// Apps whose calls may take so long.
fn apps_with(kit: &Kit, slots: usize, call_time: Duration) -> Apps {
    let deps = testkit::kit::apps_deps(kit.local_apps());
    let limits = Limits {
        call_time,
        ..deps.sandbox.limits().clone()
    };
    let sandbox = Sandbox::new(deps.sandbox.program().clone(), limits);
    let deps = AppsDeps { sandbox, slots, ..deps };
    Apps::new(kit.service.clone(), kit.events.clone(), deps)
}

impl Working {
    fn start(kit: &Kit, slots: usize) -> Self {
        let apps = apps_with(kit, slots, Duration::from_secs(30));
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

    /// There is memory for four of them at a time, until their processes have read them.
    async fn apps_that_work_on_large_events_keep_nobody_elses_waiting(kit: Kit) {
        const MANY: usize = 6;
        let receiver = Receiver::start();
        let mut people = Vec::new();
        for number in 0..MANY {
            people.push(kit.someone(&format!("person-{number}@example.com")).await);
        }
        for one in &Tenant::many(&kit, &people).await {
            one.run(LASTING, json!({ "url": receiver.url() })).await;
            one.happen_with("$ai_generation", json!({ "text": "x".repeat(7 << 20) })).await;
            one.happen("small", 0).await;
        }
        let _working = Working::start(&kit, 8);
        let begun = Instant::now();
        let count = |what: &str, event: &str| receiver.requests().iter().filter(|request| request.body[what] == event).count();
        while count("begins", "$ai_generation") < MANY {
            assert!(begun.elapsed() < SOON, "{} of {MANY} were handed over", count("begins", "$ai_generation"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(count("ends", "$ai_generation"), 0, "all of them are at it");
        while count("begins", "small") < MANY {
            assert!(begun.elapsed() < 2 * SOON, "{} of {MANY} went on", count("begins", "small"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(count("begins", "$ai_generation"), MANY, "once each");
    }

    async fn whoever_is_slow_while_others_wait_is_stopped_and_tried_again(kit: Kit) {
        let receiver = Receiver::start();
        let mut people = Vec::new();
        for number in 0..8 {
            people.push(kit.someone(&format!("person-{number}@example.com")).await);
        }
        // More than can be in progress at once.
        let people: Vec<_> = people.iter().cycle().take(45).cloned().collect();
        let many = Tenant::many(&kit, &people).await;
        for one in &many {
            one.run(SLOW, json!({})).await;
            one.happen("theirs", 0).await;
        }
        let _working = Working::start(&kit, 1);
        let begun = Instant::now();
        let mut stopped = None;
        while stopped.is_none() {
            assert!(begun.elapsed() < SOON, "nobody was stopped");
            tokio::time::sleep(Duration::from_millis(200)).await;
            for one in &many {
                let configs = one.configs().await;
                let is_stopped = configs["error"].as_str().is_some_and(|error| error.contains("while others were waiting"));
                stopped = stopped.or(is_stopped.then_some(configs));
            }
        }
        let stopped = stopped.unwrap();
        assert_eq!(stopped["enabled"], true, "{stopped}");
        let [_, quiet] = Tenant::both(&kit);
        quiet.run(HOOK, json!({ "url": receiver.url() })).await;
        quiet.happen("ours", 0).await;
        assert!(wait_for(&receiver).await < Duration::from_secs(12));
    }

    /// As when the database refuses an organization that has too much waiting there.
    async fn whoever_is_refused_keeps_no_slot_waiting(kit: Kit) {
        let receiver = Receiver::start();
        let [_, quiet] = Tenant::both(&kit);
        for _ in 0..40 {
            let (organization, team) = organization_of(&kit.service, "Many", &kit.owner).await;
            let refused = Tenant { kit: &kit, person: &kit.owner, organization, team };
            refused.run(HOOK, json!({})).await;
            refused.happen("theirs", 0).await;
        }
        kit.database.run("UPDATE pipeline_config SET config = '[]'").await;
        quiet.run(HOOK, json!({ "url": receiver.url() })).await;
        quiet.happen("ours", 0).await;
        let _working = Working::start(&kit, 1);
        wait_for(&receiver).await;
        // All the others are looked at in between.
        quiet.happen("ours again", 0).await;
        let begun = Instant::now();
        while receiver.requests().len() < 2 {
            assert!(begun.elapsed() < SOON, "nothing was handed over within {SOON:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn names_are_looked_up_for_the_organization(kit: Kit) {
        let [own, _] = Tenant::both(&kit);
        own.run(HOOK, json!({ "url": "https://somewhere.example/" })).await;
        own.happen("one", 0).await;
        let callers = Arc::new(Callers::default());
        let dialer = Dialer::with_names(Policy::default(), callers.clone());
        let deps = AppsDeps {
            http: Http::new(dialer, &Roots::public()).unwrap(),
            ..testkit::kit::apps_deps(kit.local_apps())
        };
        let apps = Apps::new(kit.service.clone(), kit.events.clone(), deps);
        assert!(apps.step().await.unwrap());
        assert_eq!(*callers.0.lock().unwrap(), [own.organization.0.as_u128()]);
    }

    async fn a_turn_has_the_time_of_one_call_in_all(kit: Kit) {
        let [own, _] = Tenant::both(&kit);
        own.run(LENGTHY, json!({})).await;
        own.happen("one", 0).await;
        let apps = apps_with(&kit, 1, Duration::from_secs(1));
        assert!(apps.step().await.unwrap());
        let config = own.configs().await;
        assert!(config["error"].as_str().unwrap_or_default().contains("exceeded its time limit"), "{config}");
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
        assert!(begun.elapsed() < Duration::from_secs(20), "others do not wait for the end of any of them");
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

    async fn a_team_whose_events_cannot_be_read_keeps_nobody_elses(kit: Kit) {
        let receiver = Receiver::start();
        let [one, two] = Tenant::both(&kit);
        let (damaged, sound) = if one.organization < two.organization { (one, two) } else { (two, one) };
        for (tenant, name) in [(&damaged, "theirs"), (&sound, "ours")] {
            tenant.run(HOOK, json!({ "url": receiver.url() })).await;
            tenant.happen(name, 0).await;
        }
        kit.damage_events(damaged.team).await;
        kit.run_apps().await;
        let sent: Vec<Value> = receiver.requests().into_iter().map(|request| request.body).collect();
        assert_eq!(sent, [json!({ "what": "ours" })]);
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

    async fn a_configuration_has_one_task_at_a_time(kit: Kit) {
        let [busy, quiet] = Tenant::both(&kit);
        busy.run(BUSY, json!({})).await;
        busy.run(BUSY, json!({})).await;
        quiet.run(BUSY, json!({})).await;
        busy.happen("many", 50).await;
        quiet.happen("one", 1).await;
        // The events of all three, and some jobs between them.
        step(&kit, 12).await;
        let worker = WorkerId(uuid::Uuid::from_u128(7));
        let mut taken = Vec::new();
        while let Some(organization) = kit.service.organizations_with_due_tasks().await.unwrap().pop() {
            taken.extend(kit.service.claim_app_task(worker, organization).await.unwrap());
        }
        let organizations: Vec<OrganizationId> = taken.iter().map(|task| task.runnable.config.organization_id).collect();
        assert_eq!(organizations.len(), 3, "one of each configuration");
        assert_eq!(organizations.iter().filter(|id| **id == quiet.organization).count(), 1);
        // When one is done, its configuration has the next.
        let done = taken.iter().find(|task| task.runnable.config.organization_id == busy.organization).unwrap();
        kit.service.end_app_task(done, TaskOutcome::Done).await.unwrap();
        assert_eq!(kit.service.organizations_with_due_tasks().await.unwrap(), [busy.organization]);
        let next = kit.service.claim_app_task(worker, busy.organization).await.unwrap();
        assert_eq!(next.map(|task| task.runnable.config.id), Some(done.runnable.config.id));
    }
}
