//! The end of a server: told to stop, it finishes what it has begun.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Request, connect};
use crate::home::{Home, KEY, Server, WAIT_LIMIT, until};
use crate::on_each;

/// Fifteen events with a megabyte each, and a query that looks at each of them for seconds.
fn busy_export(server: &Server) -> String {
    let team = server.get(KEY, "/api/organizations/@current/teams/").body["results"][0].clone();
    let long = "a".repeat(1_000_000);
    let event = |n: i32| json!({ "event": "x", "distinct_id": n.to_string(), "properties": { "a": long } });
    let batch: Vec<_> = (0..15).map(event).collect();
    let body = json!({ "api_key": team["api_token"], "batch": batch });
    assert_eq!(server.send(Request::new("POST", "/batch/").json(&body)).status, 200);
    let condition = format!("properties.a LIKE '%{}_b%'", "a".repeat(440));
    let query = format!("SELECT event FROM events WHERE {}", vec![condition; 40].join(" OR "));
    let export = json!({
        "name": "Busy", "interval": "hour", "hogql_query": query, "destination": { "type": "NoOp", "config": {} },
    });
    let created = server.post(KEY, "/api/organizations/@current/batch_exports/", &export);
    assert_eq!(created.status, 201, "{created:?}");
    format!(
        "/api/organizations/@current/batch_exports/{}/preview/",
        created.text("/id")
    )
}

/// More than the delay, and far less than a process that waits for somebody.
const A_FEW_SECONDS: Duration = Duration::from_secs(20);

on_each! {
    fn readiness_goes_first_and_requests_are_still_answered(home: Home) {
        let server = home.spawn(home.keyed().args(["--shutdown-delay", "2"])).ready();
        server.process.signal("TERM");
        let told = Instant::now();
        until("readiness goes", WAIT_LIMIT, || (server.ask("GET", "/readyz").status == 503).then_some(()));
        assert_eq!(server.get(KEY, "/api/organizations/").status, 200);
        assert_eq!(server.ask("GET", "/healthz").status, 200);

        let ended = server.process.end_within(A_FEW_SECONDS);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(told.elapsed() >= Duration::from_secs(2), "the delay is kept");
    }

    fn a_request_under_way_is_finished(home: Home) {
        let server = home.start();
        let request = Request::new("POST", "/api/organizations/").key(KEY).json(&json!({ "name": "Last one" }));
        let mut slow = request.begin(server.address).expect("the server reads");
        server.process.signal("TERM");
        until("nobody else is let in", WAIT_LIMIT, || connect(server.address).is_err().then_some(()));
        slow.finish().expect("the server still reads");
        let reply = slow.answer().expect("the server still answers");
        assert_eq!(reply.status, 201, "{reply:?}");

        let ended = server.process.end_within(A_FEW_SECONDS);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let id = reply.text("/id");
        assert_eq!(home.start().get(KEY, &format!("/api/organizations/{id}/")).status, 200);
    }

    fn idle_connections_do_not_hold_it_up(home: Home) {
        let server = home.start();
        let _silent = connect(server.address).expect("a connection");
        let mut kept = Request::new("GET", "/api/organizations/").key(KEY).begin(server.address).expect("a connection");
        assert_eq!(kept.answer().expect("an answer").status, 200);
        server.process.signal("TERM");
        let ended = server.process.end_within(A_FEW_SECONDS);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

#[test]
fn a_query_that_takes_minutes_does_not_hold_it_up() {
    let home = Home::any();
    let server = home.spawn(home.keyed().args(["--shutdown-delay", "0"])).ready();
    let preview = busy_export(&server);
    let mut asked = Request::new("GET", &preview)
        .key(KEY)
        .begin(server.address)
        .expect("a connection");
    let told = Instant::now();
    server.process.signal("TERM");
    let answer = asked.answer().expect("the request is still answered");
    assert_eq!(
        (answer.status, answer.text("/code")),
        (409, "preview_timed_out"),
        "{answer:?}"
    );
    let ended = server.process.end_within(A_FEW_SECONDS);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(told.elapsed() < Duration::from_secs(20), "{:?}", told.elapsed());
}

#[test]
fn ctrl_c_stops_it_like_sigterm() {
    let home = Home::any();
    let server = home.spawn(home.keyed().args(["--shutdown-delay", "0"])).ready();
    server.process.signal("INT");
    let ended = server.process.end_within(A_FEW_SECONDS);
    assert_eq!((ended.code, ended.signal), (Some(0), None), "{ended:?}");
}
