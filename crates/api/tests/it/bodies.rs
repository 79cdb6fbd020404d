//! Bodies that break other parsers.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
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

    /// What has one would be stored, and could not be read again.
    async fn names_that_the_parser_keeps_for_itself_are_refused(kit: Kit) {
        let apps = kit.at("pipeline_destinations/");
        let source = json!({ "index.ts": "export function onEvent() {}" });
        let app = kit.post(&kit.owner.key, &apps, json!({ "plugin_type": "source", "source": source })).await;
        let path = format!("{apps}{}/", app.body["id"]);
        for name in ["$serde_json::private::RawValue", r"\u0024serde_json::private::RawValue"] {
            let schema = format!(r#"{{"config_schema": [{{"key": "a", "type": "string", "{name}": "no JSON"}}]}}"#);
            let request = bearer("PATCH", &path, &kit.owner.key).header("content-type", "application/json");
            let refused = kit.send(request.body(schema.into()).unwrap()).await;
            assert_eq!(refused.code(), (400, "parse_error"), "{refused:?}");
            assert!(refused.text("/detail").contains("names cannot start"), "{refused:?}");
        }
        assert_eq!(kit.get(&kit.owner.key, &apps).await.status, 200);
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
        assert_eq!((first.status, again.code()), (200, (409, "idempotency_response_lost")), "{again:?}");
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
            assert!(started.elapsed() < Duration::from_secs(30));
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
fn endless(first: &Bytes, asked: &Arc<AtomicUsize>) -> Body {
    let (asked, mut is_new) = (asked.clone(), true);
    let first = stream::iter([Ok::<_, std::io::Error>(first.clone())]);
    Body::from_stream(first.chain(stream::poll_fn(move |_| {
        asked.fetch_add(usize::from(is_new), Ordering::Relaxed);
        is_new = false;
        Poll::Pending
    })))
}

/// Goes on until each of these requests has an answer, or is asked for more. Says what was answered.
async fn hold<F: Future<Output = Reply>>(requests: &mut FuturesUnordered<F>, asked: &AtomicUsize) -> Vec<Reply> {
    let (count, begun, mut answers) = (requests.len(), Instant::now(), Vec::new());
    while asked.load(Ordering::Relaxed) + answers.len() < count {
        if let Ok(Some(answer)) = tokio::time::timeout(Duration::from_millis(5), requests.next()).await {
            answers.push(answer);
        }
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "{asked:?} of {count} are read"
        );
    }
    answers
}

/// Does this while the requests go on: one that nobody polls keeps what it has, such as a connection to the database.
async fn beside<F: Future<Output = Reply>, T>(
    requests: &mut FuturesUnordered<F>,
    answers: &mut Vec<Reply>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Some(answer) = requests.next() => answers.push(answer),
        }
    }
}

async fn kit_behind_a_proxy() -> Kit {
    let settings = api::Settings {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..api::Settings::default()
    };
    Kit::with(Backend::Sqlite, settings).await
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
    let reply = kit
        .send(ask.body(endless(&Bytes::from_static(b"{"), &asked)).unwrap())
        .await;
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
        assert_eq!(send(token, 16 * 1024 + 1).await.code(), (413, "too_large"));
        assert_eq!(send(token, 16 * 1024).await.code(), (400, "parse_error"));
    }
}

/// The bodies fill what strangers of one subnet have while nobody else sends: 16 MB.
#[tokio::test]
async fn strangers_who_never_end_make_room_for_their_neighbors() {
    let kit = kit_behind_a_proxy().await;
    let (first, asked) = (Bytes::from(vec![b' '; 16 * 1024]), Arc::new(AtomicUsize::new(0)));
    let send = |number: usize| {
        let address = format!("2001:db8:1:{:x}00::1", number % 200);
        kit.send(login(&address).body(endless(&first, &asked)).unwrap())
    };
    let mut held: FuturesUnordered<_> = (0..1024).map(send).collect();
    let mut answers = hold(&mut held, &asked).await;
    for address in ["2001:db8:1:ff00::1", "2001:db8:1:100::1", "2001:db8:2::1"] {
        let small = kit.send(login(address).body("{}".into()).unwrap()).await;
        assert_eq!(small.code(), (400, "required"), "{address}");
    }
    answers.extend(held.next().await);
    // On a machine that took very long, they were too slow.
    let is_ended = |answer: &Reply| match answer.code() {
        (503, "server_busy") => {
            answer.header("retry-after") == "5"
                && answer
                    .text("/detail")
                    .starts_with("Too much data is being sent at the same time")
        }
        code => code.0 == 408,
    };
    assert!(!answers.is_empty() && answers.iter().all(is_ended), "{answers:?}");
}

/// The bodies would fill all there is: 256 MB.
#[tokio::test]
async fn one_user_leaves_memory_to_others() {
    let kit = kit_behind_a_proxy().await;
    let (first, asked) = (Bytes::from(vec![b' '; 1024 * 1024]), Arc::new(AtomicUsize::new(0)));
    let create = |key: &str, subnet: usize| {
        bearer("POST", "/api/organizations/", key)
            .header("content-type", "application/json")
            .header("x-forwarded-for", format!("198.51.{subnet}.1"))
    };
    let send = |number: usize| {
        let request = create(&kit.owner.key, number % 8);
        kit.send(request.body(endless(&first, &asked)).unwrap())
    };
    let mut held: FuturesUnordered<_> = (0..256).map(send).collect();
    let mut answers = hold(&mut held, &asked).await;
    let others = async {
        let other = kit.someone("other@example.com").await;
        for size in [100, 100_000] {
            let body = format!(r#"{{"name": "Other", "padding": "{}"}}"#, "x".repeat(size));
            let made = kit.send(create(&other.key, 1).body(body.into()).unwrap()).await;
            assert_eq!(made.status, 201, "{made:?}");
        }
        let sign_in = kit.send(login("198.51.1.1").body("{}".into()).unwrap()).await;
        assert_eq!(sign_in.code(), (400, "required"));
    };
    beside(&mut held, &mut answers, others).await;
    assert!(
        answers.iter().all(|answer| [408, 503].contains(&answer.status)),
        "{answers:?}"
    );
}
