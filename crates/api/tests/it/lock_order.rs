//! Whoever writes locks the organization first: many at once wait for each other, and nobody waits in a circle. On a machine that
//! is busy some may have to come back later, which is no circle: PostgreSQL counts those itself.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use service::access::Actor;
use service::{Error, Level, OrganizationId};
use testkit::databases::Backend;
use testkit::kit::{Person, organization_of};
use testkit::{Kit, Reply, on_both};

use crate::pipeline::hook;

const ROUNDS: usize = 12;

fn no_op() -> Value {
    json!({ "name": "Nowhere", "interval": "hour", "destination": { "type": "NoOp", "config": {} } })
}

/// Who does what, to what.
type Action<'a> = (&'a str, &'static str, String, Value);

/// Does all of it at once, and tells what failed. What is refused is fine: somebody else was faster.
async fn at_once(kit: &Kit, actions: Vec<Action<'_>>) -> Vec<String> {
    let actions = actions.into_iter().map(async |(key, method, path, body)| {
        let reply = send(kit, key, method, &path, body).await;
        (reply.status == 500).then(|| format!("{method} {path}: {reply:?}"))
    });
    join_all(actions).await.into_iter().flatten().collect()
}

async fn send(kit: &Kit, key: &str, method: &str, path: &str, body: Value) -> Reply {
    match method {
        "DELETE" => kit.delete(key, path).await,
        "PATCH" => kit.patch(key, path, body).await,
        _ => kit.post(key, path, body).await,
    }
}

/// Creates something, and tells where it is.
async fn create(kit: &Kit, path: &str, body: Value) -> (String, Value) {
    let made = kit.post(&kit.owner.key, path, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.body["id"].clone();
    (format!("{path}{}/", id.to_string().trim_matches('"')), id)
}

/// A team, an export of it, and the end of both while others still change the export.
async fn exports(kit: &Kit) -> Vec<String> {
    let (mut failed, key) = (Vec::new(), kit.owner.key.as_str());
    for _ in 0..ROUNDS {
        let (team, id) = create(kit, &kit.at("teams/"), json!({ "name": "Brief" })).await;
        let mut export = no_op();
        export["team_id"] = id;
        let (export, _) = create(kit, &kit.at("batch_exports/"), export).await;
        let backfill = json!({ "start_at": "2026-11-14T00:00:00Z", "end_at": "2026-11-15T00:00:00Z" });
        let actions = vec![
            (key, "POST", format!("{export}pause/"), json!({})),
            (key, "POST", format!("{export}unpause/"), json!({ "backfill": true })),
            (key, "POST", format!("{export}backfills/"), backfill),
            (key, "PATCH", export.clone(), json!({ "name": "Renamed" })),
            (key, "DELETE", team, Value::Null),
            (key, "DELETE", export, Value::Null),
        ];
        failed.extend(at_once(kit, actions).await);
    }
    failed
}

async fn domains(kit: &Kit) -> Vec<String> {
    let mut failed = Vec::new();
    for round in 0..ROUNDS {
        let (domain, _) = create(
            kit,
            &kit.at("domains/"),
            json!({ "domain": format!("d{round}.example") }),
        )
        .await;
        let change = json!({ "jit_provisioning_enabled": true });
        let actions = vec![
            (kit.admin.key.as_str(), "PATCH", domain.clone(), change),
            (kit.owner.key.as_str(), "DELETE", domain, Value::Null),
        ];
        failed.extend(at_once(kit, actions).await);
    }
    failed
}

async fn members(kit: &Kit) -> Vec<String> {
    let (mut failed, key) = (Vec::new(), kit.owner.key.as_str());
    for round in 0..ROUNDS {
        let guest = kit.join(&format!("guest{round}@example.com"), Level::Member).await;
        let member = kit.at(&format!("members/{}/", guest.user.uuid.0));
        let invite = json!({ "target_email": format!("new{round}@example.com") });
        let actions = vec![
            (key, "PATCH", member, json!({ "level": 8 })),
            (key, "POST", kit.at("invites/"), invite),
            (key, "PATCH", kit.at(""), json!({ "name": format!("Round {round}") })),
            (guest.key.as_str(), "DELETE", kit.at("members/@me/"), Value::Null),
        ];
        failed.extend(at_once(kit, actions).await);
    }
    failed
}

async fn apps(kit: &Kit) -> Vec<String> {
    let (mut failed, key) = (Vec::new(), kit.owner.key.as_str());
    for _ in 0..ROUNDS {
        let (app, _) = create(kit, &kit.at("pipeline_destinations/"), hook()).await;
        let (config, _) = create(kit, &format!("{app}configs/"), json!({})).await;
        let actions = vec![
            (key, "PATCH", config.clone(), json!({ "enabled": true })),
            (key, "DELETE", config, Value::Null),
            (key, "PATCH", app.clone(), json!({ "name": "Other" })),
            (key, "DELETE", app, Value::Null),
        ];
        failed.extend(at_once(kit, actions).await);
    }
    failed
}

/// Makes runs and carries them out in the meantime, as workers do.
async fn workers(kit: &Kit) -> Vec<String> {
    let mut failed = Vec::new();
    for _ in 0..ROUNDS {
        kit.service.clock().advance(chrono::TimeDelta::hours(1));
        for outcome in [kit.exports.schedule().await, kit.exports.step().await] {
            failed.extend(
                outcome
                    .err()
                    .filter(is_permanent)
                    .map(|error| format!("worker: {error:?}")),
            );
        }
    }
    failed
}

fn is_permanent(error: &Error) -> bool {
    !matches!(error, Error::Outage(_) | Error::Unavailable { .. })
}

/// How often PostgreSQL ended a transaction because two waited for each other. Its counts are complete when all connections
/// are closed.
async fn circles(kit: &Kit) -> i64 {
    const OTHERS: &str =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    const CIRCLES: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    if !kit.database.url.starts_with("postgres") {
        return 0;
    }
    kit.service.store().close().await;
    let others = async { while kit.database.column::<i64>(OTHERS).await != [0] {} };
    let closed = tokio::time::timeout(Duration::from_secs(30), others).await;
    closed.expect("connections are closed");
    kit.database.column::<i64>(CIRCLES).await[0]
}

/// An organization with more people than its owner.
async fn organization(kit: &Kit, guests: &[&Person]) -> OrganizationId {
    let (id, _) = organization_of(&kit.service, "Brief", &kit.owner).await;
    for guest in guests {
        let actor = Actor::system();
        let added = kit.service.add_member(&actor, id, &guest.user, Level::Member).await;
        added.expect("a member is added");
    }
    id
}

on_both! {
    async fn many_who_change_one_organization_do_not_wait_in_a_circle(kit: Kit) {
        let failed = tokio::join!(exports(&kit), exports(&kit), domains(&kit), members(&kit), apps(&kit), workers(&kit));
        let failed = [failed.0, failed.1, failed.2, failed.3, failed.4, failed.5].concat();
        assert!(failed.is_empty(), "{failed:#?}");
        assert_eq!(circles(&kit).await, 0);
    }

    async fn organizations_that_share_members_are_deleted_at_once(kit: Kit) {
        let guests = [kit.someone("one@example.com").await, kit.someone("two@example.com").await];
        for _ in 0..ROUNDS {
            let one = organization(&kit, &[&guests[0], &guests[1]]).await;
            let two = organization(&kit, &[&guests[1], &guests[0]]).await;
            let paths = [one, two].map(|id| format!("/api/organizations/{id}/"));
            for path in &paths {
                let export = kit.post(&kit.owner.key, &format!("{path}batch_exports/"), no_op()).await;
                assert_eq!(export.status, 201, "{export:?}");
            }
            kit.service.clock().advance(chrono::TimeDelta::hours(1));
            let (gone, scheduled) = tokio::join!(
                join_all(paths.iter().map(|path| kit.delete(&kit.owner.key, path))),
                kit.exports.schedule(),
            );
            assert!(gone.iter().all(|reply| [204, 503].contains(&reply.status)), "{gone:?}");
            assert!(!scheduled.as_ref().is_err_and(is_permanent), "{scheduled:?}");
        }
        assert_eq!(circles(&kit).await, 0);
    }

    async fn the_current_organization_is_one_of_ones_own_whatever_happens_at_once(kit: Kit) {
        const ELSEWHERE: &str = "SELECT id FROM app_user u WHERE current_organization_id IS NOT NULL AND NOT EXISTS \
            (SELECT 1 FROM member m WHERE m.user_id = u.id AND m.organization_id = current_organization_id)";
        let guest = kit.someone("guest@example.com").await;
        for round in 0..40 {
            // They are in the first one, leave it, and would go to the second.
            let first = organization(&kit, &[&guest]).await;
            let second = organization(&kit, &[&guest]).await;
            let leave = format!("/api/organizations/{first}/members/@me/");
            let other = format!("/api/organizations/{second}/");
            let (left, gone) = tokio::join!(kit.delete(&guest.key, &leave), kit.delete(&kit.owner.key, &other));
            assert!([&left, &gone].iter().all(|reply| [204, 503].contains(&reply.status)), "{left:?} {gone:?}");
            let elsewhere: Vec<i64> = kit.database.column(ELSEWHERE).await;
            assert!(elsewhere.is_empty(), "after {round} rounds: {elsewhere:?}");
        }
    }

    async fn a_current_organization_that_is_gone_is_none(kit: Kit) {
        let gone = if kit.database.url.starts_with("postgres") {
            "'00000000-0000-0000-0000-000000000001'"
        } else {
            "x'00000000000000000000000000000001'"
        };
        kit.database.run(&format!("UPDATE app_user SET current_organization_id = {gone}")).await;
        let standing = kit.service.standing(kit.owner.user.id).await.expect("an account");
        assert_eq!(standing.current_organization_id, None);
        let current = kit.get(&kit.owner.key, "/api/organizations/@current/").await;
        assert_eq!(current.status, 404);
    }
}

/// Whoever changes the database by hand may lock in another order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_was_undone_for_another_is_carried_out_again() {
    // It never finds the circle, so the change does.
    const BY_HAND: &str = "SET deadlock_timeout = '1min'; BEGIN; SELECT 1 FROM member FOR UPDATE; SELECT pg_sleep(0.6); \
                           SELECT 1 FROM organization FOR UPDATE; COMMIT";
    let kit = Kit::new(Backend::Postgres).await;
    let path = kit.at(&format!("members/{}/", kit.member.user.uuid));
    let change = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        kit.patch(&kit.owner.key, &path, json!({ "level": 8 })).await
    };
    let (reply, ()) = tokio::join!(change, kit.database.run(BY_HAND));
    assert_eq!((reply.status, &reply.body["level"]), (200, &json!(8)), "{reply:?}");
    assert_eq!(circles(&kit).await, 1, "they met");
}
