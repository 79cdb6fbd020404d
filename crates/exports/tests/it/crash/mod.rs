//! Rows in, rows out: events come in all the time, workers are killed at random moments, backfills overlap the schedule,
//! a destination fails now and then. In the end each destination holds each event exactly once.

mod targets;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use chrono::TimeDelta;
use events::sqlite::Embedded;
use events::{Events, Incoming};
use exports::{Exports, ExportsDeps};
use outbound::{Http, Roots};
use serde_json::{Value, json};
use service::{Clock, RandomSource, Service, Store, Time};
use testkit::Kit;
use testkit::databases::Backend;
use testkit::kit::{exports_deps, instance};
use uuid::Uuid;

use crate::files::Folder;
use targets::Target;

const DATABASE: &str = "CRASH_DATABASE";
const EVENTS: &str = "CRASH_EVENTS";
const ROOT: &str = "CRASH_ROOT";
const CLOCK: &str = "CRASH_CLOCK";
const AUTHORITIES: &str = "CRASH_AUTHORITIES";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_arrives_once_whatever_is_killed_on_sqlite() {
    let kit = Kit::new(Backend::Sqlite).await;
    let targets = targets::near(&kit).await;
    rows_in_are_rows_out(kit, targets, 200, 150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_arrives_once_whatever_is_killed_on_postgres() {
    let kit = Kit::new(Backend::Postgres).await;
    let targets = targets::near(&kit).await;
    rows_in_are_rows_out(kit, targets, 200, 150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_arrives_once_in_other_stores_and_warehouses() {
    // Whoever plays a warehouse here takes its time, and a kill shall come in the middle of things, not before them.
    rows_in_are_rows_out(Kit::new(Backend::Sqlite).await, targets::far().await, 60, 800).await;
}

/// A kill comes after `most` milliseconds at most.
async fn rows_in_are_rows_out(kit: Kit, targets: Vec<Box<dyn Target>>, kills: u32, most: u32) {
    let scene = Scene::new(kit, targets);
    // Some of it is there before any export is.
    for _ in 0..5 {
        scene.capture(20).await;
        scene.pass(TimeDelta::minutes(5));
    }
    let exports = scene.export_everywhere().await;
    let mut workers = [scene.worker(), scene.worker()];
    for kill in 0..kills {
        scene.capture(7).await;
        tokio::time::sleep(Duration::from_millis(u64::from(random(most)))).await;
        workers[kill as usize % 2] = scene.worker();
        // Far enough that the dead worker's run is free again, and now and then into the next interval.
        scene.pass(TimeDelta::seconds(45));
        match kill % 40 {
            10 => scene.post(&exports, "backfill/", &json!({})).await,
            20 => scene.targets.iter().for_each(|target| target.fail()),
            30 => scene.post(&exports, "pause/", &json!({})).await,
            35 => scene.post(&exports, "unpause/", &json!({ "backfill": true })).await,
            _ => {}
        }
    }
    drop(workers);
    scene.targets.iter().for_each(|target| target.forget());
    scene.finish(&exports).await;
    scene.compare().await;
}

/// A process that works until this is dropped, and then ends in the middle of whatever it does.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().expect("a worker can be killed");
        self.0.wait().expect("a killed worker ends");
    }
}

struct Scene {
    kit: Kit,
    clock: Folder,
    targets: Vec<Box<dyn Target>>,
    captured: std::sync::atomic::AtomicU32,
}

impl Scene {
    fn new(kit: Kit, targets: Vec<Box<dyn Target>>) -> Self {
        let scene = Self {
            kit,
            clock: Folder::new(),
            targets,
            captured: 0.into(),
        };
        scene.pass(TimeDelta::zero());
        scene
    }

    fn now(&self) -> Time {
        self.kit.service.clock().now()
    }

    /// Moves the clock of all processes on.
    fn pass(&self, by: TimeDelta) {
        self.kit.service.clock().advance(by);
        let (new, file) = (self.clock.path().join("new"), self.clock.path().join("now"));
        std::fs::write(&new, self.now().to_rfc3339()).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    async fn capture(&self, count: u32) {
        let first = self.captured.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
        let event = |number: u32| Incoming {
            uuid: Some(Uuid::from_u128(number.into())),
            event: "seen".to_owned(),
            distinct_id: format!("person {}", number % 11),
            properties: json!({ "number": number }).as_object().unwrap().clone(),
            timestamp: self.now(),
        };
        let events = (first..first + count).map(event).collect();
        self.kit
            .events
            .append(self.kit.team.0, events, self.now())
            .await
            .unwrap();
    }

    async fn export_everywhere(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for target in &self.targets {
            let destination = target.destination();
            let body = json!({ "name": "Everything", "interval": "every 5 minutes", "destination": destination });
            let reply = self
                .kit
                .post(&self.kit.admin.key, &self.kit.at("batch_exports/"), body)
                .await;
            assert_eq!(reply.status, 201, "{reply:?}");
            paths.push(self.kit.at(&format!("batch_exports/{}/", reply.text("/id"))));
        }
        paths
    }

    async fn post(&self, exports: &[String], action: &str, body: &Value) {
        for path in exports {
            let reply = self
                .kit
                .post(&self.kit.admin.key, &format!("{path}{action}"), body.clone())
                .await;
            assert_eq!(reply.status, 200, "{reply:?}");
        }
    }

    /// This program again, as a worker.
    fn worker(&self) -> Worker {
        let started = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::work_until_killed", "--ignored", "--nocapture"])
            .env(DATABASE, &self.kit.database.url)
            .env(EVENTS, self.kit.events_file())
            .env(ROOT, self.kit.export_root())
            .env(CLOCK, self.clock.path())
            .env(AUTHORITIES, self.authorities())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Worker(started.unwrap())
    }

    fn authorities(&self) -> String {
        let each = self.targets.iter().filter_map(|target| target.authority());
        each.collect::<Vec<_>>().join("\n")
    }

    /// Lets everything that was begun come to its end, in peace.
    async fn finish(&self, exports: &[String]) {
        self.pass(TimeDelta::minutes(5));
        for _ in 0..30 {
            self.pass(TimeDelta::minutes(1));
            self.run().await;
        }
        // Whatever is still missing was skipped by nobody's wish.
        for path in exports {
            let runs = self
                .kit
                .get(&self.kit.admin.key, &format!("{path}runs/?limit=1000"))
                .await;
            for run in runs.body["results"].as_array().unwrap() {
                assert_eq!(run["status"], "Completed", "{run}");
            }
        }
    }

    /// A worker that nobody kills.
    async fn run(&self) {
        let exports = exporting(
            self.kit.service.clone(),
            self.kit.events.clone(),
            self.kit.export_root(),
            &self.authorities(),
        );
        while exports.schedule().await.unwrap() | exports.step().await.unwrap() {}
    }

    async fn compare(&self) {
        let captured = self.captured.load(std::sync::atomic::Ordering::Relaxed);
        let expected: BTreeMap<String, usize> = (0..captured)
            .map(|number| (Uuid::from_u128(number.into()).to_string(), 1))
            .collect();
        for target in &self.targets {
            let mut found = target.uuids().await;
            if !target.is_exact() {
                found.sort();
                found.dedup();
            }
            let wrong = differences(&expected, &counted(found));
            assert_eq!(wrong, Vec::<String>::new(), "in {}", target.name());
        }
    }
}

fn exporting(service: Service, events: Events, root: PathBuf, authorities: &str) -> Exports {
    let mut deps = ExportsDeps {
        export_root: Some(root),
        ..exports_deps()
    };
    if !authorities.is_empty() {
        deps.roots = Roots::with_pem(authorities.as_bytes()).unwrap();
        deps.http = Http::new(deps.dialer.clone(), &deps.roots).unwrap();
    }
    Exports::new(service, events, deps, 4)
}

fn counted(ids: Vec<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for id in ids {
        *counts.entry(id).or_default() += 1;
    }
    counts
}

/// What is missing, doubled or strange; nothing, if all is well.
fn differences(expected: &BTreeMap<String, usize>, found: &BTreeMap<String, usize>) -> Vec<String> {
    let missing = expected
        .keys()
        .filter(|id| !found.contains_key(*id))
        .map(|id| format!("{id} is missing"));
    let wrong = found.iter().filter(|(id, count)| expected.get(*id) != Some(count));
    missing
        .chain(wrong.map(|(id, count)| format!("{id} is there {count} times")))
        .take(10)
        .collect()
}

/// Not for secrets.
fn random(below: u32) -> u32 {
    let bytes: [u8; 4] = RandomSource::System.bytes();
    u32::from_le_bytes(bytes) % below
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other half of the tests above, which start and kill it"]
async fn work_until_killed() {
    let file = PathBuf::from(variable(CLOCK)).join("now");
    let read = move || -> Time { std::fs::read_to_string(&file).unwrap().parse().unwrap() };
    let clock = Clock::manual(read());
    let store = Store::open(&variable(DATABASE), 4).await.unwrap();
    let service = Service::new(store, clock.clone(), RandomSource::System, instance());
    let events = Events::Embedded(Embedded::open(variable(EVENTS).as_ref()).unwrap());
    let exports = exporting(service, events, variable(ROOT).into(), &variable(AUTHORITIES));
    tokio::spawn(async move {
        loop {
            clock.advance(read() - clock.now());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let work = || async {
        loop {
            let is_busy = exports.schedule().await.unwrap_or(false) | exports.step().await.unwrap_or(false);
            if !is_busy {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    tokio::join!(work(), work(), work());
}
