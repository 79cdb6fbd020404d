//! The ways in for events, from the request to the row.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use events::Events;
use events::sqlite::Embedded;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use hogql::Model;
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use testkit::databases::Backend;
use testkit::{Kit, Reply, on_both, stored};
use tower::ServiceExt;

use crate::requests::Log;

/// Every path that SDKs send events to.
const PATHS: [&str; 12] = [
    "/batch/",
    "/batch",
    "/capture/",
    "/capture",
    "/e/",
    "/e",
    "/i/v0/e/",
    "/i/v0/e",
    "/track/",
    "/i/v0/ai/batch/",
    "/engage/",
    "/engage",
];

/// A kit with a store of events beside it.
struct CaptureKit {
    kit: Kit,
    events: Events,
    app: Router,
    token: String,
    _folder: TempDir,
}

impl CaptureKit {
    async fn new(backend: Backend) -> Self {
        Self::with(backend, api::Settings::default()).await
    }

    async fn with(backend: Backend, settings: api::Settings) -> Self {
        let folder = TempDir::with_prefix("hedgerow-").unwrap();
        let kit = Kit::new(backend).await;
        let events = Events::Embedded(Embedded::open(&folder.path().join("events.sqlite")).unwrap());
        let app = api::capture_router(kit.service.clone(), events.clone(), settings);
        let team = kit.get(&kit.owner.key, &kit.at(&format!("teams/{}/", kit.team))).await;
        let token = team.text("/api_token").to_owned();
        Self {
            kit,
            events,
            app,
            token,
            _folder: folder,
        }
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Reply {
        self.send(Request::post(path).body(body.into()).unwrap()).await
    }

    async fn capture(&self, event: &Value) -> Reply {
        self.post("/capture/", event.to_string()).await
    }

    fn event(&self, name: &str) -> Value {
        json!({ "api_key": self.token, "event": name, "distinct_id": "ann" })
    }

    async fn rows(&self, model: Model) -> Vec<Map<String, Value>> {
        stored::rows(&self.events, self.kit.team, model).await
    }
}

on_both! {
    async fn every_path_takes_events(place: CaptureKit) {
        for path in PATHS {
            let reply = place.post(path, place.event(path).to_string()).await;
            assert_eq!((reply.status, &reply.body), (200, &json!({ "status": 1 })), "{path}");
            assert_eq!(reply.header("x-request-id").len(), 32);
        }
        let rows = place.rows(Model::Events).await;
        let names: Vec<&Value> = rows.iter().map(|row| &row["event"]).collect();
        assert_eq!(names, PATHS);
    }

    async fn a_row_holds_what_was_sent(place: CaptureKit) {
        let uuid = "0198c2f6-a9b4-7c01-8000-0123456789ab";
        let mut event = place.event("bought");
        event["uuid"] = json!(uuid);
        event["timestamp"] = json!("2026-11-15T09:00:00.5Z");
        event["properties"] = json!({ "price": 7.5, "$ip": "192.0.2.1" });
        event["$set"] = json!({ "plan": "free" });
        assert_eq!(place.capture(&event).await.status, 200);
        let rows = place.rows(Model::Events).await;
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((&row["uuid"], &row["event"], &row["distinct_id"]), (&json!(uuid), &json!("bought"), &json!("ann")));
        assert_eq!(row["timestamp"], json!("2026-11-15T09:00:00.500Z"));
        assert_eq!(row["team_id"], json!(place.kit.team.0));
        assert_eq!((&row["properties"]["price"], &row["properties"]["$ip"]), (&json!(7.5), &json!("192.0.2.1")));
        let persons = place.rows(Model::Persons).await;
        assert_eq!(persons.len(), 1);
        assert_eq!(persons[0]["person_id"], row["person_id"]);
        assert_eq!(persons[0]["properties"]["plan"], json!("free"));
    }

    async fn an_unknown_token_is_refused(place: CaptureKit) {
        let mut event = place.event("e");
        event["api_key"] = json!("hgp_unknown");
        let reply = place.capture(&event).await;
        assert_eq!((reply.code(), reply.text("/type")), ((401, "invalid_api_key"), "authentication_error"));
        assert_eq!(reply.body["attr"], Value::Null);
        assert!(!reply.body.to_string().contains("hgp_unknown"));
        event["api_key"] = json!(place.kit.owner.key);
        assert_eq!(place.capture(&event).await.code(), (401, "invalid_api_key"));
        event["api_key"] = Value::Null;
        assert_eq!(place.capture(&event).await.code(), (401, "missing_api_key"));
        assert_eq!(place.rows(Model::Events).await.len(), 0);
    }

    async fn a_token_lets_nothing_in_once_its_team_is_gone(place: CaptureKit) {
        let kit = &place.kit;
        let made = kit.post(&kit.admin.key, &kit.at("teams/"), json!({ "name": "Web" })).await;
        let mut event = place.event("e");
        event["api_key"] = made.body["api_token"].clone();
        for _ in 0..3 {
            assert_eq!(place.capture(&event).await.status, 200);
        }
        assert_eq!(kit.delete(&kit.admin.key, made.header("location")).await.status, 204);
        assert_eq!(place.capture(&event).await.code(), (401, "invalid_api_key"));
        let made = kit.post(&kit.admin.key, &kit.at("teams/"), json!({ "name": "Web" })).await;
        event["api_key"] = made.body["api_token"].clone();
        assert_eq!(place.capture(&event).await.status, 200, "a new one is known immediately");
    }

    async fn teams_do_not_see_each_other(place: CaptureKit) {
        assert_eq!(place.capture(&place.event("e")).await.status, 200);
        assert_eq!(stored::rows(&place.events, place.kit.other_team, Model::Events).await.len(), 0);
        assert_eq!(place.rows(Model::Events).await.len(), 1);
    }
}

async fn plain() -> CaptureKit {
    CaptureKit::new(Backend::Sqlite).await
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_as_a_whole() {
    let place = plain().await;
    for (body, code) in [
        ("", (400, "parse_error")),
        ("{", (400, "parse_error")),
        ("nonsense", (400, "parse_error")),
        (
            &format!(r#"{{"api_key":"{}","distinct_id":"d"}}"#, place.token),
            (400, "required"),
        ),
        (
            &format!(r#"{{"api_key":"{}","event":"e"}}"#, place.token),
            (400, "required"),
        ),
    ] {
        let reply = place.post("/e/", body.to_owned()).await;
        assert_eq!(reply.code(), code, "{body}");
        assert!(!reply.text("/detail").is_empty());
    }
    let batch =
        json!({ "api_key": place.token, "batch": [{ "event": "good", "distinct_id": "d" }, { "event": "bad" }] });
    let reply = place.post("/batch/", batch.to_string()).await;
    assert_eq!(reply.code(), (400, "required"));
    assert!(reply.text("/detail").contains("Event 1"));
    let packed = Request::post("/batch/")
        .header("content-encoding", "br")
        .body(Body::from("x"))
        .unwrap();
    assert_eq!(place.send(packed).await.code(), (415, "unsupported_media_type"));
    assert_eq!(place.rows(Model::Events).await.len(), 0);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let place = plain().await;
    let limit = events::capture::MAX_PACKED_BYTES;
    let announced = Request::post("/batch/").header("content-length", (limit + 1).to_string());
    assert_eq!(
        place.send(announced.body(Body::empty()).unwrap()).await.code(),
        (413, "too_large")
    );
    let sent = place.post("/batch/", vec![b' '; limit + 1]).await;
    assert_eq!(sent.code(), (413, "too_large"));
}

#[tokio::test]
async fn large_batches_are_taken() {
    let place = plain().await;
    let filler = "x".repeat(200);
    let events =
        (0..5000).map(|index| json!({ "event": "e", "distinct_id": index, "properties": { "filler": filler } }));
    let batch = json!({ "api_key": place.token, "batch": events.collect::<Vec<_>>() });
    assert_eq!(place.post("/batch/", batch.to_string()).await.status, 200);
    assert_eq!(place.rows(Model::Events).await.len(), 5000);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A batch that is too large to be read at once. `{T}` stands where the token goes.
fn large(start: &str, of_event: &str, end: &str) -> String {
    let filler = "x".repeat(100_000);
    let event = format!(r#"{{"event":"e","distinct_id":"d","properties":{{"filler":"{filler}"{of_event}}}}}"#);
    format!(r#"{{{start}"batch":[{event},{event}]{end}}}"#)
}

#[tokio::test]
async fn large_bodies_are_taken_wherever_their_token_stands() {
    let place = plain().await;
    let first = large(r#""api_key":"{T}","#, "", "");
    let bodies = [
        first.clone(),
        large("", "", r#","sent_at":"2026-11-15T09:30:00Z","api_key":"{T}""#),
        large("", r#","token":"{T}""#, ""),
        large("", r#","token":"one of their own""#, r#","api_key":"{T}""#),
        large("", r#","token":"one of their own""#, r#","token":" {T} ""#),
        format!(
            "[{}]",
            r#"{"event":"e","distinct_id":"d","properties":{"x":"X"},"token":"{T}"}"#
        )
        .replace('X', &"x".repeat(100_000)),
    ];
    let mut count = 0;
    for body in bodies {
        let body = body.replace("{T}", &place.token);
        for packed in [
            body.clone().into_bytes(),
            gzip(body.as_bytes()),
            STANDARD.encode(&body).into_bytes(),
        ] {
            let reply = place.post("/batch/", packed).await;
            assert_eq!(reply.status, 200, "{:?} {}", reply.body, &body[..60]);
            count += 2;
        }
        count -= if body.starts_with('[') { 3 } else { 0 };
    }
    let in_address = format!("/batch/?token={}", place.token);
    assert_eq!(place.post(&in_address, large("", "", "")).await.status, 200);
    let escaped: String = url::form_urlencoded::byte_serialize(first.replace("{T}", &place.token).as_bytes()).collect();
    assert_eq!(place.post("/e/", format!("data={escaped}")).await.status, 200);
    assert_eq!(place.rows(Model::Events).await.len(), count + 4);
}

#[tokio::test]
async fn large_bodies_without_a_good_token_are_refused() {
    let place = plain().await;
    let unknown = [large(r#""api_key":"{T}","#, "", ""), large("", r#","token":"{T}""#, "")];
    for body in unknown.map(|body| body.replace("{T}", "hgp_unknown")) {
        for packed in [
            body.clone().into_bytes(),
            gzip(body.as_bytes()),
            STANDARD.encode(&body).into_bytes(),
        ] {
            assert_eq!(place.post("/batch/", packed).await.code(), (401, "invalid_api_key"));
        }
    }
    assert_eq!(
        place.post("/batch/", large("", "", "")).await.code(),
        (401, "missing_api_key")
    );
    let outranked = large(r#""token":"{T}","#, "", r#","api_key":"hgp_unknown""#).replace("{T}", &place.token);
    assert_eq!(place.post("/batch/", outranked).await.code(), (401, "invalid_api_key"));
    let mut damaged = large("", "", "");
    damaged.pop();
    assert_eq!(place.post("/batch/", damaged).await.code(), (400, "parse_error"));
    let whole = large(r#""api_key":"{T}","#, "", "").replace("{T}", &place.token);
    let cut = gzip(whole.as_bytes());
    assert_eq!(
        place.post("/batch/", cut[..cut.len() - 9].to_vec()).await.code(),
        (400, "parse_error")
    );
    assert_eq!(place.rows(Model::Events).await.len(), 0);
}

#[tokio::test]
async fn a_body_of_too_many_values_is_refused_before_they_are_read() {
    let settings = api::Settings {
        capture_memory: Some(64 * 1024 * 1024),
        ..api::Settings::default()
    };
    let place = CaptureKit::with(Backend::Sqlite, settings).await;
    let body = |each: &str, count: usize| {
        let values = vec![each; count].join(",");
        format!(
            r#"{{"api_key":"{}","event":"e","distinct_id":"d","properties":{{"a":[{values}]}}}}"#,
            place.token
        )
    };
    for each in ["1", "[]", r#"{"":1}"#] {
        let reply = place.post("/e/", gzip(body(each, 600_000).as_bytes())).await;
        assert_eq!(reply.code(), (413, "too_large"), "{each}");
        assert!(reply.text("/detail").contains("values"), "{reply:?}");
        assert_eq!(place.post("/e/", body(each, 5_000)).await.status, 200, "{each}");
    }
}

/// What stands in its string would be read as JSON, after everything was counted.
#[tokio::test]
async fn names_that_the_parser_keeps_for_itself_are_refused() {
    let place = plain().await;
    for name in [
        "$serde_json::private::RawValue",
        r"\u0024serde_json::priv\u0061te::RawValue",
    ] {
        for properties in [
            format!(r#"{{"{name}":"[1]"}}"#),
            format!(r#"{{"a":1,"b":{{"c":1,"{name}":"no JSON"}}}}"#),
        ] {
            let body = format!(
                r#"{{"api_key":"{}","event":"e","distinct_id":"d","properties":{properties}}}"#,
                place.token
            );
            let reply = place.post("/e/", body).await;
            assert_eq!(reply.code(), (400, "parse_error"), "{properties}");
        }
    }
    assert_eq!(place.rows(Model::Events).await.len(), 0);
}

#[tokio::test]
async fn forms_and_base64_are_taken_whatever_their_size() {
    let place = plain().await;
    let small = place.event("e").to_string();
    let grows = large(r#""api_key":"{T}","#, "", "").replace("{T}", &place.token);
    for (body, count) in [(small, 1), (grows, 2)] {
        for inner in [body.clone().into_bytes(), gzip(body.as_bytes())] {
            let before = place.rows(Model::Events).await.len();
            let encoded = STANDARD.encode(&inner);
            let escaped: String = url::form_urlencoded::byte_serialize(encoded.as_bytes()).collect();
            assert_eq!(place.post("/e/", encoded).await.status, 200);
            assert_eq!(place.post("/e/", format!("data={escaped}")).await.status, 200);
            assert_eq!(place.rows(Model::Events).await.len(), before + 2 * count);
        }
    }
}

#[tokio::test]
async fn an_event_that_is_too_large_is_refused() {
    let place = plain().await;
    let mut event = place.event("e");
    event["properties"] = json!({ "a": "x".repeat(1_100_000) });
    let batch = json!({ "api_key": place.token, "batch": [place.event("small"), event] });
    let reply = place.post("/batch/", batch.to_string()).await;
    assert_eq!(reply.code(), (413, "too_large"));
    assert!(reply.text("/detail").contains("Event 1"), "{reply:?}");
    assert_eq!(place.rows(Model::Events).await.len(), 0);
}

#[tokio::test]
async fn an_event_that_removes_too_many_properties_is_refused() {
    let place = plain().await;
    let mut event = place.event("e");
    event["$unset"] = json!((0..10_001).collect::<Vec<i32>>());
    let reply = place.post("/e/", gzip(event.to_string().as_bytes())).await;
    assert_eq!(reply.code(), (413, "too_large"));
    assert!(reply.text("/detail").contains("10000 names in $unset"), "{reply:?}");
    assert_eq!(place.rows(Model::Events).await.len(), 0);
}

#[tokio::test]
async fn only_the_start_of_a_method_is_logged() {
    let place = plain().await;
    let (log, guard) = Log::of_this_thread();
    let method = "M".repeat(60_000);
    let request = Request::builder().method(method.as_str()).uri("/capture/");
    place.send(request.body(Body::empty()).unwrap()).await;
    drop(guard);
    let text = log.text();
    assert!(text.contains(&method[..256]), "{text}");
    assert!(!text.contains(&method[..257]), "{} bytes", text.len());
}

#[tokio::test]
async fn decide_reads_no_further_than_it_must() {
    let place = plain().await;
    let asked = json!({ "token": place.token, "distinct_id": "ann" }).to_string();
    for body in [asked.clone().into_bytes(), gzip(asked.as_bytes())] {
        assert_eq!(place.post("/decide/?v=3", body).await.status, 200);
    }
    let much = format!(r#"{{"x":{{"a":1{}}}}}"#, r#","a":1"#.repeat(3_000_000));
    let much = gzip(much.as_bytes());
    let started = std::time::Instant::now();
    assert_eq!(place.post("/decide/?v=3", much).await.status, 200);
    assert!(
        started.elapsed() < std::time::Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn pages_of_any_site_may_send_and_no_cookie_counts() {
    let place = plain().await;
    let preflight = Request::options("/e/")
        .header("origin", "https://shop.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,x-anything");
    let reply = place.send(preflight.body(Body::empty()).unwrap()).await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, "*"));
    assert_eq!(reply.header("access-control-allow-headers"), "content-type,x-anything");
    assert_eq!(reply.header("access-control-allow-credentials"), "");
    let from_elsewhere = Request::post("/e/?compression=gzip-js")
        .header("origin", "https://shop.example")
        .header("sec-fetch-site", "cross-site")
        .header("content-type", "text/plain")
        .header("cookie", "session=whatever");
    let reply = place
        .send(from_elsewhere.body(place.event("e").to_string().into()).unwrap())
        .await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, "*"));
    assert_eq!(reply.header("set-cookie"), "");
    let refused = Request::post("/e/")
        .header("origin", "https://shop.example")
        .body(Body::from("{"))
        .unwrap();
    assert_eq!(place.send(refused).await.header("access-control-allow-origin"), "*");
}

#[tokio::test]
async fn the_address_of_a_browser_is_noted() {
    let settings = api::Settings {
        trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
        ..api::Settings::default()
    };
    let place = CaptureKit::with(Backend::Sqlite, settings).await;
    let request = Request::post("/e/")
        .extension(api::Peer([192, 0, 2, 1].into()))
        .header("x-forwarded-for", "203.0.113.5");
    assert_eq!(
        place
            .send(request.body(place.event("e").to_string().into()).unwrap())
            .await
            .status,
        200
    );
    assert_eq!(
        place.rows(Model::Events).await[0]["properties"]["$ip"],
        json!("203.0.113.5")
    );
}

/// A place with so little memory that senders without a token have a megabyte, and each network a quarter of it.
async fn small_place() -> CaptureKit {
    let settings = api::Settings {
        trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
        capture_memory: Some(8 * 1024 * 1024),
        ..api::Settings::default()
    };
    CaptureKit::with(Backend::Sqlite, settings).await
}

async fn send_from(place: &CaptureKit, address: &str, path: &str, body: Body) -> Reply {
    let request = Request::post(path)
        .extension(api::Peer([192, 0, 2, 1].into()))
        .header("x-forwarded-for", address);
    place.send(request.body(body).unwrap()).await
}

/// Bodies without a token, one from each address, that begin and never end. What one is given of memory, they hold.
async fn hold<'a>(place: &'a CaptureKit, addresses: &[&'a str]) -> impl Future<Output = Vec<Reply>> + use<'a> {
    let asked = Arc::new(AtomicU32::new(0));
    let bodies: Vec<_> = addresses
        .iter()
        .map(|address| {
            let asked = asked.clone();
            let first = [br#"{"a":""#.to_vec(), vec![b'x'; 130_000]].concat();
            let silence = stream::poll_fn(move |_| {
                asked.fetch_add(1, Ordering::Relaxed);
                Poll::Pending
            });
            let body = stream::iter([Ok::<_, std::io::Error>(first)]).chain(silence);
            send_from(place, address, "/batch/", Body::from_stream(body))
        })
        .collect();
    let count = u32::try_from(bodies.len()).unwrap();
    let mut held = Box::pin(join_all(bodies));
    while asked.load(Ordering::Relaxed) < count {
        let ended = tokio::time::timeout(Duration::from_millis(5), held.as_mut()).await;
        assert!(ended.is_err(), "they are given up before all have begun: {ended:?}");
    }
    held
}

/// An event of 60 kB that arrives in two pieces.
fn in_two_pieces(place: &CaptureKit) -> Body {
    let mut event = place.event("in two pieces");
    event["properties"] = json!({ "text": "x".repeat(60_000) });
    let text = event.to_string().into_bytes();
    let (first, second) = text.split_at(30_000);
    let pieces = [first.to_vec(), second.to_vec()].map(Ok::<_, std::io::Error>);
    Body::from_stream(stream::iter(pieces))
}

#[tokio::test]
async fn who_shows_no_token_makes_room_for_others() {
    let place = small_place().await;
    let held = hold(&place, &["198.51.1.1", "198.51.2.1", "198.51.3.1", "198.51.4.1"]).await;
    let honest = send_from(&place, "203.0.113.1", "/batch/", in_two_pieces(&place)).await;
    assert_eq!(honest.status, 200, "{honest:?}");
    drop(held);
}

#[tokio::test]
async fn a_token_in_the_query_is_looked_at_before_memory_is_needed() {
    let place = small_place().await;
    let held = hold(&place, &["203.0.113.1"]).await;
    let path = format!("/batch/?token={}", place.token);
    let honest = send_from(&place, "203.0.113.1", &path, in_two_pieces(&place)).await;
    assert_eq!(honest.status, 200, "{honest:?}");
    drop(held);
}

#[tokio::test]
async fn a_get_may_carry_an_event() {
    let place = plain().await;
    let data: String = url::form_urlencoded::byte_serialize(place.event("seen").to_string().as_bytes()).collect();
    let reply = place
        .send(Request::get(format!("/e/?data={data}")).body(Body::empty()).unwrap())
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(place.rows(Model::Events).await[0]["event"], json!("seen"));
}

#[tokio::test]
async fn there_are_no_flags() {
    let place = plain().await;
    for path in ["/flags/?v=2", "/flags", "/decide/?v=3", "/decide/"] {
        let reply = place.post(path, "{}").await;
        assert_eq!((reply.status, &reply.body["featureFlags"]), (200, &json!({})), "{path}");
        assert_eq!(reply.body["errorsWhileComputingFlags"], json!(false));
    }
    let get = async |path: &str| place.send(Request::get(path).body(Body::empty()).unwrap()).await;
    assert_eq!(get("/array/hgp_x/config").await.body["sessionRecording"], json!(false));
    let script = get("/array/hgp_x/config.js").await;
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    assert!(script.body.as_str().unwrap().contains(r#"["hgp_x"] = {"#));
    assert_eq!(get("/array/a%22%5D;alert(1)/config.js").await.body, json!(""));
}
