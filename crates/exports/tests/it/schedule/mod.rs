//! Runs and backfills over time, with the clock in hand. What was delivered is read off the files.

mod backfills;
mod endings;
mod intervals;
mod workers;

use std::collections::BTreeMap;
use std::path::Path;

use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Value, json};
use service::access::{ReadExports, Request};
use service::batch_exports::{Choice, Coverage, Job, Span};
use service::credentials::Credential;
use service::organizations::OrganizationRef;
use service::{Rotation, Time, WorkerId};
use testkit::Kit;
use testkit::databases::Backend;
use testkit::external::Receiver;
use testkit::kit::Surroundings;
use uuid::Uuid;

/// An export of the kind `File`, and what its owner asks about it.
struct Export<'a> {
    kit: &'a Kit,
    path: String,
}

impl<'a> Export<'a> {
    async fn new(kit: &'a Kit, over: Value) -> Self {
        let mut body = json!({
            "name": "To files", "interval": "hour", "destination": { "type": "File", "config": { "folder": "out" } },
        });
        body.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
        let reply = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        let path = kit.at(&format!("batch_exports/{}/", reply.text("/id")));
        Self { kit, path }
    }

    async fn post(&self, action: &str, body: Value) -> Value {
        let reply = self
            .kit
            .post(&self.kit.admin.key, &format!("{}{action}", self.path), body)
            .await;
        assert_eq!(reply.status, 200, "{action}: {reply:?}");
        reply.body
    }

    async fn patch(&self, body: Value) {
        let reply = self.kit.patch(&self.kit.admin.key, &self.path, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    async fn get(&self, rest: &str) -> Value {
        self.kit
            .get(&self.kit.admin.key, &format!("{}{rest}", self.path))
            .await
            .body
    }

    /// Its runs, oldest interval first: start, end, status, rows.
    async fn runs(&self) -> Vec<(String, String, String, i64)> {
        let runs = self.get("runs/?limit=1000").await;
        let text = |run: &Value, key: &str| {
            run[key]
                .as_str()
                .unwrap_or_default()
                .trim_end_matches(":00.000000Z")
                .to_owned()
        };
        let mut runs: Vec<_> = runs["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| {
                let status = run["status"].as_str().unwrap().to_owned();
                let records = run["records_completed"].as_i64().unwrap_or(-1);
                (
                    text(run, "data_interval_start"),
                    text(run, "data_interval_end"),
                    status,
                    records,
                )
            })
            .collect();
        runs.sort();
        runs
    }

    /// How its intervals stand from one time to another.
    async fn states(&self, start: &str, end: &str) -> Vec<Coverage> {
        let organization = Some(OrganizationRef::Id(self.kit.organization));
        let credential = Credential::Key(&self.kit.admin.key);
        let caller = self
            .kit
            .service
            .allowed::<ReadExports>(credential, organization, Request::default())
            .await;
        let id = self.get("").await["id"].as_str().unwrap().parse().unwrap();
        let (start, end): (Time, Time) = (start.parse().unwrap(), end.parse().unwrap());
        let covered = self
            .kit
            .service
            .coverage(&caller.unwrap(), id, Span { start, end }, Some(start))
            .await;
        covered.unwrap().into_iter().map(|part| part.coverage).collect()
    }

    async fn spans(&self) -> Vec<(String, String)> {
        self.runs()
            .await
            .into_iter()
            .map(|(start, end, _, _)| (start, end))
            .collect()
    }
}

/// The run whose turn it is, whoever's it is.
async fn claim(kit: &Kit, worker: WorkerId, busy: &[String], rotation: &Rotation) -> Option<Job> {
    let first = |due: &[service::OrganizationId], _: bool| due.first().map_or(Choice::Nobody, |id| Choice::Take(*id));
    kit.service.claim_run(worker, busy, rotation, first).await.unwrap()
}

/// Makes one of the other organization, and says its id.
async fn their_export(kit: &Kit) -> String {
    let body = json!({
        "name": "To files", "interval": "hour", "destination": { "type": "File", "config": { "folder": "out" } },
    });
    let path = format!("/api/organizations/{}/batch_exports/", kit.other);
    let reply = kit.post(&kit.outsider.key, &path, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.text("/id").to_owned()
}

fn numbered(number: u128, now: Time) -> Incoming {
    Incoming {
        uuid: Some(Uuid::from_u128(number)),
        event: "seen".to_owned(),
        distinct_id: "ann".to_owned(),
        properties: serde_json::Map::new(),
        timestamp: now,
    }
}

/// Stores an event at the clock's time, known by its number.
async fn capture(kit: &Kit, number: u128) {
    let now = kit.service.clock().now();
    kit.events
        .append(kit.team.0, vec![numbered(number, now)], now)
        .await
        .unwrap();
}

/// Below which the organization's files are written.
fn export_folder(kit: &Kit) -> std::path::PathBuf {
    let folder = kit.export_root().join(kit.organization.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// How often each event is in the files that were delivered.
fn delivered(kit: &Kit) -> BTreeMap<u128, usize> {
    let mut found = BTreeMap::new();
    read(&kit.export_root(), &mut found);
    found
}

fn read(folder: &Path, found: &mut BTreeMap<u128, usize>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, found);
        } else if path.extension().is_some_and(|end| end == "jsonl") {
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                let uuid: Uuid = row["uuid"].as_str().unwrap().parse().unwrap();
                *found.entry(uuid.as_u128()).or_default() += 1;
            }
        }
    }
}

fn once(numbers: impl IntoIterator<Item = u128>) -> BTreeMap<u128, usize> {
    numbers.into_iter().map(|number| (number, 1)).collect()
}

fn span(start: &str, end: &str) -> (String, String) {
    (start.to_owned(), end.to_owned())
}

fn advance(kit: &Kit, by: TimeDelta) {
    kit.service.clock().advance(by);
}

async fn kit_at(backend: Backend, start: &str) -> Kit {
    let start: Time = start.parse().unwrap();
    let surroundings = Surroundings {
        start,
        ..Surroundings::default()
    };
    Kit::of(backend, testkit_settings(), surroundings).await
}

fn testkit_settings() -> api::Settings {
    api::Settings::default()
}

/// How many events each request of a run had that failed after the first, and its key.
async fn sent_in_two_attempts(kit: &Kit, is_changed_between: bool) -> (Vec<usize>, Vec<String>) {
    let receiver = Receiver::start();
    let config = json!({ "url": receiver.url(), "token": "phc_token" });
    let export = Export::new(kit, json!({ "destination": { "type": "HTTP", "config": config } })).await;
    let now = kit.service.clock().now();
    let events = (0..6_000).map(|number| numbered(number, now));
    kit.events.append(kit.team.0, events.collect(), now).await.unwrap();
    // Whoever wants to be left alone for so long is asked in another attempt.
    receiver.answer(&["200", "503 1000"]);
    advance(kit, TimeDelta::hours(1));
    kit.exports.schedule().await.unwrap();
    for (status, rows) in [("FailedRetryable", 5_000), ("Completed", 6_000)] {
        assert!(kit.exports.step().await.unwrap());
        let run = export.get("runs/").await["results"][0].clone();
        let is = (run["status"].as_str(), run["records_completed"].as_u64());
        assert_eq!(is, (Some(status), Some(rows)), "{run}");
        advance(kit, TimeDelta::minutes(15));
        if is_changed_between {
            export.patch(json!({ "name": "Changed since" })).await;
        }
    }
    let requests = receiver.requests();
    let size = |body: &Value| body["batch"].as_array().unwrap().len();
    let sizes = requests.iter().map(|request| size(&request.body)).collect();
    let keys = requests
        .into_iter()
        .map(|request| request.idempotency_key.unwrap())
        .collect();
    (sizes, keys)
}
