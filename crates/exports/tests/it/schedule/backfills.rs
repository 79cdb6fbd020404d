//! Backfills: what they fill, and how they are cancelled.

use chrono::TimeDelta;
use serde_json::json;
use testkit::{Kit, on_both};

use super::{Export, advance, capture, delivered, once};

on_both! {
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
}
