//! How many exports, backfills and teams there may be, and how many may be created in an hour.

use chrono::TimeDelta;
use serde_json::{Value, json};
use testkit::{Kit, on_both};

fn no_op() -> Value {
    json!({ "name": "x", "interval": "every 5 minutes", "destination": { "type": "NoOp", "config": {} } })
}

/// Creates so many at a path, however many there may be in an hour.
async fn create(kit: &Kit, path: &str, body: &Value, count: usize) {
    for number in 0..count {
        if number % 150 == 0 {
            kit.database.run("UPDATE hourly_count SET used = 0").await;
        }
        let made = kit.post(&kit.admin.key, path, body.clone()).await;
        assert!([200, 201].contains(&made.status), "{made:?}");
    }
    kit.database.run("UPDATE hourly_count SET used = 0").await;
}

on_both! {
    async fn an_organization_has_so_many_exports(kit: Kit) {
        let path = kit.at("batch_exports/");
        create(&kit, &path, &no_op(), 500).await;
        let full = kit.post(&kit.member.key, &path, no_op()).await;
        assert_eq!(full.code(), (400, "too_many_exports"), "{full:?}");
        assert!(full.text("/detail").contains("500"), "{full:?}");
        let others = format!("/api/organizations/{}/batch_exports/", kit.other);
        assert_eq!(kit.post(&kit.outsider.key, &others, no_op()).await.status, 201);
        // Deleting one makes room for another.
        let first = kit.get(&kit.member.key, &path).await.body["results"][0]["id"].as_str().unwrap().to_owned();
        assert_eq!(kit.delete(&kit.member.key, &format!("{path}{first}/")).await.status, 204);
        assert_eq!(kit.post(&kit.member.key, &path, no_op()).await.status, 201);
    }

    async fn an_organization_has_so_many_teams(kit: Kit) {
        let path = kit.at("teams/");
        let count = kit.get(&kit.admin.key, &path).await.body["count"].as_u64().unwrap();
        create(&kit, &path, &json!({ "name": "t" }), 200 - usize::try_from(count).unwrap()).await;
        let full = kit.post(&kit.owner.key, &path, json!({ "name": "t" })).await;
        assert_eq!(full.code(), (400, "too_many_teams"), "{full:?}");
        assert!(full.text("/detail").contains("200"), "{full:?}");
    }

    async fn an_export_has_so_many_backfills_that_are_not_finished(kit: Kit) {
        let now = kit.service.clock().now();
        let event = events::Incoming {
            uuid: None,
            event: "seen".to_owned(),
            distinct_id: "ann".to_owned(),
            properties: serde_json::Map::new(),
            timestamp: now,
        };
        kit.events.append(kit.team.0, vec![event], now).await.unwrap();
        let export = kit.post(&kit.admin.key, &kit.at("batch_exports/"), no_op()).await;
        let other = kit.post(&kit.admin.key, &kit.at("batch_exports/"), no_op()).await;
        kit.service.clock().advance(TimeDelta::hours(1));
        while kit.exports.schedule().await.unwrap() {}
        let path = |id: &str| kit.at(&format!("batch_exports/{id}/backfill/"));
        create(&kit, &path(export.text("/id")), &json!({}), 100).await;
        let full = kit.post(&kit.admin.key, &path(export.text("/id")), json!({})).await;
        assert_eq!(full.code(), (400, "too_many_backfills"), "{full:?}");
        // Another's is not kept waiting by them.
        let next = kit.post(&kit.admin.key, &path(other.text("/id")), json!({})).await;
        assert_eq!(next.status, 200, "{next:?}");
        while kit.exports.schedule().await.unwrap() | kit.exports.step().await.unwrap() {}
        let open: Vec<i64> = kit.database.column("SELECT count(*) FROM export_backfill WHERE finished_at IS NULL").await;
        assert_eq!(open, [0]);
        assert_eq!(kit.post(&kit.admin.key, &path(export.text("/id")), json!({})).await.status, 200);
    }

    async fn an_organization_has_so_many_backfills_that_are_not_finished(kit: Kit) {
        let now = kit.service.clock().now();
        let event = events::Incoming {
            uuid: None,
            event: "seen".to_owned(),
            distinct_id: "ann".to_owned(),
            properties: serde_json::Map::new(),
            timestamp: now,
        };
        kit.events.append(kit.team.0, vec![event], now).await.unwrap();
        let export = kit.post(&kit.admin.key, &kit.at("batch_exports/"), no_op()).await;
        let other = kit.post(&kit.admin.key, &kit.at("batch_exports/"), no_op()).await;
        kit.service.clock().advance(TimeDelta::hours(1));
        while kit.exports.schedule().await.unwrap() {}
        let path = |id: &str| kit.at(&format!("batch_exports/{id}/backfill/"));
        create(&kit, &path(export.text("/id")), &json!({}), 1).await;
        let id = if kit.database.url.starts_with("sqlite") { "randomblob(16)" } else { "gen_random_uuid()" };
        let columns = "organization_id, batch_export_id, start_at, end_at, is_resend, created_at, status, scheduled_until, \
            total_runs, skipped_runs, updated_at";
        let many = format!(
            "INSERT INTO export_backfill (id, {columns}) \
             WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
             SELECT {id}, {columns} FROM n, export_backfill"
        );
        kit.database.run(&many).await;
        let full = kit.post(&kit.admin.key, &path(other.text("/id")), json!({})).await;
        assert_eq!(full.code(), (400, "too_many_backfills"), "{full:?}");
        assert!(full.text("/detail").contains("organization can have at most 1000"), "{full:?}");
        kit.database.run("UPDATE export_backfill SET finished_at = created_at").await;
        let next = kit.post(&kit.admin.key, &path(other.text("/id")), json!({})).await;
        assert_eq!(next.status, 200, "{next:?}");
    }

    async fn so_many_exports_and_teams_are_created_in_an_hour(kit: Kit) {
        for (path, body, words) in [
            (kit.at("batch_exports/"), no_op(), "200 new batch exports per hour"),
            (kit.at("teams/"), json!({ "name": "t" }), "200 new teams per hour"),
        ] {
            kit.post(&kit.admin.key, &path, body.clone()).await;
            kit.database.run("UPDATE hourly_count SET used = 200 WHERE subject LIKE 'user %'").await;
            let dry = format!("{path}?dry_run=true");
            for path in [&path, &dry] {
                let limited = kit.post(&kit.admin.key, path, body.clone()).await;
                assert_eq!(limited.code(), (429, "throttled"), "{limited:?}");
                assert!(limited.text("/detail").contains(words), "{limited:?}");
            }
            assert_eq!(kit.post(&kit.owner.key, &path, body.clone()).await.status, 201, "others go on");
        }
        kit.database.run("UPDATE app_user SET is_operator = TRUE").await;
        let made = kit.post(&kit.admin.key, &kit.at("batch_exports/"), no_op()).await;
        assert_eq!(made.status, 201, "operators create any number: {made:?}");
    }
}
