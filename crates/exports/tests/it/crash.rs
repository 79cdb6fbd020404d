//! Rows in, rows out: events come in all the time, workers are killed at random moments, backfills overlap the schedule,
//! a destination fails now and then. In the end each destination holds each event exactly once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use chrono::TimeDelta;
use events::sqlite::Embedded;
use events::{Events, Incoming};
use exports::{Exports, Outside};
use serde_json::{Value, json};
use service::{Chance, Clock, Service, Store, Time};
use testkit::Kit;
use testkit::databases::Backend;
use testkit::kit::{far_sides, instance};
use testkit::parts::{ClickHouse, ObjectStore, Receiver, S3_KEY};
use uuid::Uuid;

use crate::database::Home;
use crate::files::{Folder, uuids};

const KILLS: u32 = 200;
const DATABASE: &str = "CRASH_DATABASE";
const EVENTS: &str = "CRASH_EVENTS";
const ROOT: &str = "CRASH_ROOT";
const CLOCK: &str = "CRASH_CLOCK";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_arrives_once_whatever_is_killed_on_sqlite() {
    rows_in_are_rows_out(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_arrives_once_whatever_is_killed_on_postgres() {
    rows_in_are_rows_out(Backend::Postgres).await;
}

async fn rows_in_are_rows_out(backend: Backend) {
    let scene = Scene::new(Kit::new(backend).await).await;
    // Some of it is there before any export is.
    for _ in 0..5 {
        scene.capture(20).await;
        scene.pass(TimeDelta::minutes(5));
    }
    let exports = scene.export_everywhere().await;
    let mut workers = [scene.worker(), scene.worker()];
    for kill in 0..KILLS {
        scene.capture(7).await;
        tokio::time::sleep(Duration::from_millis(u64::from(random(150)))).await;
        let victim = &mut workers[kill as usize % 2];
        victim.kill().unwrap();
        victim.wait().unwrap();
        *victim = scene.worker();
        // Far enough that the dead worker's run is free again, and now and then into the next interval.
        scene.pass(TimeDelta::seconds(45));
        match kill % 40 {
            10 => scene.post(&exports, "backfill/", &json!({})).await,
            20 => scene.receiver.answer(&["500", "503", "429"]),
            30 => scene.post(&exports, "pause/", &json!({})).await,
            35 => scene.post(&exports, "unpause/", &json!({ "backfill": true })).await,
            _ => {}
        }
    }
    for mut worker in workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    scene.finish(&exports).await;
    scene.compare().await;
}

struct Scene {
    kit: Kit,
    clock: Folder,
    bucket: ObjectStore,
    database: Home,
    clickhouse: ClickHouse,
    receiver: Receiver,
    captured: std::sync::atomic::AtomicU32,
}

impl Scene {
    async fn new(kit: Kit) -> Self {
        let bucket = ObjectStore::seaweedfs();
        bucket.make("exports");
        let scene = Self {
            kit,
            clock: Folder::new(),
            bucket,
            database: Home::shared().await,
            clickhouse: ClickHouse::start(),
            receiver: Receiver::start(),
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
        let clickhouse = &self.clickhouse;
        let destinations = [
            json!({ "type": "File", "config": { "folder": "plain" } }),
            json!({ "type": "File", "config": {
                "folder": "split", "file_format": "Parquet", "compression": "zstd", "max_file_size_mb": 1,
            } }),
            json!({ "type": "S3", "config": {
                "bucket_name": "exports", "region": "us-east-1", "prefix": "in", "compression": "gzip",
                "aws_access_key_id": S3_KEY.0, "aws_secret_access_key": S3_KEY.1, "endpoint_url": self.bucket.base(),
            } }),
            json!({ "type": "Postgres", "config": self.database.config(&json!({})) }),
            json!({ "type": "ClickHouse", "config": {
                "url": clickhouse.url(), "user": clickhouse.user, "password": clickhouse.password,
            } }),
            json!({ "type": "HTTP", "config": { "url": self.receiver.url(), "token": "t" } }),
        ];
        let mut paths = Vec::new();
        for destination in destinations {
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
    fn worker(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::work_until_killed", "--ignored", "--nocapture"])
            .env(DATABASE, &self.kit.database.url)
            .env(EVENTS, self.kit.events_file())
            .env(ROOT, self.kit.export_root())
            .env(CLOCK, self.clock.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Lets everything that was begun come to its end, in peace.
    async fn finish(&self, exports: &[String]) {
        self.pass(TimeDelta::minutes(5));
        for _ in 0..30 {
            self.pass(TimeDelta::minutes(1));
            self.kit.run_exports().await;
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

    async fn compare(&self) {
        let captured = self.captured.load(std::sync::atomic::Ordering::Relaxed);
        let expected: BTreeMap<String, usize> = (0..captured)
            .map(|number| (Uuid::from_u128(number.into()).to_string(), 1))
            .collect();
        let root = self.kit.export_root();
        let fetched = Folder::new();
        self.bucket.fetch("exports", fetched.path());
        let clickhouse = self.clickhouse.query("SELECT toString(uuid) FROM events");
        for (place, found) in [
            ("files", files(&root.join("plain"), "*.jsonl")),
            ("split files", files(&root.join("split"), "*.parquet.zst")),
            ("a bucket", uuids(&fetched, "in/*.jsonl.gz")),
            ("PostgreSQL", self.database.uuids("product.events").await),
            ("ClickHouse", clickhouse.lines().map(str::to_owned).collect()),
        ] {
            assert_eq!(
                differences(&expected, &counted(found)),
                Vec::<String>::new(),
                "in {place}"
            );
        }
        // HTTP cannot take anything back: each at least once, and repeats bear the same id.
        let taken = self.receiver.requests();
        let taken = taken.iter().filter(|request| request.status == 200);
        let ids = taken.flat_map(|request| request.body["batch"].as_array().unwrap().clone());
        let mut ids: Vec<String> = ids.map(|event| event["uuid"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(
            differences(&expected, &counted(ids)),
            Vec::<String>::new(),
            "at the receiver"
        );
    }
}

fn files(folder: &Path, glob: &str) -> Vec<String> {
    let pattern = folder.join(glob);
    let pattern = pattern.to_str().unwrap();
    let reader = if glob.contains("parquet") {
        "read_parquet"
    } else {
        "read_json"
    };
    let rows = testkit::parts::duckdb(&format!("SELECT uuid FROM {reader}('{pattern}')"), &[]);
    rows.into_iter()
        .map(|row| row[0].as_str().unwrap().to_owned())
        .collect()
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
    let bytes: [u8; 4] = Chance::System.bytes();
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
    let service = Service::new(store, clock.clone(), Chance::System, instance());
    let events = Events::Embedded(Embedded::open(variable(EVENTS).as_ref()).unwrap());
    let outside = Outside {
        export_root: Some(variable(ROOT).into()),
        ..far_sides()
    };
    let exports = Exports::new(service, events, outside, 4);
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
