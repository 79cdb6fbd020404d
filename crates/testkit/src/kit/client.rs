//! A client of the API without a port.

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::Kit;

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("a header is text"))
    }

    /// The body's text at a place such as `/results/0/id`.
    pub fn text(&self, pointer: &str) -> &str {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no text at {pointer}: {self:?}"))
    }

    pub fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}

impl Kit {
    pub async fn get(&self, key: &str, path: &str) -> Reply {
        self.send(bearer("GET", path, key).body(Body::empty()).expect("a request"))
            .await
    }

    pub async fn delete(&self, key: &str, path: &str) -> Reply {
        self.send(bearer("DELETE", path, key).body(Body::empty()).expect("a request"))
            .await
    }

    pub async fn post(&self, key: &str, path: &str, body: Value) -> Reply {
        self.send(with_json(bearer("POST", path, key), &body)).await
    }

    pub async fn patch(&self, key: &str, path: &str, body: Value) -> Reply {
        self.send(with_json(bearer("PATCH", path, key), &body)).await
    }

    pub async fn send(&self, mut request: Request<Body>) -> Reply {
        api::end_path_with_slash(&mut request);
        let response = self.app.clone().oneshot(request).await.expect("the app always answers");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("the answer is whole").to_bytes();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).unwrap_or_default()
        };
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }
}

pub fn bearer(method: &str, path: &str, key: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "hedgerow.test")
        .header("authorization", format!("Bearer {key}"))
}

pub fn with_json(request: axum::http::request::Builder, body: &Value) -> Request<Body> {
    let request = request.header("content-type", "application/json");
    request.body(Body::from(body.to_string())).expect("a request")
}
