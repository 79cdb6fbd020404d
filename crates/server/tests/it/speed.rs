//! What requests cost the processor, beside a handler of the same HTTP library that does nothing. Times differ from machine to machine and with
//! what else runs; how many times as much work something is does not, so a change that doubles it shows here.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use axum::Router;
use axum::routing::any;
use serde_json::json;
use testkit::bench::cpu_seconds;
use testkit::databases::Backend;

use crate::client::Request;
use crate::home::{Home, KEY, Server};

/// A server that answers everything with the same bytes, in a thread of this process.
struct Bare {
    address: SocketAddr,
    /// For [`cpu_seconds`].
    thread: String,
}

impl Bare {
    fn start(body: String) -> Self {
        let (started, starts) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let bare = Self {
                    address: listener.local_addr().expect("an address"),
                    thread: format!("self/task/{}", rustix::thread::gettid().as_raw_nonzero()),
                };
                started.send(bare).expect("the test waits");
                let answer = move || async move { ([("content-type", "application/json")], body) };
                axum::serve(listener, Router::new().fallback(any(answer)))
                    .await
                    .expect("it serves");
            });
        });
        starts.recv().expect("it starts")
    }

    /// Processor time of a request, in microseconds.
    fn cost(&self) -> f64 {
        cost(self.address, &self.thread, 4_000, |_| Request::new("GET", "/"), 200)
    }
}

/// Of requests one after the other, on one connection.
fn cost(server: SocketAddr, process: &str, count: usize, request: impl Fn(usize) -> Request, status: u16) -> f64 {
    let first = Request::new("GET", "/healthz");
    let mut connection = first.begin(server).expect("a connection");
    connection.finish().expect("it reads");
    connection.answer().expect("it answers");
    let before = cpu_seconds(process).expect("Linux tells");
    for number in 0..count {
        let reply = connection.ask(&request(number)).expect("an answer");
        assert_eq!(reply.status, status, "{:?}", reply.body);
    }
    let count = f64::from(u32::try_from(count).expect("few"));
    (cpu_seconds(process).expect("Linux tells") - before) * 1e6 / count
}

fn of_server(server: &Server, count: usize, request: impl Fn(usize) -> Request, status: u16) -> f64 {
    cost(server.address, &server.process.id().to_string(), count, request, status)
}

/// The limits are twice what was measured, in a build without optimizations, when this was written.
fn check(what: &str, cost: f64, bare: f64, most: f64) {
    let times = cost / bare;
    eprintln!("{what}: {cost:.0} µs, {times:.1} times the bare handler's {bare:.0} µs");
    assert!(
        times <= most,
        "{what} takes {times:.1} times what the bare handler takes; the limit is {most}"
    );
}

/// `most`: of retrieving, listing, creating and capturing.
fn requests_cost_what_they_did(backend: Backend, most: [f64; 4]) {
    let home = Home::new(backend);
    let server = home.start();
    let get = |path: &'static str| move |_| Request::new("GET", path).key(KEY);
    let organization = server.get(KEY, "/api/organizations/@current/").body.to_string();
    let bare = Bare::start(organization).cost();
    let [retrieve, list, create, capture] = most;
    let cost = of_server(&server, 1_500, get("/api/organizations/@current/"), 200);
    check("retrieving an organization", cost, bare, retrieve);

    let invites: Vec<_> = (0..100)
        .map(|number| json!({ "target_email": format!("{number}@example.com"), "send_email": false }))
        .collect();
    assert_eq!(
        server
            .post(KEY, "/api/organizations/@current/invites/bulk/", &json!(invites))
            .status,
        200
    );
    let path = "/api/organizations/@current/invites/?limit=100";
    let bare_list = Bare::start(server.get(KEY, path).body.to_string()).cost();
    let cost = of_server(&server, 100, get(path), 200);
    check("listing 100 invites", cost, bare_list, list);

    let new = |number: usize| {
        let body = json!({ "name": format!("organization {number}") });
        Request::new("POST", "/api/organizations/").key(KEY).json(&body)
    };
    check(
        "creating an organization",
        of_server(&server, 80, new, 201),
        bare,
        create,
    );

    let teams = server.get(KEY, "/api/organizations/@current/teams/");
    let token = teams.text("/results/0/api_token");
    let event = |number: usize| {
        let body = json!({ "api_key": token, "event": "seen", "distinct_id": format!("{number}"), "properties": { "a": number } });
        Request::new("POST", "/capture/").json(&body)
    };
    check(
        "capturing an event",
        of_server(&server, 1_000, event, 200),
        bare,
        capture,
    );
}

#[test]
fn on_sqlite_requests_cost_what_they_did() {
    requests_cost_what_they_did(Backend::Sqlite, [22.0, 80.0, 120.0, 62.0]);
}

#[test]
fn on_postgresql_requests_cost_what_they_did() {
    requests_cost_what_they_did(Backend::Postgres, [42.0, 80.0, 155.0, 72.0]);
}
