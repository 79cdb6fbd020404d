//! The database is out of reach, or somebody keeps it busy: requests end soon, and go on by themselves when it is back.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use service::access::{ChangeOrganization, ReadOrganization, Request};
use service::credentials::Credential;
use service::organizations::{OrganizationPatch, OrganizationRef};
use service::{Error, RandomSource, Service, Store};
use testkit::Kit;
use testkit::databases::Backend;
use testkit::external::Relay;

const CONNECTIONS: u32 = 4;

/// A replica behind a network of its own.
async fn behind_relay(kit: &Kit) -> (Relay, Service) {
    let (start, rest) = kit.database.url.split_once('@').unwrap();
    let (server, name) = rest.split_once('/').unwrap();
    let relay = Relay::start(server.parse::<SocketAddr>().unwrap()).await;
    let url = format!("{start}@{}/{name}", relay.address);
    let store = Store::open(&url, CONNECTIONS).await.unwrap();
    let instance = testkit::kit::instance();
    let service = Service::new(store, kit.service.clock().clone(), RandomSource::System, instance);
    (relay, service)
}

async fn read(kit: &Kit, service: &Service) -> Result<(), Error> {
    let organization = Some(OrganizationRef::Id(kit.organization));
    let credential = Credential::Key(&kit.owner.key);
    let caller = service.allowed::<ReadOrganization>(credential, organization, Request::default());
    caller.await.map(drop)
}

#[tokio::test]
async fn connections_that_died_silently_are_replaced() {
    let kit = Kit::new(Backend::Postgres).await;
    let (relay, service) = behind_relay(&kit).await;
    let all = || join_all((0..2 * CONNECTIONS).map(|_| read(&kit, &service)));
    // Those that were used a moment ago are found out by the statement that gets no answer; the others before they are used.
    for idle in [Duration::ZERO, Duration::from_millis(1_100)] {
        assert!(all().await.iter().all(Result::is_ok), "all of them");
        tokio::time::sleep(idle).await;
        relay.swallow();
        let since = Instant::now();
        while let Err(error) = read(&kit, &service).await {
            assert!(matches!(error, Error::Outage(_)), "{error:?}");
            assert!(since.elapsed() < Duration::from_secs(30), "it recovers automatically");
        }
        assert!(all().await.iter().all(Result::is_ok), "all of them");
        assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    }
}

#[tokio::test]
async fn a_lock_that_nobody_gives_back_keeps_no_readers_waiting() {
    let kit = Kit::new(Backend::Postgres).await;
    // As another replica that was stopped in the middle of a write.
    let frozen = kit
        .database
        .holding("BEGIN; SELECT 1 FROM organization FOR UPDATE")
        .await;
    let since = Instant::now();
    let path = kit.at("");
    let writes = join_all((0..12).map(|number| {
        let (kit, path) = (&kit, &path);
        async move {
            kit.patch(&kit.owner.key, path, json!({ "name": format!("Name {number}") }))
                .await
        }
    }));
    let reads = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let asked = Instant::now();
        let reads = join_all((0..20).map(|_| kit.get(&kit.outsider.key, "/api/users/@me/"))).await;
        (reads, asked.elapsed())
    };
    let (writes, (reads, took)) = tokio::join!(writes, reads);
    for write in &writes {
        // Either the lock was not given back, or the others who wait for it were in the way.
        let (status, code) = write.code();
        assert!(
            status == 503 && ["unavailable", "server_busy"].contains(&code),
            "{write:?}"
        );
        assert_eq!(write.header("retry-after"), "2");
        assert!(write.text("/detail").contains("database"), "{write:?}");
    }
    assert!(since.elapsed() < Duration::from_secs(40), "{:?}", since.elapsed());
    assert!(reads.iter().all(|reply| reply.status < 500), "{reads:?}");
    assert!(
        took < Duration::from_secs(3),
        "readers have connections of their own: {took:?}"
    );
    drop(frozen);
    assert_eq!(
        kit.patch(&kit.owner.key, &path, json!({ "name": "Free" })).await.status,
        200
    );
}

/// A change of a table that waits for its lock has everybody wait behind it who only reads.
#[tokio::test]
async fn a_migration_gives_up_a_lock_soon_and_tries_again() {
    let kit = Kit::new(Backend::Postgres).await;
    let held = kit
        .database
        .holding("BEGIN; LOCK TABLE _sqlx_migrations IN ACCESS EXCLUSIVE MODE")
        .await;
    let store = kit.database.open().await;
    let watching = async {
        let mut attempts = HashSet::new();
        let since = Instant::now();
        while attempts.len() < 2 {
            let waiting =
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            attempts.extend(kit.database.column::<i32>(waiting).await);
            assert!(since.elapsed() < Duration::from_mins(1), "it waits for ever");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        drop(held);
    };
    let (migrated, ()) = tokio::join!(store.migrate(), watching);
    migrated.unwrap();
}

/// A concurrent index build that gave up leaves an index that nobody uses, and whose name is taken.
#[tokio::test]
async fn a_migration_that_failed_leaves_no_invalid_index() {
    let kit = Kit::new(Backend::Postgres).await;
    let database = &kit.database;
    let broken = "CREATE INDEX broken ON team (id);
        UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'broken'::REGCLASS";
    database.run(broken).await;
    let invalid = "SELECT relname::TEXT FROM pg_index JOIN pg_class ON oid = indexrelid WHERE NOT indisvalid";
    assert_eq!(database.column::<String>(invalid).await, ["broken"]);
    let held = database
        .holding("BEGIN; LOCK TABLE _sqlx_migrations IN ACCESS EXCLUSIVE MODE")
        .await;
    let store = database.open().await;
    let watching = async {
        let since = Instant::now();
        while !database.column::<String>(invalid).await.is_empty() {
            assert!(since.elapsed() < Duration::from_mins(1), "it is never dropped");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        drop(held);
    };
    let (migrated, ()) = tokio::join!(store.migrate(), watching);
    migrated.unwrap();
}

/// A statement that waits for a lock has a snapshot that concurrent index builds wait for.
#[tokio::test]
async fn whoever_waits_for_another_that_migrates_has_no_statement_open() {
    let kit = Kit::new(Backend::Postgres).await;
    // The bytes of "hedgerow".
    let held = kit
        .database
        .holding("SELECT pg_advisory_lock(7522529147838689143)")
        .await;
    let store = kit.database.open().await;
    let watching = async {
        for _ in 0..20 {
            let waiting =
                "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            assert!(kit.database.column::<String>(waiting).await.is_empty());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        drop(held);
    };
    let since = Instant::now();
    let (migrated, ()) = tokio::join!(store.migrate(), watching);
    migrated.unwrap();
    assert!(since.elapsed() >= Duration::from_secs(2), "it did not wait");
}

#[tokio::test]
async fn whoever_stops_in_the_middle_of_a_write_loses_the_lock() {
    let kit = Kit::new(Backend::Postgres).await;
    let (relay, service) = behind_relay(&kit).await;
    let activity = kit
        .database
        .holding("BEGIN; LOCK TABLE activity IN EXCLUSIVE MODE")
        .await;
    let stopped = tokio::spawn({
        let (organization, key) = (kit.organization, kit.owner.key.clone());
        async move {
            let organization = Some(OrganizationRef::Id(organization));
            let caller = service.allowed::<ChangeOrganization>(Credential::Key(&key), organization, Request::default());
            let patch = OrganizationPatch {
                name: None,
                is_member_join_email_enabled: None,
                enforce_2fa: Some(true),
            };
            service
                .update_organization(&caller.await.unwrap(), &patch, &service::no_precondition)
                .await
                .map(drop)
        }
    });
    // It has locked the organization, and waits for the activity log.
    tokio::time::sleep(Duration::from_millis(500)).await;
    relay.swallow();
    drop(activity);
    let since = Instant::now();
    let path = kit.at("");
    let mut reply = kit.patch(&kit.owner.key, &path, json!({ "name": "Other" })).await;
    assert_eq!(reply.status, 503, "the lock is held: {reply:?}");
    while reply.status != 200 {
        assert_eq!(reply.status, 503);
        assert!(since.elapsed() < Duration::from_mins(1), "it is never given back");
        reply = kit.patch(&kit.owner.key, &path, json!({ "name": "Other" })).await;
    }
    assert_eq!(
        reply.body["enforce_2fa"], false,
        "nothing of what was not committed is left"
    );
    assert!(matches!(stopped.await.unwrap(), Err(Error::Outage(_))));
}
