//! Clocks that are wrong, databases out of reach, and disks that are full.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use service::Clock;
use testkit::Reply;
use testkit::databases::Backend;
use testkit::external::{ClickHouse, PostgresOptions, PostgresServer, PostgresVersion, Relay};

use crate::backup::{damage, run_sql, sqlite_file};
use crate::client::Request;
use crate::home::{Home, KEY, Server, WAIT_LIMIT, until};
use crate::on_each;
use crate::replicas::{run, two};

/// It takes two seconds to know that the database is out of reach; a busy machine takes longer.
const MAX_REFUSAL: Duration = Duration::from_secs(10);

/// What runs under a clock that a test sets, by writing how far it is off into a file.
pub(crate) struct FakeClock(PathBuf);

impl FakeClock {
    pub(crate) fn new(home: &Home, off_by: &str) -> Self {
        let clock = Self(home.folder.join("clock"));
        clock.set(off_by);
        clock
    }

    fn set(&self, off_by: &str) {
        // In one step: a file that is empty for a moment would be a clock, too.
        let draft = self.0.with_extension("draft");
        fs::write(&draft, off_by).expect("a file");
        fs::rename(draft, &self.0).expect("a file");
    }

    /// Nothing but the time of day is wrong: the time since the machine started cannot be set.
    pub(crate) fn under<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", &self.0)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
    }
}

fn library() -> PathBuf {
    let libraries = testkit::external::folder().join("faketime/usr/lib");
    let mut machines = fs::read_dir(&libraries).expect("cargo xtask components installs libfaketime");
    let machine = machines
        .next()
        .expect("a folder for this machine")
        .expect("it can be read");
    machine.path().join("faketime/libfaketimeMT.so.1")
}

/// How far the server's time is off, as seen in what it makes.
fn off_by(server: &Server) -> TimeDelta {
    let made = server.post(KEY, "/api/organizations/", &json!({ "name": "Now" }));
    let at: DateTime<Utc> = made.text("/created_at").parse().expect("a time");
    at - Clock::System.now()
}

fn is_right(server: &Server) -> bool {
    off_by(server).abs() < TimeDelta::minutes(5)
}

on_each! {
    fn a_clock_that_jumps_for_some_seconds_changes_nothing(home: Home) {
        let clock = FakeClock::new(home, "+0");
        let mut command = home.keyed();
        let root = home.folder.join("exported");
        fs::create_dir_all(&root).expect("a folder");
        command.env("HEDGEROW_EXPORT_ROOT", root);
        let server = home.spawn(clock.under(&mut command)).ready();
        let body =
            json!({ "name": "x", "interval": "hour", "destination": { "type": "File", "config": { "folder": "x" } } });
        let export = server.post(KEY, "/api/organizations/@current/batch_exports/", &body);
        assert_eq!(export.status, 201, "{export:?}");
        let runs = format!("/api/organizations/@current/batch_exports/{}/runs/", export.text("/id"));
        let before = server.get(KEY, &runs).body["results"].as_array().map(Vec::len);
        for jump in ["+30d", "-30d"] {
            clock.set(jump);
            // With PostgreSQL its clock counts, so there is nothing to notice.
            if home.database.url.starts_with("sqlite") {
                until("the jump is noticed", WAIT_LIMIT, || {
                    let said = server.ask("GET", "/readyz");
                    assert_eq!(said.status, 200, "{said:?}");
                    said.body
                        .to_string()
                        .contains("the system clock has jumped")
                        .then_some(())
                });
            }
            let seen = Instant::now();
            while seen.elapsed() < Duration::from_secs(3) {
                assert!(is_right(&server), "off by {}", off_by(&server));
            }
            clock.set("+0");
            until("the clock is right again", WAIT_LIMIT, || {
                (!server.ask("GET", "/readyz").body.to_string().contains("jumped")).then_some(())
            });
        }
        let after = server.get(KEY, &runs).body["results"].as_array().map(Vec::len);
        assert!(
            after <= before.map(|before| before + 1),
            "{after:?} runs after {before:?}: an hour may have ended in the meantime"
        );
    }
}

#[test]
fn a_machine_with_a_wrong_clock_goes_by_the_database() {
    let home = Home::new(Backend::Postgres);
    for wrong in ["+1h", "-2d"] {
        let clock = FakeClock::new(&home, wrong);
        let server = home.spawn(clock.under(&mut home.keyed())).ready();
        assert!(is_right(&server), "{wrong}: off by {}", off_by(&server));
    }
}

/// A worker whose clock is ahead would end intervals that still receive events, and a server events that no interval has.
#[test]
fn events_in_clickhouse_go_by_the_database_too() {
    let (home, clickhouse) = (Home::new(Backend::Postgres), ClickHouse::start());
    let clock = FakeClock::new(&home, "+60");
    let mut command = home.keyed();
    command.env("HEDGEROW_EVENTS_URL", clickhouse.store_url());
    let server = home.spawn(clock.under(&mut command)).ready();
    assert!(off_by(&server) < TimeDelta::seconds(30), "off by {}", off_by(&server));
    let team = server.get(KEY, "/api/organizations/@current/teams/").body["results"][0].clone();
    let event = json!({ "api_key": team["api_token"], "event": "x", "distinct_id": "d" });
    let sent = server.send(Request::new("POST", "/capture/").json(&event));
    assert_eq!(sent.status, 200, "{sent:?}");
    let ahead = clickhouse.query("SELECT dateDiff('second', now(), max(inserted_at)) FROM hedgerow_events");
    let ahead: i64 = ahead.trim().parse().expect("a number of seconds");
    assert!((-30..30).contains(&ahead), "{ahead} s ahead");
}

/// The network between the server and its database swallows what is sent, and nobody is told: a statement would wait for 17 seconds.
#[test]
fn a_database_out_of_reach_is_told_soon_and_passes() {
    let home = Home::new(Backend::Postgres);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (start, rest) = home.database.url.split_once('@').expect("a user");
    let (address, name) = rest.split_once('/').expect("a name");
    let relay = runtime.block_on(Relay::start(address.parse().expect("an address")));
    let url = format!("{start}@{}/{name}", relay.address);
    let server = home.spawn(home.keyed().env("HEDGEROW_DATABASE_URL", url)).ready();
    let read = || server.get(KEY, "/api/organizations/@current/");
    let change = || server.patch(KEY, "/api/organizations/@current/", &json!({ "name": "New" }));
    let recover = || {
        until("it recovers automatically", WAIT_LIMIT, || {
            let answers = [read(), change(), server.ask("GET", "/readyz")];
            answers.iter().all(|answer| answer.status == 200).then_some(())
        });
    };
    let refuses = || {
        for ask in [&read as &dyn Fn() -> Reply, &change] {
            let began = Instant::now();
            let refused = ask();
            assert_eq!(refused.code(), (503, "unavailable"), "{refused:?}");
            assert!(!refused.header("retry-after").is_empty());
            let took = began.elapsed();
            assert!(took < MAX_REFUSAL, "{took:?}");
        }
    };
    recover();
    relay.swallow_all();
    refuses();
    assert_eq!(server.ask("GET", "/readyz").status, 503);
    relay.swallow();
    recover();
    // Only the connections there are, which were used a moment ago: nobody asks first whether they are still there.
    relay.swallow();
    let began = Instant::now();
    recover();
    assert!(began.elapsed() < MAX_REFUSAL, "{:?}", began.elapsed());
    // Nor does it hold up the end.
    relay.swallow_all();
    server.process.signal("TERM");
    server.process.end_within(Duration::from_mins(1));
}

const ORGANIZATION: &str = "/api/organizations/@current/";
const SOMEBODY: &str = "somebody@example.com";

/// A process that is stopped in the middle of a write keeps the organization's row locked, until PostgreSQL gives it up.
#[test]
fn a_replica_that_is_frozen_in_a_write_stops_nobody_for_long() {
    let home = Home::new(Backend::Postgres);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let sessions = |sql| runtime.block_on(home.database.column::<i64>(sql))[0];
    let [frozen, other] = two(&home, Home::keyed);
    // Of somebody else: one person's requests share one person's part of the connections.
    run(
        &home,
        &["users", "create", SOMEBODY, "--password", "a passphrase of somebody"],
    );
    run(&home, &["organizations", "create", "Second", "--owner", SOMEBODY]);
    let created = run(&home, &["keys", "create", SOMEBODY]);
    let key = created.split_whitespace().last().expect("a key");
    // Its last statement waits, so that it is stopped before it is done.
    let held = runtime.block_on(home.database.holding("BEGIN; LOCK TABLE activity IN SHARE MODE"));
    let rename = |server: &Server, name: &str| server.patch(KEY, ORGANIZATION, &json!({ "name": name }));
    let address = frozen.address;
    let write = Request::new("PATCH", ORGANIZATION)
        .key(KEY)
        .json(&json!({ "name": "Frozen" }));
    let interrupted = std::thread::spawn(move || write.send(address));
    until("it waits in its write", WAIT_LIMIT, || {
        (sessions(WAITING) > 0).then_some(())
    });
    frozen.process.signal("STOP");
    drop(held);
    until("nobody goes on with the write", WAIT_LIMIT, || {
        (sessions(UNFINISHED) > 0).then_some(())
    });

    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                // Not without end: it would hide that the test has failed.
                while !is_over.load(Ordering::Relaxed) && began.elapsed() < 2 * WAIT_LIMIT {
                    let refused = rename(&other, "Waiting");
                    assert!([200, 503].contains(&refused.status), "{refused:?}");
                }
            });
        }
        let recovered = until("others can change the organization", WAIT_LIMIT, || {
            for reply in [
                other.get(key, ORGANIZATION),
                other.patch(key, ORGANIZATION, &json!({ "name": "Changed" })),
                other.get(KEY, ORGANIZATION),
            ] {
                assert_eq!(reply.status, 200, "{reply:?} after {:?}", began.elapsed());
            }
            (rename(&other, "Recovered").status == 200).then(|| began.elapsed())
        });
        is_over.store(true, Ordering::Relaxed);
        assert!(recovered < Duration::from_secs(30), "{recovered:?}");
    });

    frozen.process.signal("CONT");
    let interrupted = interrupted.join().expect("a thread");
    until("it goes on", WAIT_LIMIT, || {
        (rename(&frozen, "Thawed").status == 200).then_some(())
    });
    // Whoever was told that it failed may try again.
    assert!(
        interrupted.is_err() || interrupted.is_ok_and(|reply| [200, 503].contains(&reply.status)),
        "the write that was interrupted"
    );
    assert_eq!(other.get(KEY, ORGANIZATION).text("/name"), "Thawed");
}

const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
const UNFINISHED: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'";

/// Nobody is told that their key is wrong because it cannot be read.
#[test]
fn damage_while_running_is_reported() {
    let home = Home::any();
    home.start().process.signal("TERM");
    let server = home.start();
    // What is still in the log beside the file, or was read before, would hide the damage.
    run_sql(&home, "PRAGMA wal_checkpoint(TRUNCATE)");
    damage(&sqlite_file(&home));
    let told = until("the damage is seen", WAIT_LIMIT, || {
        let read = server.get(KEY, "/api/organizations/@current/members/");
        (read.status != 200).then_some(read)
    });
    assert_eq!(told.status, 500, "{told:?}");
    assert_ne!(server.get(KEY, "/api/organizations/").status, 401);
    let log = server.process.log();
    assert!(log.contains("The database file is corrupt"), "{log}");
}

#[test]
fn a_full_postgresql_disk_is_reported_and_recovered_from() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = PostgresOptions::new(PostgresVersion::Debian).with_small_disk();
    let postgres = PostgresServer::start(options);
    let (url, disk) = runtime.block_on(postgres.small_disk());
    let home = Home::any();
    let server = home.spawn(home.keyed().env("HEDGEROW_DATABASE_URL", url)).ready();
    let create = || server.post(KEY, "/api/organizations/", &json!({ "name": "x".repeat(60) }));
    assert_eq!(create().status, 201);
    let filler = disk.join("filler");
    let written = fs::write(&filler, vec![1; 64 * 1024 * 1024]);
    assert_eq!(written.map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
    let refused = until("the disk is full", WAIT_LIMIT, || {
        let made = create();
        (made.status != 201).then_some(made)
    });
    assert_eq!(refused.code(), (503, "unavailable"), "{refused:?}");
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(server.get(KEY, ORGANIZATION).status, 200, "what is there can be read");
    let before = server.get(KEY, "/api/organizations/").body["count"].clone();
    fs::remove_file(filler).expect("room is made");
    until("it recovers automatically", WAIT_LIMIT, || {
        (create().status == 201).then_some(())
    });
    let after = server.get(KEY, "/api/organizations/").body["count"].as_u64();
    assert_eq!(
        after,
        before.as_u64().map(|before| before + 1),
        "what was refused is not there"
    );
}

#[test]
fn a_full_disk_is_reported_and_recovered_from() {
    let home = Home::any();
    let data = home.folder.join("small");
    fs::create_dir_all(&data).expect("a folder");
    // A file system of its own, which goes with the process.
    let mut command = Command::new("unshare");
    command
        .args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            "mount -t tmpfs -o size=40m small \"$0\" && exec \"$@\"",
        ])
        .arg(&data)
        .arg(home.command().get_program());
    command.env_clear().current_dir(&home.folder);
    command.envs(home.keyed().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
        .env("HEDGEROW_DATA_DIR", &data)
        .env_remove("HEDGEROW_DATABASE_URL");
    let server = home.spawn(&mut command).ready();
    // The mount is seen only from inside.
    let inside = PathBuf::from(format!("/proc/{}/root{}", server.process.id(), data.display()));
    let filler = inside.join("filler");
    let _ = fs::write(&filler, vec![1; 64 * 1024 * 1024]);
    let said = server.ask("GET", "/readyz");
    assert!(
        said.status == 503 && said.body.to_string().contains("is full"),
        "{said:?}"
    );
    let began = Instant::now();
    let refused = until("the disk is full for changes, too", WAIT_LIMIT, || {
        let made = server.post(KEY, "/api/organizations/", &json!({ "name": "x".repeat(60) }));
        (made.status != 201).then_some(made)
    });
    assert_eq!(
        refused.code(),
        (503, "unavailable"),
        "after {:?}: {refused:?}",
        began.elapsed()
    );
    assert!(!refused.header("retry-after").is_empty());
    let team = server.get(KEY, "/api/organizations/@current/teams/").body["results"][0].clone();
    let event = json!({ "api_key": team["api_token"], "event": "x", "distinct_id": "d", "properties": { "x": "y".repeat(900_000) } });
    let sent = server.send(Request::new("POST", "/capture/").json(&event));
    assert_eq!(sent.status, 503, "{sent:?}");
    fs::remove_file(filler).expect("room is made");
    until("it recovers automatically", WAIT_LIMIT, || {
        let made = server.post(KEY, "/api/organizations/", &json!({ "name": "There is room" }));
        let sent = server.send(Request::new("POST", "/capture/").json(&event));
        ((made.status, sent.status, server.ask("GET", "/readyz").status) == (201, 200, 200)).then_some(())
    });
}
