//! Which runs are made, and when.

use chrono::TimeDelta;
use serde_json::json;
use service::batch_exports::Coverage;
use testkit::databases::Backend;
use testkit::{Kit, on_both};

use super::{Export, advance, capture, delivered, kit_at, once, span};

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

    /// Others write between two steps, and no export waits until those before it have caught up.
    async fn one_step_makes_so_many_runs_and_each_export_gets_the_same(kit: Kit) {
        for _ in 0..25 {
            Export::new(&kit, json!({ "interval": "every 5 minutes" })).await;
        }
        advance(&kit, TimeDelta::hours(9));
        let first = kit.service.schedule_runs(TimeDelta::zero()).await.unwrap();
        assert_eq!((first.runs, first.is_more), (2000, true));
        let of_each = "SELECT count(*) FROM export_run GROUP BY batch_export_id";
        let made: Vec<i64> = kit.database.column(of_each).await;
        assert_eq!(made, [80; 25]);
        while kit.service.schedule_runs(TimeDelta::zero()).await.unwrap().is_more {}
        let made: Vec<i64> = kit.database.column(of_each).await;
        assert_eq!(made, [108; 25]);
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
        assert_eq!(delivered(&kit), once([2]), "the hour in progress, and none before it");
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
