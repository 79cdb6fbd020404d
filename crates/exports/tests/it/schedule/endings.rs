//! How runs end: what they delivered, what is tried again, and what the log says.

use chrono::TimeDelta;
use serde_json::json;
use service::batch_exports::{Outcome, Progress};
use service::mail::EmailMessage;
use service::{Rotation, WorkerId};
use testkit::external::Receiver;
use testkit::{Kit, on_both};
use uuid::Uuid;

use super::{Export, advance, capture, claim, delivered, export_folder, numbered, once, sent_in_two_attempts};

on_both! {
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
        assert!(!kit.exports.step().await.unwrap(), "not immediately");
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
        let backfill = json!({ "start_at": "2026-11-14T00:00:00Z", "end_at": "2026-11-15T00:00:00Z" });
        export.post("backfill/", backfill).await;
        assert_eq!(kit.delete(&kit.admin.key, &export.path).await.status, 204);
        assert!(!kit.service.renew_lease(&job, &Progress::default()).await.unwrap());
        assert!(!kit.service.finish_run(&job, &Outcome::Completed(Progress::default())).await.unwrap());
        assert!(!kit.exports.step().await.unwrap(), "nobody takes what is left");
        let left = async || {
            let sql = "SELECT count(*) FROM export_run UNION ALL SELECT count(*) FROM export_log \
                UNION ALL SELECT count(*) FROM export_backfill UNION ALL SELECT count(*) FROM export_delivered \
                UNION ALL SELECT count(*) FROM deleted_export";
            kit.database.column::<i64>(sql).await
        };
        kit.database.run("INSERT INTO export_delivered SELECT batch_export_id, created_at, created_at FROM export_run LIMIT 1").await;
        assert!(!left().await.contains(&0), "there is something of everything");
        while kit.service.delete_leftovers().await.unwrap() {}
        assert_eq!(left().await, [0; 5]);
    }
}
