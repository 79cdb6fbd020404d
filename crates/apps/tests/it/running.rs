//! Apps that run: in real processes, for events that came in, towards a real HTTP server.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use apps::{Apps, AppsDeps};
use chrono::TimeDelta;
use events::Incoming;
use sandbox::{Layer, Program, Sandbox, Strictness};
use serde_json::{Map, Value, json};
use service::WorkerId;
use service::pipeline::{Step, Stop, TaskOutcome};
use testkit::external::Receiver;
use testkit::{Kit, on_both};
use tokio_util::sync::CancellationToken;

/// Something that happened, as a program would tell it.
pub(crate) async fn happen(kit: &Kit, names: &[&str]) {
    let now = kit.service.clock().now();
    let incoming = |name: &&str| Incoming {
        uuid: None,
        event: (*name).to_owned(),
        distinct_id: "ann".to_owned(),
        properties: Map::from_iter([("amount".to_owned(), json!(7))]),
        timestamp: now,
    };
    let events = names.iter().map(incoming).collect();
    kit.events.append(kit.team.0, events, now).await.unwrap();
    pass(kit, 1);
}

fn pass(kit: &Kit, seconds: i64) {
    kit.service.clock().advance(TimeDelta::seconds(seconds));
}

/// Makes an app of this code and enables it: the address of its configuration.
pub(crate) async fn run(kit: &Kit, collection: &str, code: &str, config: Value) -> String {
    let fields = config.as_object().unwrap().keys();
    let schema: Vec<Value> = fields.map(|key| json!({ "key": key, "type": "string" })).collect();
    let manifest = json!({ "name": "Tried", "config": schema }).to_string();
    let app = json!({ "plugin_type": "source", "source": { "plugin.json": manifest, "index.ts": code } });
    let app = kit.post(&kit.admin.key, &kit.at(&format!("{collection}/")), app).await;
    assert_eq!(app.status, 201, "{app:?}");
    let configs = kit.at(&format!("{collection}/{}/configs/", app.body["id"]));
    let made = kit
        .post(&kit.admin.key, &configs, json!({ "enabled": true, "config": config }))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    format!("{configs}{}/", made.body["id"])
}

pub(crate) async fn logged(kit: &Kit, config: &str) -> Vec<String> {
    let logs = kit.get(&kit.member.key, &format!("{config}logs/")).await;
    let lines = logs.body["results"].as_array().unwrap().iter();
    let text = |line: &Value| {
        format!(
            "{} {}",
            line["level"].as_str().unwrap(),
            line["message"].as_str().unwrap()
        )
    };
    lines.rev().map(text).collect()
}

pub(crate) fn bodies(receiver: &Receiver) -> Vec<Value> {
    receiver.requests().iter().map(|request| request.body.clone()).collect()
}

/// More than a test reads.
const MAX: events::Most = events::Most {
    events: 10,
    bytes: 1 << 20,
};

const HOOK: &str = r"
import { Meta } from '@posthog/plugin-scaffold'

enum Shape { Plain = 'plain' }

export function composeWebhook(event: { event: string; properties: Record<string, number> }, { config }: Meta) {
    if (event.event === 'ignored') return null
    const body = { what: event.event, amount: event.properties.amount satisfies number, shape: Shape.Plain }
    return { url: config.url, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }
}
";

on_both! {
    async fn a_webhook_in_typescript_gets_each_event_once_and_in_order(kit: Kit) {
        let receiver = Receiver::start();
        let config = run(&kit, "pipeline_destinations", HOOK, json!({ "url": receiver.url() })).await;
        happen(&kit, &["a", "ignored", "b"]).await;
        happen(&kit, &["c"]).await;
        kit.run_apps().await;
        let sent = |name: &str| json!({ "what": name, "amount": 7, "shape": "plain" });
        assert_eq!(bodies(&receiver), ["a", "b", "c"].map(sent));
        // Nothing is sent again, also by a server that was started again, and nothing is lost.
        let kit = kit.restarted(api::Settings::default(), testkit::kit::instance()).await;
        kit.run_apps().await;
        happen(&kit, &["d"]).await;
        kit.run_apps().await;
        assert_eq!(bodies(&receiver).len(), 4);
        assert_eq!(bodies(&receiver)[3], sent("d"));
        let shown = kit.get(&kit.member.key, &config).await;
        assert_eq!(shown.body["error"], Value::Null);
    }

    async fn an_app_runs_by_its_code_alone(kit: Kit) {
        let receiver = Receiver::start();
        run(&kit, "pipeline_destinations", HOOK, json!({ "url": receiver.url() })).await;
        kit.database.run("UPDATE pipeline_version SET files = 'not to be read', metadata = 'nor this'").await;
        happen(&kit, &["a"]).await;
        kit.run_apps().await;
        assert_eq!(bodies(&receiver).len(), 1);
    }

    async fn what_is_disabled_gets_nothing_and_begins_where_it_is_enabled(kit: Kit) {
        let receiver = Receiver::start();
        let config = run(&kit, "pipeline_destinations", HOOK, json!({ "url": receiver.url() })).await;
        kit.patch(&kit.admin.key, &config, json!({ "enabled": false })).await;
        happen(&kit, &["missed"]).await;
        kit.run_apps().await;
        kit.patch(&kit.admin.key, &config, json!({ "enabled": true })).await;
        happen(&kit, &["seen"]).await;
        kit.run_apps().await;
        let names: Vec<Value> = bodies(&receiver).into_iter().map(|body| body["what"].clone()).collect();
        assert_eq!(names, ["seen"]);
    }

    async fn a_worker_that_lost_a_configuration_no_longer_moves_its_cursor(kit: Kit) {
        let config = run(&kit, "pipeline_destinations", HOOK, json!({ "url": "https://example.com" })).await;
        let id = config.trim_end_matches('/').rsplit('/').next().unwrap().parse().unwrap();
        pass(&kit, 1);
        let [slow, quick] = [1, 2].map(|number| WorkerId(uuid::Uuid::from_u128(number)));
        let lost = kit.service.claim_app(slow, id).await.unwrap().unwrap();
        assert!(kit.service.renew_app_lease(&lost, &lost.cursor()).await.unwrap());
        pass(&kit, 31);
        let held = kit.service.claim_app(quick, id).await.unwrap().unwrap();
        assert!(!kit.service.renew_app_lease(&lost, &lost.cursor()).await.unwrap());
        assert!(kit.service.renew_app_lease(&held, &held.cursor()).await.unwrap());
    }

    /// Or what passed while it was disabled would be delivered after all.
    async fn a_worker_lets_go_of_what_was_disabled_and_enabled_again(kit: Kit) {
        let config = run(&kit, "pipeline_destinations", HOOK, json!({ "url": "https://example.com" })).await;
        let id = config.trim_end_matches('/').rsplit('/').next().unwrap().parse().unwrap();
        pass(&kit, 1);
        let held = kit.service.claim_app(WorkerId(uuid::Uuid::nil()), id).await.unwrap().unwrap();
        for enabled in [false, true] {
            assert_eq!(kit.patch(&kit.admin.key, &config, json!({ "enabled": enabled })).await.status, 200);
        }
        assert!(!kit.service.renew_app_lease(&held, &held.cursor()).await.unwrap());
        let step = Step { cursor: held.cursor(), failures: 0, error: None, beyond: None, stop: Stop::Done };
        assert!(!kit.service.end_app_batch(&held, &step).await.unwrap());
    }

    /// It is not its fault, however long the others go on.
    async fn an_app_that_others_preempt_is_neither_disabled_nor_loses_an_event(kit: Kit) {
        let config = run(&kit, "pipeline_destinations", HOOK, json!({ "url": "https://example.com" })).await;
        let id = config.trim_end_matches('/').rsplit('/').next().unwrap().parse().unwrap();
        let mut first = None;
        for _ in 0..50 {
            pass(&kit, 6);
            let held = kit.service.claim_app(WorkerId(uuid::Uuid::nil()), id).await.unwrap().expect("due again soon");
            let cursor = *first.get_or_insert(held.cursor());
            assert_eq!(held.cursor(), cursor, "nothing is given up");
            let error = Some("stopped".to_owned());
            let step = Step { cursor, failures: 0, error, beyond: None, stop: Stop::Preempted };
            assert!(kit.service.end_app_batch(&held, &step).await.unwrap());
        }
        assert_eq!(kit.get(&kit.member.key, &config).await.body["enabled"], true);
    }

    async fn a_task_that_others_preempt_starts_again_soon_and_keeps_its_tries(kit: Kit) {
        let code = r"
            export const jobs = { send: async () => {} }
            export async function runEveryDay() {}
            export async function onEvent(event, { jobs }) { await jobs.send({}).runIn(1, 'hours') }
        ";
        let config = run(&kit, "pipeline_destinations", code, json!({})).await;
        happen(&kit, &["a"]).await;
        kit.run_apps().await;
        kit.service.clock().advance(TimeDelta::days(1));
        let reason = TaskOutcome::Postponed { reason: "others were waiting" };
        let (mut days, mut sends) = (0, 0);
        for _ in 0..20 {
            let task = kit.service.claim_app_task(WorkerId(uuid::Uuid::nil()), kit.organization).await.unwrap();
            let Some(task) = task else { break };
            (days, sends) = if task.name == "send" { (days, sends + 1) } else { (days + 1, sends) };
            kit.service.end_app_task(&task, reason).await.unwrap();
            pass(&kit, 11);
        }
        assert!(days >= 5 && sends >= 9, "{days} {sends}");
        let said = logged(&kit, &config).await;
        assert!(said.contains(&"WARN send was postponed: others were waiting".to_owned()), "{said:?}");
        let task = kit.service.claim_app_task(WorkerId(uuid::Uuid::nil()), kit.organization).await.unwrap().unwrap();
        kit.service.end_app_task(&task, TaskOutcome::Failed { error: "no", is_retryable: true }).await.unwrap();
        assert!(logged(&kit, &config).await.contains(&format!("ERROR {} failed: no", task.name)));
    }

    async fn a_receiver_that_fails_is_tried_again_and_what_follows_waits(kit: Kit) {
        let receiver = Receiver::start();
        let config = run(&kit, "pipeline_destinations", HOOK, json!({ "url": receiver.url() })).await;
        receiver.answer(&["503", "503"]);
        happen(&kit, &["a", "b"]).await;
        kit.run_apps().await;
        assert_eq!(bodies(&receiver).len(), 1, "it waits");
        assert!(kit.get(&kit.member.key, &config).await.text("/error").contains("503"));
        pass(&kit, 6);
        kit.run_apps().await;
        pass(&kit, 11);
        kit.run_apps().await;
        let names: Vec<Value> = bodies(&receiver).into_iter().map(|body| body["what"].clone()).collect();
        assert_eq!(names, ["a", "a", "a", "b"]);
        assert_eq!(kit.get(&kit.member.key, &config).await.body["error"], Value::Null);
    }

    async fn an_app_fetches_stores_and_says_things(kit: Kit) {
        let receiver = Receiver::start();
        let code = r"
            export async function setupPlugin({ global }) { global.started = true }
            export async function onEvent(event, { config, storage, cache, global }) {
                const count = (await storage.get('count', 0)) + 1
                await storage.set('count', count)
                const seen = await cache.incr('seen')
                const answer = await fetch(config.url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ count, seen }) })
                console.info(`${event.event}: ${answer.status} ${global.started}`)
            }
        ";
        let config = run(&kit, "pipeline_destinations", code, json!({ "url": receiver.url() })).await;
        happen(&kit, &["a", "b"]).await;
        kit.run_apps().await;
        assert_eq!(bodies(&receiver), [json!({ "count": 1, "seen": 1 }), json!({ "count": 2, "seen": 2 })]);
        assert_eq!(logged(&kit, &config).await, ["INFO a: 200 true", "INFO b: 200 true"]);
        for (filter, found) in [
            ("level=INFO&search=B:%20200", 1), ("level=ERROR", 0), ("search=%25", 0), ("limit=1", 2),
            ("after=2026-11-15T09:30:00Z&before=2026-11-15T10:00:00Z", 2), ("before=2026-11-15T09:30:00Z", 0),
        ] {
            let logs = kit.get(&kit.member.key, &format!("{config}logs/?{filter}")).await;
            assert_eq!(logs.body["count"], found, "{filter}");
        }
        // Storage survives; the process does not.
        let kit = kit.restarted(api::Settings::default(), testkit::kit::instance()).await;
        happen(&kit, &["c"]).await;
        kit.run_apps().await;
        assert_eq!(bodies(&receiver)[2], json!({ "count": 3, "seen": 1 }));
    }

    /// Several are handed over in one go while nothing happens.
    async fn every_one_of_many_events_is_handed_over_once_and_in_order(kit: Kit) {
        let receiver = Receiver::start();
        let code = r"
            let seen = []
            export async function onEvent(event, { config }) {
                seen.push(event.event)
                if (event.event === 'bad') throw new Error('no')
                if (!event.event.startsWith('said')) return
                await fetch(config.url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(seen) })
                seen = []
            }
        ";
        let config = run(&kit, "pipeline_destinations", code, json!({ "url": receiver.url() })).await;
        let quiet: Vec<String> = (0..400).map(|number| format!("quiet-{number}")).collect();
        let mut names: Vec<&str> = quiet.iter().map(String::as_str).collect();
        for (at, name) in [(50, "bad"), (100, "said-1"), (101, "said-2"), (250, "bad"), (300, "bad")] {
            names.insert(at, name);
        }
        names.push("said-3");
        happen(&kit, &names).await;
        kit.run_apps().await;
        let got: Vec<Value> = bodies(&receiver).into_iter().flat_map(|body| body.as_array().unwrap().clone()).collect();
        assert_eq!(got, names, "nothing is missing, repeated or out of order");
        assert_eq!(bodies(&receiver).len(), 3);
        assert_eq!(logged(&kit, &config).await.len(), 3, "one line for each that failed");
    }

    /// One event that ends the process is found among those that were handed over with it.
    async fn an_event_that_ends_the_app_is_given_up_alone(kit: Kit) {
        let receiver = Receiver::start();
        let code = r"
            export async function onEvent(event, { config }) {
                if (event.event === 'fatal') new Array(1e9).fill(0).map(() => new Array(1e6).fill(0))
                if (event.event === 'last') await fetch(config.url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '1' })
            }
        ";
        let config = run(&kit, "pipeline_destinations", code, json!({ "url": receiver.url() })).await;
        let mut names = ["quiet"; 100].to_vec();
        names.insert(70, "fatal");
        names.push("last");
        happen(&kit, &names).await;
        kit.run_apps().await;
        assert_eq!(bodies(&receiver).len(), 1);
        let said = logged(&kit, &config).await;
        let count = |text: &str| said.iter().filter(|line| line.contains(text)).count();
        assert_eq!((said.len(), count("WARN Stopped while handling several"), count("ERROR fatal")), (2, 1, 1), "{said:?}");
    }

    /// What no destination can store would fail each run of an export.
    async fn an_app_captures_only_events_that_can_have_happened(kit: Kit) {
        let code = r"
            export async function onEvent() {
                for (const timestamp of ['-100000-01-01T00:00:00Z', '1850-01-01T00:00:00Z', '2999-01-01T00:00:00Z']) {
                    try { await posthog.capture('odd', { timestamp }) } catch (error) { console.log(error.message) }
                }
            }
        ";
        let config = run(&kit, "pipeline_destinations", code, json!({})).await;
        happen(&kit, &["a"]).await;
        kit.run_apps().await;
        let said = logged(&kit, &config).await;
        assert!(said.len() == 3 && said.iter().all(|line| line.contains("not in the future")), "{said:?}");
    }

    /// Its request has been sent: it is not sent a second time to find out which event ended the app.
    async fn an_event_that_sends_and_ends_the_app_is_handed_over_once(kit: Kit) {
        let receiver = Receiver::start();
        let code = r"
            export async function onEvent(event, { config }) {
                if (event.event === 'quiet') return
                await fetch(config.url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(event.event) })
                if (event.event === 'fatal') new Array(1e9).fill(0).map(() => new Array(1e6).fill(0))
            }
        ";
        let config = run(&kit, "pipeline_destinations", code, json!({ "url": receiver.url() })).await;
        let mut names = ["quiet"; 100].to_vec();
        names.insert(70, "fatal");
        names.push("last");
        happen(&kit, &names).await;
        kit.run_apps().await;
        assert_eq!(bodies(&receiver), ["fatal", "last"]);
        let said = logged(&kit, &config).await;
        assert!(said.len() == 1 && said[0].starts_with("ERROR fatal"), "{said:?}");
    }

    async fn increments_at_the_same_time_lose_nothing(kit: Kit) {
        let code = r"
            export async function onEvent(event, { utils }) {
                await utils.cursor.init('next', 3)
                const sums = await Promise.all(Array.from({ length: 8 }, () => utils.cursor.increment('next')))
                console.log(sums.sort((a, b) => a - b).join(' '))
            }
        ";
        let config = run(&kit, "pipeline_destinations", code, json!({})).await;
        happen(&kit, &["a", "b"]).await;
        kit.run_apps().await;
        assert_eq!(logged(&kit, &config).await, ["LOG 4 5 6 7 8 9 10 11", "LOG 12 13 14 15 16 17 18 19"]);
    }

    /// E7, E9: whatever it does, the app beside it gets its events, and the next event gets its chance.
    async fn hostile_code_harms_nothing_else(kit: Kit) {
        let receiver = Receiver::start();
        let code = r"
            export async function onEvent(event) {
                if (event.event === 'loop') while (true) {}
                if (event.event === 'memory') { const all = []; while (true) all.push(new Array(100000).fill(all.length)) }
                if (event.event === 'throw') throw new Error('no luck')
                if (event.event === 'power') return Number(3n ** 20000000n)
                if (event.event === 'inside') await fetch('http://10.0.0.1/')
                console.log('fine')
            }
        ";
        let bad = run(&kit, "pipeline_destinations", code, json!({})).await;
        run(&kit, "pipeline_destinations", HOOK, json!({ "url": receiver.url() })).await;
        happen(&kit, &["loop", "memory", "throw", "power", "inside", "good"]).await;
        kit.run_apps().await;
        assert_eq!(bodies(&receiver).len(), 6);
        let lines = logged(&kit, &bad).await;
        for said in ["time limit", "memory limit", "Error: no luck\nat onEvent index.ts:5:", "power", "https://", "LOG fine"] {
            assert!(lines.iter().any(|line| line.contains(said)), "{said}: {lines:?}");
        }
        assert_eq!(lines.len(), 6, "{lines:?}");
        let shown = kit.get(&kit.member.key, &bad).await;
        assert_eq!((&shown.body["enabled"], &shown.body["error"]), (&json!(true), &Value::Null));
    }

    async fn an_app_that_keeps_failing_is_switched_off_and_its_people_are_told(kit: Kit) {
        let kit = kit.with_mail().await;
        let config = run(&kit, "pipeline_destinations", "export function onEvent() { throw new Error('no luck') }", json!({})).await;
        happen(&kit, &["x"; 25]).await;
        kit.run_apps().await;
        let shown = kit.get(&kit.member.key, &config).await;
        assert_eq!(shown.body["enabled"], false, "{shown:?}");
        assert!(shown.text("/error").contains("no luck"));
        let emails = kit.emails().await;
        let told: Vec<&str> = emails.iter().map(|(to, _)| to.as_str()).collect();
        assert_eq!(told.len(), 2, "the owner and the administrator: {emails:?}");
        let activity = kit.get(&kit.member.key, &kit.at("pipeline_destinations/activity/")).await;
        let newest = &activity.body["results"].as_array().unwrap().iter().find(|entry| entry["activity"] == "disabled");
        assert!(newest.is_some_and(|entry| entry["is_system"] == true), "{activity:?}");
        assert!(logged(&kit, &config).await.iter().any(|line| line.contains("disabled after repeated failures")));
    }

    async fn large_events_of_strangers_disable_nothing(kit: Kit) {
        let config = run(&kit, "pipeline_destinations", "export function onEvent() { throw new Error('no luck') }", json!({})).await;
        let large = serde_json::Map::from_iter([("text".to_owned(), json!("x".repeat(70_000)))]);
        let now = kit.service.clock().now();
        let event = |_| events::Incoming {
            uuid: None,
            event: "large".to_owned(),
            distinct_id: "ann".to_owned(),
            properties: large.clone(),
            timestamp: now,
        };
        kit.events.append(kit.team.0, (0..25).map(event).collect(), now).await.unwrap();
        pass(&kit, 1);
        kit.run_apps().await;
        let shown = kit.get(&kit.member.key, &config).await;
        assert_eq!(shown.body["enabled"], true, "{shown:?}");
        assert!(shown.text("/error").contains("no luck"));
        happen(&kit, &["small"; 25]).await;
        kit.run_apps().await;
        assert_eq!(kit.get(&kit.member.key, &config).await.body["enabled"], false);
    }

    async fn an_event_that_takes_too_much_memory_takes_no_others_with_it(kit: Kit) {
        let receiver = Receiver::start();
        let code = "
            export async function exportEvents(events, { config }) {
                if (events.some(({ event }) => event === 'poison')) { const all = []; for (;;) all.push('x'.repeat(1 << 20) + all.length) }
                const body = JSON.stringify({ names: events.map(({ event }) => event) })
                await fetch(config.url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
            }";
        let config = run(&kit, "pipeline_destinations", code, json!({ "url": receiver.url() })).await;
        happen(&kit, &["a", "b", "poison", "c", "d", "poison", "e"]).await;
        kit.run_apps().await;
        let delivered: Vec<Value> = bodies(&receiver).iter().flat_map(|body| body["names"].as_array().unwrap().clone()).collect();
        assert_eq!(delivered, ["a", "b", "c", "d", "e"]);
        assert_eq!(kit.get(&kit.member.key, &config).await.body["enabled"], true);
        assert!(logged(&kit, &config).await.iter().any(|line| line.contains("handed over in halves")));
    }

    async fn an_app_that_does_not_start_is_tried_a_few_times(kit: Kit) {
        let code = "export function setupPlugin() { throw new Error('no key') }\nexport function onEvent() {}";
        let config = run(&kit, "pipeline_destinations", code, json!({})).await;
        happen(&kit, &["x"]).await;
        for _ in 0..4 {
            kit.run_apps().await;
            assert_eq!(kit.get(&kit.member.key, &config).await.body["enabled"], true);
            pass(&kit, 120);
        }
        kit.run_apps().await;
        let shown = kit.get(&kit.member.key, &config).await;
        assert_eq!(shown.body["enabled"], false);
        assert!(shown.text("/error").contains("no key"), "{shown:?}");
    }

    async fn an_import_app_runs_on_its_schedule_and_captures(kit: Kit) {
        let code = r"
            export async function runEveryMinute({ config, jobs }) {
                posthog.capture('imported', { from: config.from })
                await jobs.later({ n: 1 }).runIn(30, 'seconds')
            }
            export const jobs = { later: async (payload) => { posthog.capture('later', payload) } }
        ";
        let config = run(&kit, "pipeline_import_apps", code, json!({ "from": "there" })).await;
        kit.run_apps().await;
        pass(&kit, 60);
        kit.run_apps().await;
        let waiting = async || -> Vec<i64> { kit.database.column("SELECT payload_bytes FROM pipeline_usage").await };
        assert_eq!(waiting().await, [8 * 1024 + "later".len() + r#"{"n":1}"#.len()].map(|bytes| i64::try_from(bytes).unwrap()));
        pass(&kit, 31);
        kit.run_apps().await;
        assert_eq!(waiting().await, [0], "what is done no longer waits");
        pass(&kit, 1);
        let start = kit.service.clock().now() - TimeDelta::hours(1);
        let found = kit.events.stored(kit.team.0, start, kit.service.clock().now(), 0, MAX).await.unwrap().events;
        let properties = |event: &events::Stored| serde_json::from_str(event.properties.get()).unwrap();
        let names: Vec<(&str, Value)> = found.iter().map(|event| (event.event.as_str(), properties(event))).collect();
        assert_eq!(names.len(), 2, "{names:?} {:?}", logged(&kit, &config).await);
        assert_eq!((names[0].0, &names[0].1["from"]), ("imported", &json!("there")));
        assert_eq!((names[1].0, &names[1].1["n"]), ("later", &json!(1)));
        // Disabled, it waits for nothing any more.
        kit.patch(&kit.admin.key, &config, json!({ "enabled": false })).await;
        pass(&kit, 120);
        kit.run_apps().await;
        pass(&kit, 1);
        let found = kit.events.stored(kit.team.0, start, kit.service.clock().now(), 0, MAX).await.unwrap().events;
        assert_eq!(found.len(), 2);
    }

    async fn a_job_of_a_year_that_does_not_sort_is_refused(kit: Kit) {
        let code = r"
            export async function onEvent(event, { jobs }) { await jobs.later().runIn(200000, 'years') }
            export const jobs = { later: () => {} }
        ";
        let config = run(&kit, "pipeline_destinations", code, json!({})).await;
        happen(&kit, &["x"]).await;
        kit.run_apps().await;
        let lines = logged(&kit, &config).await;
        assert!(lines.iter().any(|line| line.contains("the delay of the job is too long")), "{lines:?}");
        assert_eq!(kit.database.column::<i64>("SELECT count(*) FROM pipeline_task").await, [0]);
    }

    async fn while_a_layer_of_the_sandbox_is_missing_that_must_be_there_events_wait(kit: Kit) {
        let receiver = Receiver::start();
        let config = run(&kit, "pipeline_destinations", HOOK, json!({ "url": receiver.url() })).await;
        happen(&kit, &["a"]).await;
        // A process that says of itself that nothing but the least keeps it apart.
        let script = kit.local_apps().join("child");
        let report = r#"{"confined":{"no_new_privileges":"in_force","system_calls":"in_force"}}"#;
        std::fs::write(&script, format!("#!/bin/sh\nread limits\necho '{report}'\n")).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let deps = testkit::kit::apps_deps(kit.local_apps());
        let sandbox = Sandbox::new(Program::new(script), deps.sandbox.limits().clone()).with(Strictness::Strict);
        let apps = Apps::new(kit.service.clone(), kit.events.clone(), AppsDeps { sandbox, ..deps });
        let stop = CancellationToken::new();
        let work = tokio::spawn({
            let (apps, stop) = (apps.clone(), stop.clone());
            async move { apps.work(stop).await }
        });
        while apps.missing_layers().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.cancel();
        work.await.unwrap();
        assert!(apps.missing_layers().contains(&Layer::LandlockFiles));
        let waiting = kit.get(&kit.member.key, &config).await;
        assert_eq!((&waiting.body["enabled"], &waiting.body["error"]), (&json!(true), &json!(null)), "{waiting:?}");
        assert!(bodies(&receiver).is_empty());
        kit.run_apps().await;
        assert_eq!(bodies(&receiver).len(), 1);
    }
}
