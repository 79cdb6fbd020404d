//! Bodies that break other parsers.

use std::time::{Duration, Instant};

use axum::body::Body;
use testkit::kit::bearer;
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
