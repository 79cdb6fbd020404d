//! Runs and backfills over time, with the clock in hand. What was delivered is read off the files.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Value, json};
use service::Rotation;
use service::Time;
use service::WorkerId;
use service::access::{ReadExports, Request};
use service::batch_exports::{Choice, Coverage, Job, Outcome, Progress, Span};
use service::credentials::Credential;
use service::mail::EmailMessage;
use service::organizations::OrganizationRef;
use testkit::databases::Backend;
use testkit::external::Receiver;
use testkit::kit::Surroundings;
use testkit::{Kit, on_both};
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

on_both! {
    async fn each_hour_is_delivered_once_after_its_end(kit: Kit) {
        capture(&kit, 1).await;
        let export = Export::new(&kit, json!({})).await;
        kit.run_exports().await;
        assert!(export.runs().await.is_empty(), "nothing is due before the hour is over");
        advance(&kit, TimeDelta::minutes(29));
        capture(&kit, 2).await;
        advance(&kit, TimeDelta::minutes(1));
        // Exactly at the boundary: it belongs to the next hour.
        capture(&kit, 3).await;
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once([1, 2]));
        advance(&kit, TimeDelta::hours(1));
        kit.run_exports().await;
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once([1, 2, 3]));
        let runs = export.runs().await;
        assert_eq!(runs[0], ("2026-11-15T09:00".into(), "2026-11-15T10:00".into(), "Completed".into(), 2));
        assert_eq!(runs.len(), 2);
        let latest = export.get("").await;
        assert_eq!(latest["latest_runs"].as_array().unwrap().len(), 2);
        let logs = export.get("logs/").await;
        assert!(logs["results"][0]["message"].as_str().unwrap().contains("Delivered 1 row ("), "{logs}");
    }

    async fn a_log_is_asked_for_by_run_level_text_and_time(kit: Kit) {
        let export = Export::new(&kit, json!({})).await;
        for number in 0..2 {
            capture(&kit, number).await;
            advance(&kit, TimeDelta::hours(1));
            kit.run_exports().await;
        }
        let count = async |path: &str| export.get(path).await["count"].as_u64().unwrap();
        let runs = export.get("runs/").await;
        let of_run = async |place: usize| {
            let id = runs["results"][place]["id"].as_str().unwrap();
            count(&format!("runs/{id}/logs/")).await
        };
        let (newer, older) = (of_run(0).await, of_run(1).await);
        assert!(newer > 0 && older > 0);
        assert_eq!(count("logs/").await, newer + older);
        assert_eq!(count("logs/?after=2026-11-15T11:00:00Z").await, newer);
        assert_eq!(count("logs/?before=2026-11-15T11:00:00Z").await, older);
        assert_eq!(count("logs/?level=INFO&search=dELIVERED%201&limit=1").await, 2);
        assert_eq!(count("logs/?level=ERROR").await, 0);
        assert_eq!(count("logs/?search=%25").await, 0, "a sign that means something to the database means itself");
    }

    async fn what_was_missed_while_nobody_worked_is_caught_up(kit: Kit) {
        let export = Export::new(&kit, json!({ "interval": "every 5 minutes" })).await;
        for number in 0..200 {
            capture(&kit, number).await;
            advance(&kit, TimeDelta::minutes(5));
        }
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once(0..200));
        let runs = export.runs().await;
        assert_eq!(runs.len(), 200);
        assert!(runs.windows(2).all(|pair| pair[0].1 == pair[1].0), "the intervals touch");
    }

    async fn what_passed_while_paused_is_filled_only_when_asked_for(kit: Kit) {
        let export = Export::new(&kit, json!({})).await;
        capture(&kit, 1).await;
        export.post("pause/", json!({})).await;
        advance(&kit, TimeDelta::hours(3));
        capture(&kit, 2).await;
        kit.run_exports().await;
        assert!(delivered(&kit).is_empty());
        export.post("unpause/", json!({})).await;
        advance(&kit, TimeDelta::hours(1));
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once([2]), "the hour under way, and none before it");
        export.post("pause/", json!({})).await;
        advance(&kit, TimeDelta::hours(2));
        capture(&kit, 3).await;
        advance(&kit, TimeDelta::hours(2));
        export.post("unpause/", json!({ "backfill": true })).await;
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once([2, 3]), "the gap is filled, without what was skipped before");
        let backfills = export.get("backfills/").await;
        assert_eq!(backfills["results"][0]["status"], "Completed");
        assert_eq!(backfills["results"][0]["progress"]["progress"], 1.0);
    }

    async fn no_run_is_made_before_the_start_or_after_the_end(kit: Kit) {
        let bounds = json!({ "start_at": "2026-11-15T12:00:00Z", "end_at": "2026-11-15T14:30:00Z" });
        let export = Export::new(&kit, bounds).await;
        advance(&kit, TimeDelta::hours(10));
        kit.run_exports().await;
        assert_eq!(
            export.spans().await,
            [span("2026-11-15T12:00", "2026-11-15T13:00"), span("2026-11-15T13:00", "2026-11-15T14:00")]
        );
        export.patch(json!({ "end_at": null })).await;
        kit.run_exports().await;
        assert_eq!(export.spans().await.len(), 7, "with the end gone it goes on where it stopped");
    }

    async fn another_interval_goes_on_where_the_last_one_ended(kit: Kit) {
        let export = Export::new(&kit, json!({})).await;
        for number in 0..48 {
            if number == 5 {
                kit.run_exports().await;
                export.patch(json!({ "interval": "day" })).await;
            }
            capture(&kit, number).await;
            advance(&kit, TimeDelta::hours(1));
        }
        kit.run_exports().await;
        let spans = export.spans().await;
        assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap and no overlap: {spans:?}");
        assert_eq!(spans.last().unwrap(), &span("2026-11-16T00:00", "2026-11-17T00:00"));
        assert_eq!(delivered(&kit), once(0..39), "everything before the last boundary, once");
    }

    async fn a_long_run_counts_up_to_its_end_under_a_short_interval(kit: Kit) {
        capture(&kit, 1).await;
        let export = Export::new(&kit, json!({ "interval": "week" })).await;
        advance(&kit, TimeDelta::days(1));
        kit.run_exports().await;
        let week = span("2026-11-09T00:00", "2026-11-16T00:00");
        assert_eq!(export.spans().await, std::slice::from_ref(&week));
        export.patch(json!({ "interval": "hour" })).await;
        let last_hours = json!({ "start_at": "2026-11-15T22:00:00Z", "end_at": "2026-11-16T00:00:00Z" });
        export.post("backfill/", last_hours).await;
        kit.run_exports().await;
        let spans = export.spans().await;
        assert_eq!((&spans[0], spans.len()), (&week, 10), "nothing is delivered twice: {spans:?}");
        assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap and no overlap: {spans:?}");
        assert_eq!(export.states("2026-11-15T22:00:00Z", "2026-11-16T00:00:00Z").await, [Coverage::Delivered; 2]);
        for (filter, found) in [
            ("after=2026-11-15T23:59:59Z&before=2026-11-16T00:00:00Z", 1),
            ("after=2026-11-16T00:00:00Z", 9),
            ("before=2026-11-16T00:00:00Z", 1),
            ("after=2026-11-15T23:00:00Z&status=Completed", 10),
            ("status=Failed", 0),
        ] {
            let page = export.get(&format!("runs/?limit=5&{filter}")).await;
            let shown = page["results"].as_array().unwrap().len();
            assert_eq!((&page["count"], shown), (&json!(found), found.min(5)), "{filter}");
        }
    }

    async fn a_backfill_fills_gaps_and_sends_nothing_twice_unless_told_to(kit: Kit) {
        for number in 0..6 {
            capture(&kit, number).await;
            advance(&kit, TimeDelta::hours(1));
        }
        let export = Export::new(&kit, json!({})).await;
        capture(&kit, 6).await;
        advance(&kit, TimeDelta::hours(1));
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once([6]));
        let answer = export.post("backfill/", json!({})).await;
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once(0..7), "from the earliest data to where the schedule began");
        let id = answer["backfill_id"].as_str().unwrap();
        let backfill = export.get(&format!("backfills/{id}/")).await;
        assert_eq!((&backfill["status"], &backfill["progress"]["total_runs"]), (&json!("Completed"), &json!(7)));
        export.post("backfill/", json!({ "start_at": "2026-11-15T09:00:00Z" })).await;
        kit.run_exports().await;
        assert_eq!(export.runs().await.len(), 7, "all of it was delivered");
        let again = export.post("backfill/", json!({ "start_at": "2026-11-15T09:00:00Z", "resend": true })).await;
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once(0..7), "sent again, and replaced");
        let id = again["backfill_id"].as_str().unwrap();
        let resent = export.get(&format!("runs/?backfill={id}")).await;
        assert_eq!(resent["count"], 7);
    }

    async fn a_long_backfill_makes_its_runs_a_few_at_a_time_and_can_be_cancelled(kit: Kit) {
        capture(&kit, 1).await;
        advance(&kit, TimeDelta::days(60));
        let export = Export::new(&kit, json!({ "interval": "every 5 minutes" })).await;
        let answer = export.post("backfill/", json!({})).await;
        kit.exports.schedule().await.unwrap();
        let made = export.get("runs/").await["count"].as_i64().unwrap();
        assert!((1..=400).contains(&made), "{made}");
        let path = format!("backfills/{}/", answer["backfill_id"].as_str().unwrap());
        let backfill = export.get(&path).await;
        assert_eq!(backfill["progress"]["total_runs"], 60 * 288);
        let cancelled = export.post(&format!("{path}cancel/"), json!({})).await;
        assert_eq!(cancelled["status"], "Cancelled");
        kit.run_exports().await;
        assert!(delivered(&kit).is_empty());
        assert!(export.runs().await.iter().all(|run| run.2 == "Cancelled"));
    }

    async fn several_schedulers_and_workers_share_the_work_without_doubling_it(kit: Kit) {
        let mut exports = Vec::new();
        for _ in 0..10 {
            exports.push(Export::new(&kit, json!({ "destination": { "type": "NoOp", "config": {} } })).await);
        }
        advance(&kit, TimeDelta::hours(6));
        let work = || async { while kit.exports.schedule().await.unwrap() | kit.exports.step().await.unwrap() {} };
        tokio::join!(work(), work(), work(), work());
        for export in &exports {
            let runs = export.runs().await;
            assert_eq!(runs.len(), 6);
            assert!(runs.iter().all(|run| run.2 == "Completed"), "{runs:?}");
        }
    }

    async fn the_many_runs_of_one_organization_keep_nobody_elses_waiting(kit: Kit) {
        for _ in 0..5 {
            Export::new(&kit, json!({ "interval": "every 5 minutes" })).await;
        }
        advance(&kit, TimeDelta::hours(10));
        their_export(&kit).await;
        advance(&kit, TimeDelta::hours(1));
        while kit.exports.schedule().await.unwrap() {}
        let (rotation, worker) = (Rotation::default(), WorkerId(Uuid::from_u128(7)));
        let mut organizations = Vec::new();
        for _ in 0..20 {
            let job = claim(&kit, worker, &[], &rotation).await.unwrap();
            organizations.push(job.run.organization_id);
        }
        assert!(organizations[..2].contains(&kit.other), "{organizations:?}");
        assert_eq!(organizations.iter().filter(|id| **id == kit.other).count(), 1, "{organizations:?}");
    }

    async fn what_goes_to_a_busy_place_waits(kit: Kit) {
        Export::new(&kit, json!({})).await;
        their_export(&kit).await;
        advance(&kit, TimeDelta::hours(1));
        while kit.exports.schedule().await.unwrap() {}
        let (rotation, worker) = (Rotation::default(), WorkerId(Uuid::from_u128(7)));
        let first = claim(&kit, worker, &[], &rotation).await.unwrap();
        let busy = [first.run.place.clone()];
        let next = claim(&kit, worker, &busy, &rotation).await.unwrap();
        assert_ne!(first.run.place, next.run.place, "a folder of the same name is another place");
        kit.service.release_run(&first, &Progress::default()).await.unwrap();
        assert!(claim(&kit, worker, &busy, &rotation).await.is_none());
        assert!(claim(&kit, worker, &[], &rotation).await.is_some());
    }

    /// Two organizations have all slots, and their receivers never answer.
    async fn receivers_that_never_answer_keep_nobody_else_waiting(kit: Kit) {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            let mut connections = Vec::new();
            while let Ok(connection) = silent.accept().await {
                connections.push(connection);
            }
        });
        let theirs = format!("/api/organizations/{}/", kit.other);
        for number in 0..3 {
            let config = json!({ "url": format!("http://{address}/{number}/"), "token": "t" });
            let body = json!({ "name": "Silent", "interval": "hour", "destination": { "type": "HTTP", "config": config } });
            for (key, at) in [(&kit.admin.key, kit.at("")), (&kit.outsider.key, theirs.clone())] {
                let made = kit.post(key, &format!("{at}batch_exports/"), body.clone()).await;
                assert_eq!(made.status, 201, "{made:?}");
            }
        }
        capture(&kit, 1).await;
        let teams = kit.get(&kit.outsider.key, &format!("{theirs}teams/")).await;
        let (team, now) = (teams.body["results"][0]["id"].as_i64().unwrap(), kit.service.clock().now());
        kit.events.append(team, vec![numbered(2, now)], now).await.unwrap();
        let third = kit.post(&kit.outsider.key, "/api/organizations/", json!({ "name": "Third" })).await;
        let third = format!("/api/organizations/{}/batch_exports/", third.text("/id"));
        let body = json!({ "name": "Quick", "interval": "hour", "destination": { "type": "NoOp", "config": {} } });
        let runs = format!("{third}{}/runs/", kit.post(&kit.outsider.key, &third, body).await.text("/id"));
        advance(&kit, TimeDelta::hours(1));
        while kit.exports.schedule().await.unwrap() {}
        let stop = tokio_util::sync::CancellationToken::new();
        let work = tokio::spawn({
            let (exports, stop) = (kit.exports.clone(), stop.clone());
            async move { exports.work(stop).await }
        });
        let running = || kit.database.column::<i64>("SELECT count(*) FROM export_run WHERE status = 'Running'");
        let quick = || async { kit.get(&kit.outsider.key, &runs).await.body["results"][0].clone() };
        let until = |wanted: [i64; 1]| async move {
            while running().await != wanted || quick().await["status"] != "Completed" {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_mins(1), until([6])).await.expect("all of them begin");
        for _ in 0..3 {
            let again = format!("{runs}{}/retry/", quick().await["id"].as_str().unwrap());
            assert_eq!(kit.post(&kit.outsider.key, &again, json!({})).await.status, 200);
            tokio::time::timeout(std::time::Duration::from_secs(20), until([6])).await.expect("it is served");
        }
        stop.cancel();
        work.await.unwrap();
        accepting.abort();
    }

    /// Ten of them in memory would be more than anybody needs, and a run of such rows never ends well.
    async fn rows_that_are_too_large_end_a_run_and_say_so(kit: Kit) {
        let columns: Vec<_> = (0..40).map(|number| format!("properties AS c{number}")).collect();
        let query = format!("SELECT {} FROM events", columns.join(", "));
        let export = Export::new(&kit, json!({ "hogql_query": query })).await;
        let now = kit.service.clock().now();
        let mut event = numbered(1, now);
        event.properties.insert("a".to_owned(), json!("a".repeat(500_000)));
        kit.events.append(kit.team.0, vec![event], now).await.unwrap();
        advance(&kit, TimeDelta::hours(1));
        kit.exports.schedule().await.unwrap();
        assert!(kit.exports.step().await.unwrap());
        let run = export.get("runs/").await["results"][0].clone();
        assert_eq!(run["status"], "Failed", "trying again would not help: {run}");
        assert!(run["latest_error"].as_str().unwrap().contains("more than 16 MiB"), "{run}");
    }

    async fn a_dead_workers_run_is_taken_over_and_its_ghost_writes_nothing(kit: Kit) {
        let export = Export::new(&kit, json!({})).await;
        capture(&kit, 1).await;
        advance(&kit, TimeDelta::hours(1));
        kit.exports.schedule().await.unwrap();
        let ghost = claim(&kit, WorkerId(Uuid::from_u128(7)), &[], &Rotation::default()).await.unwrap();
        assert!(!kit.exports.step().await.unwrap(), "it is held");
        advance(&kit, TimeDelta::seconds(59));
        assert!(kit.exports.step().await.unwrap(), "within a minute another takes over");
        assert_eq!(delivered(&kit), once([1]));
        assert!(!kit.service.renew_lease(&ghost, &Progress::default()).await.unwrap());
        let late = Outcome::Failed { error: "a ghost's word".to_owned(), is_permanent: true, delivered: Progress::default() };
        assert!(!kit.service.finish_run(&ghost, &late).await.unwrap());
        assert_eq!(export.runs().await[0].2, "Completed");
    }

    async fn a_failed_run_counts_what_the_destination_took_and_nothing_else(kit: Kit) {
        let receiver = Receiver::start();
        let config = json!({ "url": receiver.url(), "token": "phc_token" });
        let export = Export::new(&kit, json!({ "destination": { "type": "HTTP", "config": config } })).await;
        let now = kit.service.clock().now();
        for some in 0..3 {
            let events = (0..2_000).map(|number| numbered(some * 2_000 + number, now));
            kit.events.append(kit.team.0, events.collect(), now).await.unwrap();
        }
        receiver.answer(&["200", "400"]);
        advance(&kit, TimeDelta::hours(1));
        kit.exports.schedule().await.unwrap();
        assert!(kit.exports.step().await.unwrap());
        let run = export.get("runs/").await["results"][0].clone();
        let taken = receiver.requests()[0].clone();
        assert_eq!((run["status"].as_str(), run["records_completed"].as_u64()), (Some("Failed"), Some(5_000)), "{run}");
        assert_eq!(run["records_total_count"], 6_000);
        assert_eq!(run["bytes_exported"].as_u64(), Some(taken.size as u64), "as they were sent");

        receiver.answer(&["400"]);
        let id = run["id"].as_str().unwrap();
        export.post(&format!("runs/{id}/retry/"), json!({})).await;
        assert!(kit.exports.step().await.unwrap());
        let run = export.get("runs/").await["results"][0].clone();
        assert_eq!((run["records_completed"].as_u64(), run["bytes_exported"].as_u64()), (Some(0), Some(0)), "{run}");
        let shown = run["records_read"].as_u64().unwrap();
        assert!(shown <= 6_000, "{run}");
    }

    async fn a_run_held_until_a_time_far_ahead_is_taken_over_when_the_clock_is_right(kit: Kit) {
        let export = Export::new(&kit, json!({})).await;
        capture(&kit, 1).await;
        advance(&kit, TimeDelta::hours(1));
        kit.exports.schedule().await.unwrap();
        let ahead = TimeDelta::days(30);
        // Whoever holds it dies, and a start with the right clock finds what it left.
        advance(&kit, ahead);
        claim(&kit, WorkerId(Uuid::from_u128(7)), &[], &Rotation::default()).await.unwrap();
        advance(&kit, -ahead);
        assert!(!kit.exports.step().await.unwrap(), "it is held for 30 days");
        assert_eq!(kit.service.recover_from_clock().await.unwrap().recalled, 1);
        assert!(kit.exports.step().await.unwrap());
        assert_eq!(export.runs().await[0].2, "Completed");
        assert_eq!(kit.service.recover_from_clock().await.unwrap().recalled, 0);
    }

    async fn an_http_run_goes_on_behind_what_was_acknowledged(kit: Kit) {
        let (sizes, keys) = sent_in_two_attempts(&kit, false).await;
        assert_eq!(sizes, [5_000, 1_000, 1_000]);
        assert!(keys[0] != keys[1] && keys[1] == keys[2], "the same rows, the same key: {keys:?}");
    }

    async fn an_http_run_of_an_export_that_was_changed_starts_again(kit: Kit) {
        let (sizes, keys) = sent_in_two_attempts(&kit, true).await;
        assert_eq!(sizes, [5_000, 1_000, 5_000, 1_000]);
        assert_eq!(keys[..2], keys[2..]);
    }

    async fn a_run_that_fails_before_its_commit_has_delivered_nothing(kit: Kit) {
        let export = Export::new(&kit, json!({})).await;
        for number in 0..5 {
            capture(&kit, number).await;
        }
        // What would be the delivery's folder is a file.
        std::fs::write(export_folder(&kit).join("out"), "in the way").unwrap();
        advance(&kit, TimeDelta::hours(1));
        kit.exports.schedule().await.unwrap();
        assert!(kit.exports.step().await.unwrap());
        let run = export.get("runs/").await["results"][0].clone();
        assert_ne!(run["status"], "Completed");
        assert_eq!((run["records_completed"].as_u64(), run["bytes_exported"].as_u64()), (Some(0), Some(0)), "{run}");
        assert_eq!(run["records_total_count"], 5);
    }

    async fn a_cancelled_run_counts_what_was_delivered_before_its_worker_noticed(kit: Kit) {
        let export = Export::new(&kit, json!({})).await;
        capture(&kit, 1).await;
        advance(&kit, TimeDelta::hours(1));
        kit.exports.schedule().await.unwrap();
        let job = claim(&kit, WorkerId(Uuid::from_u128(7)), &[], &Rotation::default()).await.unwrap();
        let progress = Progress { records: 0, bytes: 0, read: 700, total: Some(900) };
        assert!(kit.service.renew_lease(&job, &progress).await.unwrap());
        let run = export.get("runs/").await["results"][0].clone();
        assert_eq!((run["records_completed"].as_u64(), run["records_read"].as_u64()), (Some(0), Some(700)), "{run}");
        export.post(&format!("runs/{}/cancel/", job.run.id), json!({})).await;
        let delivered = Progress { records: 500, bytes: 50_000, read: 800, total: None };
        kit.service.note_cancelled_run(&job, &delivered).await.unwrap();
        let run = export.get("runs/").await["results"][0].clone();
        let counts = (run["records_completed"].as_u64(), run["bytes_exported"].as_u64());
        assert_eq!((run["status"].as_str(), counts), (Some("Cancelled"), (Some(500), Some(50_000))), "{run}");

        export.post(&format!("runs/{}/retry/", job.run.id), json!({})).await;
        assert!(kit.exports.step().await.unwrap());
        kit.service.note_cancelled_run(&job, &delivered).await.unwrap();
        assert_eq!(export.runs().await[0].3, 1, "what came after it is not touched");
    }

    async fn what_can_pass_is_tried_again_later_and_what_cannot_pauses_the_export(kit: Kit) {
        let kit = kit.with_mail().await;
        // Nobody listens there: it may well be back soon.
        let away = json!({ "host": "127.0.0.1", "port": 9, "user": "u", "password": "p", "database": "d" });
        let away = json!({ "destination": { "type": "Postgres", "config": away } });
        let retryable = Export::new(&kit, away).await;
        capture(&kit, 1).await;
        advance(&kit, TimeDelta::hours(1));
        kit.run_exports().await;
        assert_eq!(retryable.runs().await[0].2, "FailedRetryable");
        assert!(!kit.exports.step().await.unwrap(), "not at once");
        advance(&kit, TimeDelta::seconds(6));
        assert!(kit.exports.step().await.unwrap(), "a little later");
        let error = retryable.get("").await["latest_runs"][0]["latest_error"].as_str().unwrap().to_owned();
        assert!(error.contains("Check"), "a sentence to act on: {error}");
        retryable.patch(json!({ "paused": true })).await;
        let broken = Export::new(&kit, json!({ "destination": { "type": "File", "config": { "folder": "blocked" } } })).await;
        // A file is where the folder should be.
        std::fs::write(export_folder(&kit).join("blocked"), "x").unwrap();
        for number in 0..7 {
            capture(&kit, 10 + number).await;
            advance(&kit, TimeDelta::hours(1));
            kit.run_exports().await;
        }
        let seen = broken.get("").await;
        assert_eq!(seen["paused"], true, "{seen}");
        let failed = broken.runs().await.iter().filter(|run| run.2 == "Failed").count();
        assert_eq!(failed, 5);
        let emails = kit.emails().await;
        let mut told: Vec<&str> = emails.iter()
            .filter(|(_, email)| matches!(email, EmailMessage::ExportPaused { .. }))
            .map(|(to, _)| to.as_str()).collect();
        told.sort_unstable();
        assert_eq!(told, ["adam@example.com", "olga@example.com"]);
        std::fs::remove_file(export_folder(&kit).join("blocked")).unwrap();
        broken.post("unpause/", json!({ "backfill": true })).await;
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once(10..17), "what failed is caught up, too");
    }

    async fn a_cancelled_or_deleted_run_is_let_go(kit: Kit) {
        let export = Export::new(&kit, json!({})).await;
        capture(&kit, 1).await;
        advance(&kit, TimeDelta::hours(1));
        kit.exports.schedule().await.unwrap();
        let job = claim(&kit, WorkerId(Uuid::from_u128(7)), &[], &Rotation::default()).await.unwrap();
        let path = format!("runs/{}/", job.run.id);
        assert_eq!(export.post(&format!("{path}cancel/"), json!({})).await["status"], "Cancelled");
        assert!(!kit.service.renew_lease(&job, &Progress::default()).await.unwrap(), "its holder learns of it");
        let again = kit.post(&kit.admin.key, &format!("{}{path}cancel/", export.path), json!({})).await;
        assert_eq!(again.status, 400);
        export.post(&format!("{path}retry/"), json!({})).await;
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once([1]));
        advance(&kit, TimeDelta::hours(1));
        kit.exports.schedule().await.unwrap();
        let job = claim(&kit, WorkerId(Uuid::from_u128(8)), &[], &Rotation::default()).await.unwrap();
        assert_eq!(kit.delete(&kit.admin.key, &export.path).await.status, 204);
        assert!(!kit.service.finish_run(&job, &Outcome::Completed(Progress::default())).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weeks_begin_on_monday_and_leap_days_are_days() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let kit = kit_at(backend, "2028-02-26T22:00:00Z").await;
        let day = Export::new(&kit, json!({ "interval": "day" })).await;
        let week = Export::new(
            &kit,
            json!({ "interval": "week", "destination": { "type": "NoOp", "config": {} } }),
        )
        .await;
        for number in 0..10 {
            capture(&kit, number).await;
            advance(&kit, TimeDelta::hours(12));
            kit.run_exports().await;
        }
        let days = day.spans().await;
        assert!(days.contains(&span("2028-02-29T00:00", "2028-03-01T00:00")), "{days:?}");
        assert!(days.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(week.spans().await, [span("2028-02-21T00:00", "2028-02-28T00:00")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_back_loses_and_doubles_nothing() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let kit = Kit::new(backend).await;
        Export::new(&kit, json!({})).await;
        let hours = [1, 1, -2, 1, 1, 1, -1, 3, 1];
        for (number, by) in hours.into_iter().enumerate() {
            capture(&kit, number as u128).await;
            advance(&kit, TimeDelta::hours(by));
            kit.run_exports().await;
        }
        advance(&kit, TimeDelta::hours(24));
        kit.run_exports().await;
        assert_eq!(delivered(&kit), once(0..hours.len() as u128));
    }
}
