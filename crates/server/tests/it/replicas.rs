//! Several processes on one database, as one.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use serde_json::json;
use testkit::databases::Backend;

use crate::client::{Request, connect};
use crate::home::{Home, KEY, OWNER, Process, Server};
use crate::on_each;

const ROUNDS: usize = 50;

const SECRET_KEY: &str = "a secret key that both replicas were given";

/// Two servers on one empty database, started at the same moment, each with a folder of its own.
pub(crate) fn two(home: &Home, command: fn(&Home) -> Command) -> [Server; 2] {
    let folders = ["a", "b"].map(|name| home.folder.join(name));
    let started = folders.map(|folder| {
        let mut command = command(home);
        home.spawn(
            command
                .env("HEDGEROW_DATA_DIR", folder)
                .env("HEDGEROW_SECRET_KEY", SECRET_KEY),
        )
    });
    started.map(Process::ready)
}

/// A command beside them.
pub(crate) fn run(home: &Home, arguments: &[&str]) -> String {
    let ended = home
        .spawn(home.command().env("HEDGEROW_SECRET_KEY", SECRET_KEY).args(arguments))
        .end();
    assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
    ended.stdout
}

on_each! {
    fn two_first_starts_at_once_make_one_owner(home: Home) {
        let both = two(home, Home::command);
        let printed = both.each_ref().map(|server| server.process.stdout());
        let welcomes: Vec<&String> = printed.iter().filter(|text| !text.is_empty()).collect();
        assert_eq!(welcomes.len(), 1, "{printed:?}");
        let key = welcomes[0].lines().find_map(|line| line.trim().strip_prefix("API key")).expect("a key").trim();
        for server in &both {
            assert_eq!(server.get(key, "/api/organizations/").body["count"], 1);
        }
        assert_eq!(run(home, &["users", "list"]).lines().count(), 1);
    }

    fn two_first_starts_at_once_with_one_chosen_key_both_know_it(home: Home) {
        for server in two(home, Home::keyed) {
            assert_eq!(server.get(KEY, "/api/organizations/").body["count"], 1);
        }
        assert_eq!(run(home, &["users", "list"]).lines().count(), 1);
    }

    fn a_change_through_one_is_seen_immediately_through_the_other(home: Home) {
        let [a, b] = two(home, Home::keyed);
        let path = "/api/organizations/@current/";
        for round in 0..ROUNDS {
            let (writer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
            let name = format!("Name {round}");
            assert_eq!(writer.patch(KEY, path, &json!({ "name": name })).status, 200);
            // Twice: what was just read may be remembered.
            assert_eq!(reader.get(KEY, path).text("/name"), name);
            assert_eq!(reader.get(KEY, path).text("/name"), name);
            assert_eq!(writer.get(KEY, path).text("/name"), name);
        }
    }

    fn what_is_created_through_one_is_listed_immediately_by_the_other(home: Home) {
        let [a, b] = two(home, Home::keyed);
        let current = "/api/organizations/@current/";
        let list = |server: &Server, path: &str| server.get(KEY, path).body["count"].as_i64().expect("a list");
        for round in 0..ROUNDS / 5 {
            let (writer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
            for (path, body) in [
                ("/api/organizations/".to_owned(), json!({ "name": format!("Name {round}") })),
                (format!("{current}invites/"), json!({ "target_email": format!("{round}@example.com") })),
                (
                    format!("{current}batch_exports/"),
                    json!({ "name": "x", "interval": "day", "destination": { "type": "NoOp", "config": {} } }),
                ),
            ] {
                // The log lists what is created in this organization.
                let activity = format!("{current}activity/?limit=1");
                let logged = i64::from(path.starts_with(current));
                let before = [&path, &activity].map(|path| [list(reader, path), list(reader, path)]);
                let made = writer.send(Request::new("POST", &path).key(KEY).json(&body));
                assert_eq!(made.status, 201, "{made:?}");
                for server in [reader, reader, writer] {
                    assert_eq!(list(server, &path), before[0][1] + 1, "{path}");
                    assert_eq!(list(server, &activity), before[1][1] + logged, "{path}");
                }
            }
        }
    }

    fn a_key_revoked_through_one_is_refused_immediately_by_the_other(home: Home) {
        let [a, b] = two(home, Home::keyed);
        run(home, &["users", "set-password", OWNER, "--password", "a passphrase for two replicas"]);
        let reply = a.sign_in(OWNER, "a passphrase for two replicas");
        let cookie = reply.header("set-cookie").split(';').next().expect("a cookie").to_owned();
        let signed_in = |method: &str, path: &str| Request::new(method, path).header("Cookie", &cookie);
        for _ in 0..5 {
            let body = json!({ "label": "Short-lived", "scopes": ["*"] });
            let made = a.send(signed_in("POST", "/api/personal_api_keys/").json(&body));
            let (id, key) = (made.text("/id"), made.text("/value"));
            for _ in 0..5 {
                assert_eq!(b.get(key, "/api/organizations/@current/").status, 200);
            }
            let gone = a.send(signed_in("DELETE", &format!("/api/personal_api_keys/{id}/")));
            assert_eq!(gone.status, 204, "{gone:?}");
            assert_eq!(b.get(key, "/api/organizations/@current/").code(), (401, "authentication_failed"));
        }
    }
}

/// Closing any handle of a file gives up all POSIX locks this process has on it, also those that SQLite took.
/// Without them another process takes the file for unused.
#[cfg(target_os = "linux")]
#[test]
fn first_requests_at_once_leave_sqlite_its_locks() {
    let home = Home::new(Backend::Sqlite);
    let index = format!("{}-shm", home.database.url.trim_start_matches("sqlite:"));
    for start in 0..20 {
        let server = home.start();
        let inode = fs::metadata(&index).expect("the WAL index is there").ino();
        assert!(is_locked(&server, inode), "start {start}: before the first request");
        ask_all_at_once(&server, 64);
        assert!(is_locked(&server, inode), "start {start}: no lock on {index} is left");
    }
}

/// The list is read in pieces while other processes change it, so that one reading may miss a lock; a lock that was given up is in
/// none.
fn is_locked(server: &Server, inode: u64) -> bool {
    let (process, file) = (format!(" {} ", server.process.id()), format!(":{inode} "));
    (0..20).any(|_| {
        let locks = fs::read_to_string("/proc/locks").expect("Linux tells its locks");
        locks
            .lines()
            .any(|line| line.contains(&process) && line.contains(&file))
    })
}

/// Sends all requests but for the last byte, and then all last bytes.
fn ask_all_at_once(server: &Server, count: usize) {
    let request = format!(
        "GET /api/organizations/ HTTP/1.1\r\nHost: hedgerow.test\r\nAuthorization: Bearer {KEY}\r\n\
         Connection: close\r\n\r"
    );
    let connections = (0..count).map(|_| {
        let mut connection = connect(server.address).expect("a connection");
        connection.write_all(request.as_bytes()).expect("the server reads");
        connection
    });
    let mut connections: Vec<_> = connections.collect();
    for connection in &mut connections {
        connection.write_all(b"\n").expect("the server reads");
    }
    for connection in &mut connections {
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("the server answers");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}
