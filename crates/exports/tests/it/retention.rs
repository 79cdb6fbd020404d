//! Runs that are over are kept for a while; what is exported next does not depend on it.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use events::Incoming;
use serde_json::{Value, json};
use service::ExportId;
use testkit::{Kit, on_both};
use tokio::time::sleep;
use uuid::Uuid;

const DAYS: i64 = 60;

/// An export with a run for each quarter of an hour of two months, delivered as time went by; but for one that was cancelled on
/// the fifth day, and four that failed on the tenth. Says where it is.
async fn two_months(kit: &Kit) -> String {
    let now = kit.service.clock().now();
    let event = Incoming {
        uuid: None,
        event: "seen".to_owned(),
        distinct_id: "ann".to_owned(),
        properties: serde_json::Map::new(),
        timestamp: now,
    };
    kit.events.append(kit.team.0, vec![event], now).await.unwrap();
    let body = json!({
        "name": "x", "interval": "every 15 minutes", "destination": { "type": "NoOp", "config": {} },
    });
    let made = kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
    kit.service.clock().advance(TimeDelta::days(DAYS));
    while kit.exports.schedule().await.unwrap() {}
    let over = "UPDATE export_run SET due_at = NULL, created_at = data_interval_end, finished_at = data_interval_end, status = ";
    kit.database.run(&format!("{over}'Completed'")).await;
    let of_day = |day: i64, count: i64| {
        format!(
            "WHERE id IN (SELECT id FROM export_run ORDER BY data_interval_start LIMIT {count} OFFSET {})",
            day * 96
        )
    };
    kit.database.run(&format!("{over}'Cancelled' {}", of_day(5, 1))).await;
    kit.database.run(&format!("{over}'Failed' {}", of_day(10, 4))).await;
    // None of them is exactly a month old.
    kit.service.clock().advance(TimeDelta::minutes(1));
    let path = kit.at(&format!("batch_exports/{}/", made.text("/id")));
    // All of this at once may be so much for a busy machine that the database counts as one that does not respond.
    let deadline = Instant::now() + Duration::from_secs(30);
    while kit.get(&kit.admin.key, &path).await.status == 503 && Instant::now() < deadline {
        sleep(Duration::from_millis(200)).await;
    }
    path
}

async fn count(kit: &Kit, sql: &'static str) -> i64 {
    kit.database.column::<i64>(sql).await[0]
}

/// As a process does it, until nothing is left to be done.
async fn tidy(kit: &Kit) {
    let first = ExportId(Uuid::nil());
    let mut after = Some(first);
    while let Some(last) = after {
        after = kit.service.forget_old_runs(last).await.unwrap();
    }
    assert_eq!(
        kit.service.forget_old_runs(first).await.unwrap().map(|_| ()),
        Some(()),
        "there is one export"
    );
}

async fn fill(kit: &Kit, path: &str, request: Value) -> Value {
    let made = kit.post(&kit.admin.key, &format!("{path}backfills/"), request).await;
    assert_eq!(made.status, 201, "{made:?}");
    while kit.exports.schedule().await.unwrap() | kit.exports.step().await.unwrap() {}
    let path = format!("{path}backfills/{}/", made.text("/id"));
    kit.get(&kit.admin.key, &path).await.body
}

on_both! {
    async fn old_runs_go_and_what_they_delivered_stays_known(kit: Kit) {
        let path = two_months(&kit).await;
        assert_eq!(count(&kit, "SELECT count(*) FROM export_run").await, DAYS * 96);
        let before = kit.get(&kit.admin.key, &path).await;
        assert_eq!(before.status, 200, "{before:?}");
        tidy(&kit).await;
        // A month of them, and those that failed, which unpausing would look for.
        assert_eq!(count(&kit, "SELECT count(*) FROM export_run").await, 30 * 96 + 4);
        assert_eq!(count(&kit, "SELECT count(*) FROM export_run WHERE status = 'Failed'").await, 4);
        assert_eq!(count(&kit, "SELECT count(*) FROM export_delivered").await, 3, "two gaps in one stretch");
        assert_eq!(kit.get(&kit.admin.key, &path).await.body["latest_runs"], before.body["latest_runs"]);

        // What was never delivered is filled, and nothing else.
        let filled = fill(&kit, &path, json!({})).await;
        assert_eq!((filled["status"].as_str(), filled["progress"]["total_runs"].as_i64()), (Some("Completed"), Some(DAYS * 96)), "{filled}");
        assert_eq!(filled["progress"]["finished_runs"], DAYS * 96, "{filled}");
        let made = "SELECT count(*) FROM export_run WHERE backfill_id IS NOT NULL";
        assert_eq!(count(&kit, made).await, 5);
        // Asked for again in so many words, all of a day is delivered again.
        let start = kit.service.clock().now() - TimeDelta::days(50);
        let request = json!({ "start_at": start, "end_at": start + TimeDelta::days(1), "resend": true });
        let again = fill(&kit, &path, request).await;
        assert_eq!(again["status"], "Completed", "{again}");
        let resent = "SELECT count(*) FROM export_run WHERE is_resend";
        assert!(count(&kit, resent).await >= 96, "{again}");
    }

    /// Their backfill counts them, and nobody tidies up while it is in progress.
    async fn runs_of_a_backfill_stay_counted(kit: Kit) {
        let path = two_months(&kit).await;
        let filled = fill(&kit, &path, json!({})).await;
        let path = format!("{path}backfills/{}/", filled["id"].as_str().unwrap());
        kit.database.run("UPDATE export_run SET created_at = data_interval_end, backfill_id = (SELECT id FROM export_backfill)").await;
        kit.database.run("UPDATE export_backfill SET finished_at = NULL").await;
        let before = kit.get(&kit.admin.key, &path).await.body["progress"].clone();
        tidy(&kit).await;
        assert_eq!(count(&kit, "SELECT count(*) FROM export_run").await, DAYS * 96, "it may still ask about them");
        kit.database.run("UPDATE export_backfill SET finished_at = created_at").await;
        tidy(&kit).await;
        assert_eq!(count(&kit, "SELECT count(*) FROM export_run").await, 30 * 96);
        assert_eq!(kit.get(&kit.admin.key, &path).await.body["progress"], before);
    }

    async fn of_a_log_the_newest_lines_are_kept(kit: Kit) {
        let body = json!({ "name": "x", "interval": "hour", "destination": { "type": "NoOp", "config": {} } });
        kit.post(&kit.admin.key, &kit.at("batch_exports/"), body).await;
        kit.service.clock().advance(TimeDelta::hours(1));
        kit.run_exports().await;
        let of_run = "SELECT count(*) FROM export_log WHERE message <> 'old'";
        let newest = count(&kit, of_run).await;
        assert!(newest > 0);
        let id = if kit.database.url.starts_with("sqlite") { "randomblob(16)" } else { "gen_random_uuid()" };
        let many = format!(
            "INSERT INTO export_log (id, organization_id, batch_export_id, run_id, level, message, created_at) \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 21000) \
             SELECT {id}, r.organization_id, r.batch_export_id, r.id, 'INFO', 'old', e.created_at \
             FROM n, export_run r, batch_export e"
        );
        kit.database.run(&many).await;
        tidy(&kit).await;
        assert_eq!(count(&kit, "SELECT count(*) FROM export_log").await, 20_000);
        assert_eq!(count(&kit, of_run).await, newest);
    }
}
