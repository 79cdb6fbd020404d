//! Backups, restores, and stores that do not belong together.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::databases::Backend;
use testkit::external::ClickHouse;

use crate::client::Request;
use crate::home::{Ended, Home, KEY, Server};
use crate::on_each;

const BATCH: usize = 20;

fn backend(home: &Home) -> Backend {
    if home.database.url.starts_with("sqlite") {
        Backend::Sqlite
    } else {
        Backend::Postgres
    }
}

/// Another machine, with the secret key that was kept elsewhere.
fn elsewhere(home: &Home) -> Home {
    let other = Home::new(backend(home));
    fs::create_dir_all(other.folder.join("data")).expect("a data folder");
    fs::copy(
        home.folder.join("data/secret.key"),
        other.folder.join("data/secret.key"),
    )
    .expect("the key is copied");
    other
}

fn try_to(home: &Home, arguments: &[&str]) -> Ended {
    home.spawn(home.command().args(arguments)).end()
}

fn path(home: &Home, name: &str) -> String {
    home.folder.join(name).display().to_string()
}

fn stop(server: Server) {
    server.process.signal("TERM");
    assert_eq!(server.process.end().code, Some(0));
}

fn first_team(server: &Server, organization: &str) -> Value {
    let reply = server.get(KEY, &format!("/api/organizations/{organization}/teams/"));
    reply.body["results"][0].clone()
}

fn new_organization(server: &Server, name: &str) -> Value {
    let made = server.post(KEY, "/api/organizations/", &json!({ "name": name }));
    assert_eq!(made.status, 201, "{made:?}");
    first_team(server, made.text("/id"))
}

/// Whether it was acknowledged.
fn send_events(server: &Server, team: &Value) -> bool {
    let batch: Vec<_> = (0..BATCH)
        .map(|number| json!({ "event": "x", "distinct_id": format!("d{number}") }))
        .collect();
    let body = json!({ "api_key": team["api_token"], "batch": batch });
    let sent = Request::new("POST", "/batch/").json(&body).send(server.address);
    sent.is_ok_and(|reply| reply.status == 200)
}

fn events_in(backup: &Path) -> u64 {
    let manifest = fs::read(backup.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    manifest["events"].as_u64().expect("a count")
}

/// A backup like the one in `copy`, with another manifest.
fn changed_copy(home: &Home, name: &str, change: impl FnOnce(&mut Value, &Path)) -> String {
    let folder = home.folder.join(name);
    fs::create_dir(&folder).expect("a folder");
    for file in fs::read_dir(home.folder.join("copy")).expect("a backup") {
        let file = file.expect("a file");
        fs::copy(file.path(), folder.join(file.file_name())).expect("a copy");
    }
    let path = folder.join("manifest.json");
    let mut manifest = serde_json::from_slice(&fs::read(&path).expect("a manifest")).expect("JSON");
    change(&mut manifest, &folder);
    fs::write(path, manifest.to_string()).expect("another manifest");
    folder.display().to_string()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

pub(crate) fn sqlite_file(home: &Home) -> PathBuf {
    home.database.url.trim_start_matches("sqlite:").into()
}

/// Writes over the middle half of a file: some of its pages hold nothing.
pub(crate) fn damage(file: &Path) {
    let quarter = fs::metadata(file).expect("a file").len() / 4;
    let mut file = fs::OpenOptions::new().write(true).open(file).expect("a file");
    file.seek(SeekFrom::Start(quarter)).expect("a middle");
    let noise = vec![0xA5; usize::try_from(2 * quarter).expect("a small file")];
    file.write_all(&noise).expect("written over");
}

pub(crate) fn run_sql(home: &Home, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(home.database.run(sql));
}

on_each! {
    fn a_backup_made_under_load_is_restored_whole(home: Home) {
        let server = home.start();
        let team = new_organization(&server, "Before");
        let (is_over, mut before) = (AtomicBool::new(false), 0);
        for _ in 0..5 {
            assert!(send_events(&server, &team));
            before += BATCH as u64;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(send_events(&server, &team));
                    assert_eq!(server.post(KEY, "/api/organizations/", &json!({ "name": "In the meantime" })).status, 201);
                }
            });
            let said = home.run(&["backup", &path(home, "copy")]);
            is_over.store(true, Ordering::Relaxed);
            assert!(said.contains("created and verified") && said.contains("secret key"), "{said}");
        });
        stop(server);
        let copied = events_in(&home.folder.join("copy"));
        assert!(copied >= before && copied.is_multiple_of(BATCH as u64), "{copied} of {before} and more");

        let other = elsewhere(home);
        other.run(&["restore", &path(home, "copy")]);
        let server = other.start();
        let found = server.get(KEY, "/api/organizations/?limit=1000");
        let names = found.body["results"].as_array().expect("organizations").iter();
        assert_eq!(names.filter(|one| one["name"] == "Before").count(), 1);
        assert!(send_events(&server, &team), "tokens are as they were");
        stop(server);
        other.run(&["backup", &path(&other, "again")]);
        assert_eq!(events_in(&other.folder.join("again")), copied + BATCH as u64);
    }

    fn no_team_gets_the_events_of_one_that_the_restored_database_does_not_know(home: Home) {
        let server = home.start();
        home.run(&["backup", "--without-events", &path(home, "old")]);
        let lost = new_organization(&server, "Made after the backup");
        assert!(send_events(&server, &lost));
        stop(server);

        let other = elsewhere(home);
        fs::copy(home.folder.join("data/events.sqlite"), other.folder.join("data/events.sqlite")).expect("the newer events");
        other.run(&["restore", &path(home, "old")]);
        let server = other.start();
        let made = new_organization(&server, "Made after the restore");
        assert!(made["id"].as_i64() > lost["id"].as_i64(), "{made} after {lost}");
        assert!(!send_events(&server, &lost), "nobody knows this token any more");
    }

    fn events_of_another_database_are_refused(home: Home) {
        stop(home.start());
        let other = elsewhere(home);
        fs::copy(home.folder.join("data/events.sqlite"), other.folder.join("data/events.sqlite")).expect("somebody's events");
        let ended = other.spawn(&mut other.keyed()).end();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("these events belong to a different database"), "{ended:?}");
    }

    fn a_restore_takes_only_what_is_whole_and_replaces_nothing(home: Home) {
        let server = home.start();
        let copy = path(home, "copy");
        home.run(&["backup", &copy]);
        let refused = |home: &Home, arguments: &[&str], why: &str| {
            let ended = try_to(home, arguments);
            assert!(ended.code == Some(1) && ended.stderr.contains(why), "{why}: {ended:?}");
        };
        refused(home, &["backup", &copy], "already exists");
        refused(home, &["restore", &copy], "another server uses the data folder");
        stop(server);
        refused(home, &["restore", &copy], if backend(home) == Backend::Sqlite { "already exists" } else { "events.sqlite already exists" });

        let other = elsewhere(home);
        let key = other.folder.join("data/secret.key");
        fs::remove_file(&key).expect("the key goes");
        refused(&other, &["restore", &copy], "the secret key is not in the backup");
        fs::write(&key, "another secret key that is long enough to be one").expect("another key");
        refused(&other, &["restore", &copy], "a different secret key");
        fs::copy(home.folder.join("data/secret.key"), &key).expect("the right key");
        for name in ["../copy/events.sqlite", &format!("{copy}/events.sqlite"), "..", ""] {
            let other_names = changed_copy(home, &format!("named {}", name.len()), |manifest, _| manifest["events_file"]["name"] = json!(name));
            refused(&other, &["restore", &other_names], "which is not in the backup folder");
        }
        let log = other.folder.join("data/events.sqlite-wal");
        fs::write(&log, "of a file that was moved away").expect("a log");
        refused(&other, &["restore", &copy], "events.sqlite-wal already exists");
        fs::remove_file(&log).expect("the log goes");
        damage(&home.folder.join("copy/events.sqlite"));
        refused(&other, &["restore", &copy], "is corrupt");
        refused(&other, &["restore", &path(home, "data")], "is not a backup");
    }

    fn a_restore_that_fails_leaves_nothing_and_can_be_repeated(home: Home) {
        stop(home.start());
        let copy = path(home, "copy");
        home.run(&["backup", &copy]);
        let bad = changed_copy(home, "bad", |manifest, folder| {
            let file = manifest["database_file"]["name"].as_str().expect("a name");
            let noise = "no database ".repeat(1000);
            fs::write(folder.join(file), &noise).expect("written over");
            manifest["database_file"]["bytes"] = json!(noise.len());
            manifest["database_file"]["sha256"] = json!(sha256(noise.as_bytes()));
        });
        let other = elsewhere(home);
        let ended = try_to(&other, &["restore", &bad]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let mut left: Vec<_> = fs::read_dir(other.folder.join("data")).expect("a folder").map(|file| file.expect("a file").file_name()).collect();
        left.sort();
        assert_eq!(left, ["secret.key", "serve.lock"]);
        // A crash would leave a part of a copy.
        fs::write(other.folder.join("data/events.sqlite.draft"), "a part").expect("a draft");
        other.run(&["restore", &copy]);
        stop(other.start());
    }

    fn what_is_left_of_a_backup_is_replaced_unless_it_is_being_made(home: Home) {
        stop(home.start());
        let left = home.folder.join("copy.1.unfinished");
        fs::create_dir(&left).expect("a folder");
        fs::write(left.join("events.sqlite"), "a part").expect("a part of a backup");
        let lock = fs::File::create(left.join("lock")).expect("a lock");
        lock.lock().expect("it is free");
        let ended = try_to(home, &["backup", &path(home, "copy.1")]);
        assert!(ended.code == Some(1) && ended.stderr.contains("another backup is running"), "{ended:?}");
        home.run(&["backup", &path(home, "copy.2")]);
        drop(lock);
        home.run(&["backup", &format!("{}/", path(home, "copy.1"))]);
        assert!(!left.exists());
        assert!(!home.folder.join("copy.1/lock").exists());
        elsewhere(home).run(&["restore", &path(home, "copy.1")]);
    }

    fn one_server_uses_a_folder_and_workers_and_commands_go_beside_it(home: Home) {
        let server = home.start();
        let second = home.spawn(&mut home.keyed()).end();
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(second.stderr.contains("another server uses the data folder"), "{second:?}");
        assert_eq!(home.run(&["users", "list"]).lines().count(), 1);
        let worker = home.spawn(home.command().arg("work"));
        crate::home::until("the worker works", crate::home::WAIT_LIMIT, || worker.log().contains("\"working\"").then_some(()));
        // However it ends, the folder is free.
        server.process.signal("KILL");
        drop(server);
        drop(home.start());
    }
}

#[test]
fn a_log_beside_the_database_is_not_taken_for_one_of_the_restored() {
    let home = Home::any();
    stop(home.start());
    home.run(&["backup", &path(&home, "copy")]);
    let other = elsewhere(&home);
    for end in ["-wal", "-shm", "-journal"] {
        let log = format!("{}{end}", sqlite_file(&other).display());
        fs::write(&log, "of a file that was moved away").expect("a log");
        let ended = try_to(&other, &["restore", &path(&home, "copy")]);
        let why = format!("hedgerow.sqlite{end} already exists: move the old file");
        assert!(ended.code == Some(1) && ended.stderr.contains(&why), "{ended:?}");
        fs::remove_file(&log).expect("the log goes");
    }
    other.run(&["restore", &path(&home, "copy")]);
}

#[test]
fn events_in_clickhouse_are_backed_up_and_restored_by_it() {
    let (home, clickhouse) = (Home::any(), ClickHouse::start());
    let server = home
        .spawn(home.keyed().env("HEDGEROW_EVENTS_URL", clickhouse.store_url()))
        .ready();
    let team = new_organization(&server, "Kept");
    assert!(send_events(&server, &team));
    let (copy, events) = (path(&home, "copy"), format!("File('{}')", path(&home, "events")));
    let with_events = |home: &Home, clickhouse: &ClickHouse, arguments: &[&str]| {
        let mut command = home.command();
        command
            .env("HEDGEROW_EVENTS_URL", clickhouse.store_url())
            .args(arguments);
        home.spawn(&mut command).end()
    };
    let ended = with_events(&home, &clickhouse, &["backup", &copy, "--events-to", &events]);
    assert!(
        ended.code == Some(0) && ended.stdout.contains("the events by ClickHouse"),
        "{ended:?}"
    );
    assert!(send_events(&server, &team), "more than is in the backup");
    stop(server);

    let (other, empty) = (elsewhere(&home), ClickHouse::start());
    let ended = with_events(&other, &empty, &["restore", &copy]);
    assert!(
        ended.code == Some(1) && ended.stderr.contains("say where they are with --events-from"),
        "{ended:?}"
    );
    let ended = with_events(&other, &empty, &["restore", &copy, "--events-from", &events]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let count = || empty.query("SELECT count() FROM hedgerow_events").trim().to_owned();
    assert_eq!(count(), BATCH.to_string());
    let server = other
        .spawn(other.keyed().env("HEDGEROW_EVENTS_URL", empty.store_url()))
        .ready();
    assert!(send_events(&server, &team), "it goes on where the backup was made");
    assert_eq!(count(), (2 * BATCH).to_string());
    stop(server);
}

#[test]
fn damaged_files_are_refused_at_the_start() {
    for is_database in [true, false] {
        let home = Home::any();
        let server = home.start();
        let team = new_organization(&server, "Some");
        for _ in 0..50 {
            assert!(send_events(&server, &team));
        }
        stop(server);
        let file = if is_database {
            sqlite_file(&home)
        } else {
            home.folder.join("data/events.sqlite")
        };
        // What is still in the log beside the file would hide the damage, and heal it.
        run_sql(&home, "PRAGMA wal_checkpoint(TRUNCATE)");
        damage(&file);
        let ended = home.spawn(&mut home.keyed()).end();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("corrupt"), "{ended:?}");
    }
}

#[test]
fn tables_of_a_newer_version_are_refused() {
    let home = Home::any();
    stop(home.start());
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (9999, 'newer', TRUE, X'00', 0)";
    run_sql(&home, newer);
    let ended = home.spawn(&mut home.keyed()).end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("a newer version of Hedgerow"), "{ended:?}");
}
