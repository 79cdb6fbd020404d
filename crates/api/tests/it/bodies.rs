//! Bodies that break other parsers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use futures_util::{StreamExt, stream};
use serde_json::json;
use testkit::databases::Backend;
use testkit::kit::{bearer, with_json};
use testkit::{Kit, Reply, on_both};

async fn post(kit: &Kit, content_type: Option<&str>, body: impl Into<Body>) -> Reply {
    let request = bearer("POST", "/api/organizations/", &kit.owner.key);
    let request = match content_type {
        Some(content_type) => request.header("content-type", content_type),
        None => request,
    };
    kit.send(request.body(body.into()).unwrap()).await
}

const JSON: Option<&str> = Some("application/json");

on_both! {
    async fn what_is_short_and_becomes_large_is_refused_before_it_is_read(kit: Kit) {
        let many = format!(r#"{{"name": [{}{{}}]}}"#, r#"{"":0},"#.repeat(20_000));
        let refused = post(&kit, JSON, many).await;
        assert_eq!(refused.code(), (400, "parse_error"), "{refused:?}");
        assert!(refused.text("/detail").contains("too many values"), "{refused:?}");
        let few = format!(r#"{{"name": [{}{{}}]}}"#, r#"{"":0},"#.repeat(2_000));
        assert_eq!(post(&kit, JSON, few).await.code(), (400, "invalid_input"), "that much is read");
    }

    async fn long_answers_are_not_kept(kit: Kit) {
        let apps = kit.at("pipeline_destinations/");
        let update = async |length: usize, key: &str| {
            let source = json!({ "index.ts": format!("export function onEvent() {{}} // {}", "x".repeat(length)) });
            let app = kit.post(&kit.owner.key, &apps, json!({ "plugin_type": "source", "source": source })).await;
            let path = format!("{apps}{}/update_source/", app.body["id"]);
            let send = async || {
                let request = bearer("PATCH", &path, &kit.owner.key).header("idempotency-key", key);
                kit.send(with_json(request, &json!({}))).await
            };
            (send().await, send().await)
        };
        let (first, again) = update(1_000, "short").await;
        assert_eq!((first.status, &first.body), (200, &again.body), "{first:?}");
        let (first, again) = update(200_000, "long").await;
        assert_eq!((first.status, again.code()), (200, (409, "idempotency_answer_lost")), "{again:?}");
        let stored: Vec<i64> = kit.database.column("SELECT count(*) FROM idempotency WHERE length(body) > 65536").await;
        assert_eq!(stored, [0]);
    }

    async fn hostile_json_is_refused_quickly(kit: Kit) {
        let deep = format!(r#"{{"name": {}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        let cases = [
            r#"{"name": "a", "name": "b"}"#.to_owned(),
            r#"{"name": "a\u0000b"}"#.to_owned(),
            r#"{"name": "\ud800"}"#.to_owned(),
            r#"{"name": 1e400}"#.to_owned(),
            r#"{"name": "a"} {"name": "b"}"#.to_owned(),
            r#"{"name": "a",}"#.to_owned(),
            "{'name': 'a'}".to_owned(),
            "nonsense".to_owned(),
            deep,
        ];
        for body in cases {
            let started = Instant::now();
            let reply = post(&kit, JSON, body.clone()).await;
            assert_eq!((reply.code(), reply.text("/type")), ((400, "parse_error"), "invalid_request"), "{body:.40}");
            assert!(started.elapsed() < Duration::from_secs(1));
        }
        let invalid_utf8 = post(&kit, JSON, b"{\"name\": \"\xff\"}".to_vec()).await;
        assert_eq!(invalid_utf8.code(), (400, "parse_error"));
    }

    async fn a_body_has_a_largest_size(kit: Kit) {
        let body = format!(r#"{{"name": "a", "padding": "{}"}}"#, "x".repeat(1024 * 1024));
        assert_eq!(post(&kit, JSON, body).await.code(), (413, "too_large"));
        let fits = format!(r#"{{"name": "a", "padding": "{}"}}"#, "x".repeat(1024 * 1024 - 100));
        assert_eq!(post(&kit, JSON, fits).await.status, 201);
    }

    async fn only_json_is_understood(kit: Kit) {
        let body = r#"{"name": "Fine"}"#;
        for content_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("multipart/form-data")] {
            assert_eq!(post(&kit, content_type, body).await.code(), (415, "unsupported_media_type"), "{content_type:?}");
        }
        for content_type in ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"] {
            assert_eq!(post(&kit, Some(content_type), body).await.status, 201, "{content_type}");
        }
        assert_eq!(post(&kit, None, "").await.code(), (400, "required"));
    }
}

/// A body that never ends, and says when it was asked for more than its first bytes.
fn endless(first: usize, asked: &Arc<AtomicUsize>) -> Body {
    let asked = asked.clone();
    let first = stream::iter([Ok::<_, std::io::Error>(vec![b' '; first])]);
    Body::from_stream(first.chain(stream::poll_fn(move |_| {
        asked.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    })))
}

fn login(address: &str) -> axum::http::request::Builder {
    Request::post("/api/login/")
        .header("host", "hedgerow.test")
        .header("content-type", "application/json")
        .header("x-forwarded-for", address)
}

#[tokio::test]
async fn no_body_is_read_before_the_credential() {
    let kit = Kit::new(Backend::Sqlite).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let ask = bearer("POST", "/api/organizations/", "a-key-that-never-was").header("idempotency-key", "once");
    let reply = kit.send(ask.body(endless(10, &asked)).unwrap()).await;
    assert_eq!((reply.status, asked.load(Ordering::Relaxed)), (401, 0));
}

#[tokio::test]
async fn strangers_send_little() {
    let kit = Kit::new(Backend::Sqlite).await;
    let send = async |token: Option<&str>, size: usize| {
        let request = login("127.0.0.1");
        let request = match token {
            Some(token) => request.header("idempotency-key", token),
            None => request,
        };
        kit.send(request.body(" ".repeat(size).into()).unwrap()).await
    };
    for token in [None, Some("once")] {
        assert_eq!(send(token, 64 * 1024 + 1).await.code(), (413, "too_large"));
        assert_eq!(send(token, 64 * 1024).await.code(), (400, "parse_error"));
    }
}

/// 8 MB are 128 times the most that a stranger may send.
#[tokio::test]
async fn bodies_of_strangers_have_so_much_memory() {
    let settings = api::Settings {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..api::Settings::default()
    };
    let kit = Kit::with(Backend::Sqlite, settings).await;
    let small = async |address: &str| kit.send(login(address).body("{}".into()).unwrap()).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let held = (0..128).map(|_| kit.send(login("192.0.2.1").body(endless(64 * 1024, &asked)).unwrap()));
    let mut held = Box::pin(futures_util::future::join_all(held));
    let begun = Instant::now();
    while asked.load(Ordering::Relaxed) < 128 {
        let _ = tokio::time::timeout(Duration::from_millis(5), held.as_mut()).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{asked:?} of 128 are read");
    }
    let refused = small("192.0.2.1").await;
    assert_eq!(
        (refused.code(), refused.header("retry-after")),
        ((503, "server_busy"), "5")
    );
    assert!(refused.text("/detail").starts_with("too much is being sent at once"));
    assert_eq!(small("192.0.2.2").await.code(), (400, "required"));
    let known = bearer("POST", "/api/organizations/", &kit.owner.key).header("x-forwarded-for", "192.0.2.1");
    assert_eq!(
        kit.send(with_json(known, &json!({ "name": "Known" }))).await.status,
        201
    );
    drop(held);
    assert_eq!(small("192.0.2.1").await.code(), (400, "required"));
}
