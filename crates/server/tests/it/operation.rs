//! What operators and their machines read, and who must not be able to keep them from it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Request, connect};
use crate::faults::FakeClock;
use crate::home::{Home, KEY, OWNER, Process, WAIT_LIMIT, until};
use crate::on_each;

const SLOW_CLIENTS: usize = 50;
const SOON: Duration = Duration::from_secs(1);
/// The server allows fifteen seconds.
const HANG_UP_WITHIN: Duration = Duration::from_secs(20);

on_each! {
    fn it_says_that_it_is_alive_and_ready(home: Home) {
        let server = home.start();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(server.ask("GET", path).status, 200, "{path}");
            assert_eq!(server.ask("POST", path).status, 405, "{path}");
        }
    }

    fn every_answer_has_an_id(home: Home) {
        let server = home.start();
        for path in ["/healthz", "/readyz", "/metrics", "/login/", "/api/", "/api/nothing/", "/nothing"] {
            let reply = server.ask("GET", path);
            assert_eq!(reply.header("x-request-id").len(), 32, "{path}");
            let named = server.send(Request::new("GET", path).header("X-Request-Id", "mine.1"));
            assert_eq!(named.header("x-request-id"), "mine.1", "{path}");
        }
        let preflight = Request::new("OPTIONS", "/e/").header("Origin", "https://shop.example");
        let reply = server.send(preflight.header("Access-Control-Request-Method", "POST"));
        assert_eq!((reply.status, reply.header("x-request-id").len()), (200, 32));
    }

    fn unknown_paths_of_the_api_are_problems(home: Home) {
        let server = home.start();
        for path in ["/api/", "/api", "/api/nothing/", "/api/nothing"] {
            let reply = server.ask("GET", path);
            assert_eq!((reply.code(), reply.header("content-type")), ((404, "not_found"), "application/json"), "{path}");
        }
    }

    fn metrics_count_requests_by_route_and_status(home: Home) {
        let server = home.start();
        let id = server.get(KEY, "/api/organizations/").text("/results/0/id").to_owned();
        server.get(KEY, &format!("/api/organizations/{id}/"));
        server.get(KEY, &format!("/api/organizations/{id}"));
        server.ask("GET", "/api/organizations/");
        let reply = server.ask("GET", "/metrics");
        assert!(reply.header("content-type").starts_with("text/plain"), "{reply:?}");
        let page = reply.body.as_str().expect("metrics are text");
        let value = |name: &str, labels: &[&str]| {
            let of_name = |line: &&str| line.split(['{', ' ']).next() == Some(name);
            let mut lines = page.lines().filter(of_name);
            let line = lines.find(|line| labels.iter().all(|label| line.contains(label)));
            let line = line.unwrap_or_else(|| panic!("no {name} with {labels:?} in {page}"));
            line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).expect("a number")
        };
        let is = |value: f64, wanted: u32| (value - f64::from(wanted)).abs() < f64::EPSILON;

        let one = ["method=\"GET\"", "route=\"/api/organizations/{id}/\"", "status=\"200\""];
        assert!(is(value("hedgerow_http_requests_total", &one), 2), "{page}");
        let refused = ["route=\"/api/organizations/\"", "status=\"401\""];
        assert!(is(value("hedgerow_http_requests_total", &refused), 1), "{page}");
        for bucket in ["le=\"0.005\"", "le=\"1\"", "le=\"+Inf\""] {
            value("hedgerow_http_request_duration_seconds_bucket", &[one[1], bucket]);
        }
        assert!(is(value("hedgerow_http_request_duration_seconds_count", &one), 2), "{page}");
        let kind = if home.database.url.starts_with("postgres") { "postgres" } else { "sqlite" };
        let build = [&format!("database=\"{kind}\"") as &str, concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"")];
        assert!(is(value("hedgerow_build_info", &build), 1), "{page}");
        assert!(value("hedgerow_disk_free_bytes", &[]) > 0.0, "{page}");
        assert!(value("hedgerow_database_connections", &["state=\"open\""]) >= 1.0, "{page}");
        assert!(!page.contains(&id), "ids would make series without end: {page}");
    }

    fn secrets_are_never_logged(home: Home) {
        let mut command = home.keyed();
        command.env("HEDGEROW_BOOTSTRAP_PASSWORD", "open-sesame-to-all-hedges").env("HEDGEROW_LOG", "debug");
        let server = home.spawn(&mut command).ready();
        assert_eq!(server.get(KEY, &format!("/api/organizations/?key={KEY}")).status, 200);
        assert_eq!(server.ask("GET", &format!("/api/organizations/?key={KEY}")).status, 401);
        assert_eq!(server.get(&format!("{KEY}-mistyped"), "/api/organizations/").status, 401);
        assert_eq!(server.post(KEY, &format!("/api/nothing/?key={KEY}"), &json!({ "key": KEY })).status, 404);
        let invited = server.post(KEY, "/api/organizations/@current/invites/", &json!({ "target_email": "a@b.test" }));
        let link = invited.text("/invite_link").replace("http://hedgerow.test", "");
        let invite = link.trim_end_matches('/').rsplit('/').next().expect("a secret at the end").to_owned();
        for path in [link.as_str(), link.trim_end_matches('/'), &format!("/api/signup/{invite}/")] {
            server.ask("GET", path);
        }
        let reply = server.sign_in(OWNER, "open-sesame-to-all-hedges");
        let (_, token) = reply.header("set-cookie").split_once('=').expect("a cookie");
        let token = token.split(';').next().expect("a token");
        server.process.signal("TERM");
        let ended = server.process.end();
        assert!(ended.stderr.contains("/api/nothing/"), "{}", ended.stderr);
        for secret in [KEY, "open-sesame-to-all-hedges", token, &invite] {
            assert!(!ended.stderr.contains(secret), "{secret} is in: {}", ended.stderr);
        }
    }

    fn each_line_of_the_log_is_json_and_leads_to_its_request(home: Home) {
        let server = home.spawn(home.keyed().env("HEDGEROW_LOG", "debug")).ready();
        let own = server.get(KEY, "/api/organizations/").header("x-request-id").to_owned();
        let request = Request::new("GET", "/api/organizations/none/").key(KEY);
        let request = request.header("X-Request-Id", "given-by-client.1");
        assert_eq!(server.send(request).text("/request_id"), "given-by-client.1");
        let lines = until("both requests are logged", SOON, || {
            let log = server.process.log();
            let json = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
            let (finished, _) = log.rsplit_once('\n').unwrap_or_default();
            let lines = finished.lines().map(json).filter(|line: &Value| line["message"] == "request");
            let lines: Vec<Value> = lines.collect();
            (lines.len() >= 2).then_some(lines)
        });
        for (line, id, status) in [(&lines[0], &*own, 200), (&lines[1], "given-by-client.1", 404)] {
            assert_eq!((&line["request_id"], &line["status"]), (&json!(id), &json!(status)), "{line}");
            assert_eq!((&line["level"], &line["method"]), (&json!("INFO"), &json!("GET")), "{line}");
            assert!(line["timestamp"].is_string() && line["duration_us"].is_u64() && line["route"].is_string(), "{line}");
        }
    }

    fn clients_that_never_finish_a_header_keep_nobody_waiting(home: Home) {
        let server = home.start();
        let mut slow: Vec<_> = (0..SLOW_CLIENTS).map(|_| connect(server.address).expect("a connection")).collect();
        for connection in &mut slow {
            connection.write_all(b"GET /api/organizations/ HTTP/1.1\r\nHost: hedge").expect("the server reads");
        }
        for _ in 0..10 {
            let start = Instant::now();
            assert_eq!(server.get(KEY, "/api/organizations/").status, 200);
            assert_eq!(server.ask("GET", "/readyz").status, 200);
            assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        }
    }
}

/// Anybody can ask for it, and has made it long before.
#[test]
fn the_page_of_metrics_is_written_once_for_all_who_ask() {
    let home = Home::any();
    let server = home.start();
    let page = |what: &str| {
        let reply = server.ask("GET", "/metrics");
        assert_eq!(reply.status, 200, "{what}");
        reply.body
    };
    let same = (0..20).any(|_| {
        let first = page("before");
        server.get(KEY, "/api/organizations/");
        first == page("after")
    });
    assert!(same, "each request writes it again");
    until("it does not stay as it is", WAIT_LIMIT, || {
        page("later").to_string().contains("/api/organizations/").then_some(())
    });
    assert_eq!(server.ask("PUT", "/api/organizations/").status, 405);
    until("methods that do not exist are one series", WAIT_LIMIT, || {
        let line = "hedgerow_http_requests_total{method=\"PUT\",route=\"unmatched\",status=\"405\"}";
        page("later").as_str()?.contains(line).then_some(())
    });
}

/// Where a process answers those who look after it.
pub(crate) fn health_address(process: &Process) -> std::net::SocketAddr {
    until("it listens for health checks", WAIT_LIMIT, || {
        let log = process.log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line = lines.find(|line| line["message"] == "listening for health checks")?;
        line["address"].as_str()?.parse().ok()
    })
}

/// Whoever looks after a worker sees how each export is doing. Nobody else does.
#[test]
fn workers_tell_operators_of_each_export() {
    let home = Home::any();
    let root = home.folder.join("exported");
    std::fs::create_dir_all(&root).expect("a folder");
    let server = home.spawn(home.keyed().env("HEDGEROW_EXPORT_ROOT", &root)).ready();
    let body =
        json!({ "name": "x", "interval": "hour", "destination": { "type": "File", "config": { "folder": "x" } } });
    let export = server.post(KEY, "/api/organizations/@current/batch_exports/", &body);
    let id = export.text("/id").to_owned();
    let public = server.ask("GET", "/metrics");
    assert!(public.status == 200 && !public.body.to_string().contains("hedgerow_export_"));
    drop(server);
    // Some hours are over by then.
    let later = FakeClock::new(&home, "+3h");
    let mut work = home.command();
    work.arg("work")
        .env("HEDGEROW_EXPORT_ROOT", &root)
        .env("HEDGEROW_HEALTH_LISTEN", "127.0.0.1:0");
    let worker = home.spawn(later.under(&mut work));
    let address = health_address(&worker);
    until("the worker is ready", WAIT_LIMIT, || {
        let ready = Request::new("GET", "/readyz").send(address).ok()?;
        (ready.status == 200).then_some(())
    });
    let line = format!("hedgerow_export_attempts_total{{export=\"{id}\",outcome=\"completed\"}} ");
    until("the run is counted", WAIT_LIMIT, || {
        let page = Request::new("GET", "/metrics").send(address).ok()?;
        page.body.as_str()?.contains(&line).then_some(())
    });
}

#[test]
fn health_and_metrics_can_have_an_address_of_their_own() {
    let home = Home::any();
    let server = home
        .spawn(home.keyed().env("HEDGEROW_HEALTH_LISTEN", "127.0.0.1:0"))
        .ready();
    let address = health_address(&server.process);
    assert_ne!(address, server.address);
    for path in ["/healthz", "/readyz", "/metrics"] {
        let reply = Request::new("GET", path).send(address).expect("an answer");
        assert_eq!(reply.status, 200, "{path}");
    }
    assert_eq!(
        Request::new("GET", "/api/organizations/")
            .key(KEY)
            .send(address)
            .expect("an answer")
            .status,
        404
    );
    assert_eq!(server.ask("GET", "/healthz").status, 200);
    for path in ["/metrics", "/metrics/"] {
        let reply = server.ask("GET", path);
        assert!(
            reply.status != 200 && !reply.body.to_string().contains("hedgerow_"),
            "{path}"
        );
    }
}

/// However many connections one address opens, others are answered, and so are those who look after the server.
#[test]
fn one_address_cannot_have_all_connections() {
    let home = Home::any();
    let mut command = home.keyed();
    command
        .env("HEDGEROW_HEALTH_LISTEN", "127.0.0.1:0")
        .env("HEDGEROW_CONNECTIONS_PER_ADDRESS", "50");
    let server = home.spawn(&mut command).ready();
    let open: Vec<_> = (0..200)
        .map(|_| connect(server.address).expect("a connection"))
        .collect();
    let refused = until("those above the limit are closed", SOON * 10, || {
        let is_closed = |connection: &std::net::TcpStream| {
            connection.set_nonblocking(true).expect("a socket");
            !matches!((&*connection).read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        let count = open.iter().filter(|connection| is_closed(connection)).count();
        (count >= 150).then_some(count)
    });
    assert_eq!(refused, 150);
    let address = health_address(&server.process);
    assert_eq!(
        Request::new("GET", "/healthz").send(address).expect("an answer").status,
        200
    );
    drop(open);
    until("what was closed is free again", SOON * 10, || {
        Request::new("GET", "/healthz")
            .send(server.address)
            .ok()
            .filter(|reply| reply.status == 200)
    });
}

/// A connection is an open file. Where the limit can be raised, it is; where it cannot, others get their share.
#[test]
fn few_open_files_do_not_silence_the_server() {
    for (limit, most) in [("ulimit -S -n 200", 300), ("ulimit -n 260", 15)] {
        let home = Home::any();
        let plain = home.keyed();
        let mut limited = std::process::Command::new("sh");
        let script = format!("{limit}; exec \"$0\" \"$@\"");
        limited
            .arg("-c")
            .arg(script)
            .arg(plain.get_program())
            .args(plain.get_args());
        limited.env_clear().current_dir(&home.folder);
        limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let server = home.spawn(&mut limited).ready();
        let open: Vec<_> = (0..300)
            .map(|_| connect(server.address).expect("a connection"))
            .collect();
        let is_open = |connection: &std::net::TcpStream| {
            connection.set_nonblocking(true).expect("a socket");
            matches!((&*connection).read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        until("those above the limit are closed", SOON * 10, || {
            (open.iter().filter(|connection| is_open(connection)).count() <= most).then_some(())
        });
        // From another address: there are always some for others.
        let theirs = (std::net::Ipv4Addr::new(127, 0, 0, 2), 0).into();
        let socket = connect_from(theirs, server.address);
        assert!(is_answered(socket), "{limit}");
    }
}

fn connect_from(own: std::net::SocketAddr, server: std::net::SocketAddr) -> std::net::TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let connected = runtime.expect("a runtime").block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(own)?;
        socket.connect(server).await?.into_std()
    });
    connected.expect("a connection")
}

fn is_answered(mut socket: std::net::TcpStream) -> bool {
    socket.set_nonblocking(false).expect("a socket");
    socket.set_read_timeout(Some(SOON * 5)).expect("a time limit");
    let mut answer = [0; 15];
    socket
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: hedgerow.test\r\n\r\n")
        .expect("the server reads");
    socket.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 200 OK"
}

/// Each holds one of the connections there are, so none may do so for ever.
#[test]
fn clients_that_do_not_speak_are_hung_up_on() {
    let home = Home::any();
    let server = home.start();
    let beginnings: [&[u8]; 3] = [b"GET / HTTP/1.1\r\nHost: hedge", b"PRI * HT", b""];
    let deadline = Instant::now() + HANG_UP_WITHIN;
    let connections = beginnings.map(|beginning| {
        let mut connection = connect(server.address).expect("a connection");
        connection.write_all(beginning).expect("the server reads");
        connection
    });
    let still_open = connections
        .into_iter()
        .zip(beginnings)
        .filter_map(|(mut connection, beginning)| {
            let left = deadline
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1));
            connection.set_read_timeout(Some(left)).expect("a time limit");
            let end = connection.read_to_end(&mut Vec::new());
            end.is_err().then(|| String::from_utf8_lossy(beginning).into_owned())
        });
    let still_open: Vec<String> = still_open.collect();
    assert!(
        still_open.is_empty(),
        "after {HANG_UP_WITHIN:?} open for those who sent {still_open:?}"
    );
}

#[test]
fn an_address_that_is_held_for_a_moment_is_waited_for() {
    let home = Home::any();
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = held.local_addr().expect("bound");
    let starting = home.spawn(home.keyed().env("HEDGEROW_LISTEN", address.to_string()));
    let began = Instant::now();
    until("it has tried", WAIT_LIMIT, || {
        (began.elapsed() > SOON / 2).then_some(())
    });
    drop(held);
    assert_eq!(starting.ready().address, address);
}
