//! Several workers and organizations, and who comes next.

use chrono::TimeDelta;
use serde_json::json;
use service::batch_exports::{Outcome, Progress};
use service::{Rotation, WorkerId};
use testkit::{Kit, on_both};
use uuid::Uuid;

use super::{Export, advance, capture, claim, delivered, numbered, once, their_export};

on_both! {
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
        let busy = [first.run.destination_key.clone()];
        let next = claim(&kit, worker, &busy, &rotation).await.unwrap();
        assert_ne!(first.run.destination_key, next.run.destination_key, "the same name is another destination");
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
}
