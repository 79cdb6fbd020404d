//! Hostile senders of events against the real binary: how much memory they can take, and whether they get in anybody's way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::client::{Request, connect};
use crate::home::{Home, KEY, Server, until};

/// What the server is told to use at most.
const BUDGET_MB: u64 = 64;
/// For stacks, buffers of connections, and what the allocator keeps for later.
const SLACK_MB: u64 = 48;
const MB: usize = 1024 * 1024;

/// A server that believes the addresses senders claim, so that one machine can be many.
fn start(home: &Home) -> Server {
    start_with(home, BUDGET_MB)
}

fn start_with(home: &Home, budget_mb: u64) -> Server {
    let mut command = home.keyed();
    command
        .env("HEDGEROW_CAPTURE_MEMORY", budget_mb.to_string())
        .env("HEDGEROW_TRUSTED_PROXIES", "127.0.0.1/32")
        .env("HEDGEROW_LOG", "warn,hedgerow=info");
    home.spawn(&mut command).ready()
}

fn token(server: &Server) -> String {
    let teams = server.get(KEY, "/api/organizations/@current/teams/");
    teams.text("/results/0/api_token").to_owned()
}

/// The most memory the process ever used, in megabytes.
fn peak_mb(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).expect("our own child");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("into memory");
    encoder.finish().expect("into memory")
}

/// A body of this size, most of it tiny values.
fn values(token: &str, each: &str, size: usize) -> Vec<u8> {
    let start = format!(r#"{{"api_key":"{token}","event":"e","distinct_id":"d","properties":{{"a":["#);
    let many = vec![each; size / (each.len() + 1)].join(",");
    format!("{start}{many}]}}}}").into_bytes()
}

/// Sends as the sender of this number and returns the status, or none if the server hung up.
fn send(server: SocketAddr, sender: usize, body: &[u8]) -> Option<u16> {
    let mut connection = begin(server, sender, body.len());
    // Who is refused early may find the connection closed.
    let _ = connection.write_all(body);
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).ok()?;
    std::str::from_utf8(&answer[9..]).ok()?.parse().ok()
}

fn begin(server: SocketAddr, sender: usize, length: usize) -> TcpStream {
    let mut connection = connect(server).expect("a connection");
    let head = format!(
        "POST /batch/ HTTP/1.1\r\nHost: hedgerow.test\r\nConnection: close\r\nX-Forwarded-For: 198.51.100.{sender}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).expect("the server reads");
    connection
}

fn honest(server: &Server, token: &str, number: usize) -> u16 {
    let event = json!({ "api_key": token, "event": "honest", "distinct_id": format!("person {number}") });
    let request = Request::new("POST", "/capture/").header("X-Forwarded-For", "203.0.113.7");
    server.send(request.json(&event)).status
}

/// Attacks from many threads while an honest sender goes on sending, and returns what the attackers got.
fn under_attack<T: Send>(server: &Server, token: &str, attackers: usize, attack: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(honest(server, token, number), 200, "event {number}");
                number += 1;
                std::thread::park_timeout(Duration::from_millis(20));
            }
            number
        });
        let attack = &attack;
        let threads: Vec<_> = (0..attackers)
            .map(|number| scope.spawn(move || attack(number)))
            .collect();
        let outcomes = threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"));
        let outcomes = outcomes.collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(sender.join().expect("every honest event is taken") > 0);
        outcomes
    })
}

#[test]
fn who_announces_much_and_stays_silent_keeps_nobody_out() {
    let home = Home::any();
    let server = start(&home);
    let token = token(&server);
    let mut silent: Vec<TcpStream> = (0..60)
        .map(|number| begin(server.address, number % 4, 20 * MB))
        .collect();
    for connection in &mut silent[..30] {
        connection.write_all(&[b' '; 1000]).expect("the server reads");
    }
    let started = Instant::now();
    for number in 0..20 {
        assert_eq!(honest(&server, &token, number), 200);
    }
    let batch =
        json!({ "batch": vec![json!({ "event": "e", "distinct_id": "x".repeat(100) }); 5_000], "api_key": token });
    assert_eq!(
        send(server.address, 1, batch.to_string().as_bytes()),
        Some(200),
        "from one of their networks"
    );
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    // The server allows eleven seconds for so little.
    let mut answer = [0; 12];
    silent[0].read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[test]
fn memory_stays_within_its_bound_whatever_is_sent() {
    let home = Home::any();
    let server = start(&home);
    let token = token(&server);
    for number in 0..50 {
        assert_eq!(honest(&server, &token, number), 200);
    }
    let baseline = peak_mb(&server);
    let within = |what: &str| {
        let peak = peak_mb(&server);
        assert!(
            peak < baseline + BUDGET_MB + SLACK_MB,
            "{what}: {baseline} MB before, {peak} MB at most"
        );
    };

    let unknown = gzip(&values("hgp_unknown", r#"{"":1}"#, 16 * MB));
    assert!(unknown.len() < 400_000, "{}", unknown.len());
    let refused = under_attack(&server, &token, 6, |number| send(server.address, number, &unknown));
    assert!(refused.iter().all(|status| *status == Some(401)), "{refused:?}");
    within("gzip with a token that no team has");

    let mut late = values("", "[]", 21 * MB);
    late.truncate(late.len() - 1);
    late.extend_from_slice(br#","api_key":"hgp_unknown"}"#);
    let late = gzip(&late);
    let refused = under_attack(&server, &token, 6, |number| send(server.address, number, &late));
    assert!(refused.iter().all(|status| *status == Some(413)), "{refused:?}");
    within("gzip with the token at its end");

    for each in [r#"{"":1}"#, "1", "[[[[[[[]]]]]]]"] {
        let known = gzip(&values(&token, each, 4 * MB));
        let refused = under_attack(&server, &token, 6, |number| send(server.address, number, &known));
        let is_refused = |status: &Option<u16>| matches!(status, Some(413 | 503));
        assert!(refused.iter().all(is_refused), "{each}: {refused:?}");
        within(each);
    }

    let events =
        vec![json!({ "event": "e", "distinct_id": "d", "properties": { "a": 1, "b": "two", "c": [3] } }); 4_000];
    let batch = json!({ "api_key": token, "batch": events }).to_string().into_bytes();
    let statuses = under_attack(&server, &token, 6, |number| send(server.address, number, &batch));
    assert!(statuses.contains(&Some(200)), "{statuses:?}");
    assert!(
        statuses.iter().all(|status| matches!(status, Some(200 | 503))),
        "{statuses:?}"
    );
    within("batches");
}

/// A batch that has to be unpacked and searched first, as SDKs for servers send.
fn honest_batch(server: &Server, token: &str) -> Option<u16> {
    let event = json!({ "event": "honest", "distinct_id": "ann", "properties": { "a": "x".repeat(200) } });
    let batch = json!({ "api_key": token, "batch": vec![event; 500] });
    send(server.address, 250, &gzip(batch.to_string().as_bytes()))
}

fn threads(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).expect("our own child");
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.expect("a line").trim().parse().expect("a number")
}

/// What one address sends without a token is much to unpack and little to send; some of it is given up at once, so that the
/// server works for nobody.
#[test]
fn who_has_no_token_does_not_keep_others_from_being_read() {
    let home = Home::any();
    // Enough for one address to have many bodies there at once.
    let server = start_with(&home, 768);
    let token = token(&server);
    let bomb = format!(r#"{{"x":{{"a":1{}"#, r#","a":1"#.repeat(20 * MB / 6));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bomb.as_bytes()).expect("into memory");
    let bomb = encoder.finish().expect("into memory");
    assert!(bomb.len() < 64 * 1024, "{}", bomb.len());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..100 {
            let (bomb, is_over, server) = (&bomb, &is_over, &server);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    if number % 2 == 0 {
                        send(server.address, 1, bomb);
                    } else {
                        let mut connection = begin(server.address, 1, bomb.len());
                        let _ = connection.write_all(bomb);
                        std::thread::park_timeout(Duration::from_millis(40));
                    }
                }
            });
        }
        std::thread::park_timeout(Duration::from_secs(1));
        let mut slowest = Duration::ZERO;
        let mut statuses = Vec::new();
        for _ in 0..10 {
            let asked = Instant::now();
            statuses.push(honest_batch(&server, &token));
            slowest = slowest.max(asked.elapsed());
        }
        let threads = threads(&server);
        is_over.store(true, Ordering::Relaxed);
        assert!(statuses.iter().all(|status| *status == Some(200)), "{statuses:?}");
        assert!(slowest < Duration::from_secs(25), "{slowest:?}");
        assert!(threads < 60, "{threads} threads at work");
    });
}

/// What is set of a person is read again for each change, and stands in each event of theirs.
#[test]
fn what_is_known_of_a_person_does_not_take_all_memory_and_disk() {
    let home = Home::any();
    let server = start(&home);
    let token = token(&server);
    for number in 0..50 {
        assert_eq!(honest(&server, &token, number), 200);
    }
    let baseline = peak_mb(&server);
    let set = |key: usize| {
        let values = vec![r#"{"":1}"#; 20_000].join(",");
        let event = format!(
            r#"{{"api_key":"{token}","event":"e","distinct_id":"d","$set":{{"small_{key}":[{}],"large_{key}":[{values}]}}}}"#,
            vec![r#"{"":1}"#; 1_000].join(",")
        );
        gzip(event.as_bytes())
    };
    for key in 0..16 {
        assert_eq!(send(server.address, 1, &set(key)), Some(200), "{key}");
    }
    let small = json!({ "event": "e", "distinct_id": "d" });
    let batch = json!({ "api_key": token, "batch": vec![small; 2_000] }).to_string();
    assert_eq!(send(server.address, 1, &gzip(batch.as_bytes())), Some(200));
    let peak = peak_mb(&server);
    assert!(
        peak < baseline + BUDGET_MB + SLACK_MB,
        "{baseline} MB before, {peak} MB at most"
    );
    let written: u64 = std::fs::read_dir(home.folder.join("data"))
        .expect("the data folder")
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().starts_with("events.sqlite"))
        .map(|file| file.metadata().expect("a file").len())
        .sum();
    assert!(written < 64 << 20, "{written} bytes");
}

/// The first bytes tell who sends, so nobody waits for the rest of a body that is refused anyway.
#[test]
fn a_token_that_no_team_has_is_refused_before_the_body_has_arrived() {
    let home = Home::any();
    let server = start(&home);
    let mut connection = begin(server.address, 1, 10 * MB);
    let mut start = br#"{"api_key":"hgp_unknown","batch":[{"event":""#.to_vec();
    start.resize(100_000, b'x');
    connection.write_all(&start).expect("the server reads");
    let asked = Instant::now();
    let answer = until("an answer", Duration::from_secs(30), || {
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).ok().map(|()| answer)
    });
    assert_eq!(&answer, b"HTTP/1.1 401");
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
}
