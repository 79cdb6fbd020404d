//! `ETag`, `If-Match` and `If-None-Match`.

use aide::OperationInput;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::http::error::Problem;
use crate::http::json::to_json;

/// A strong tag: other bytes, other tag.
pub(crate) fn entity_tag(body: &[u8]) -> HeaderValue {
    HeaderValue::try_from(format!("\"{}\"", hash(body))).expect("hexadecimal digits in quotes")
}

/// 128 bits of SHA-256 in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let (half, _) = digest.split_at(16);
    format!("{:032x}", u128::from_be_bytes(half.try_into().expect("sixteen bytes")))
}

/// What the client last saw, if it said so.
#[derive(Debug, Clone, Default)]
pub(crate) struct IfMatch(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get(header::IF_MATCH) else {
            return Ok(Self(None));
        };
        let text = value
            .to_str()
            .map_err(|_| Problem::invalid("If-Match", "invalid_input", "Must be an entity tag (ETag)."))?;
        Ok(Self(Some(text.to_owned())))
    }
}

impl IfMatch {
    /// Whether the resource still looks as the client saw it.
    pub(crate) fn fits<V: Serialize>(&self, view: &V) -> bool {
        match &self.0 {
            None => true,
            Some(tags) => names(tags, &entity_tag(&to_json(view)), Comparison::Strong),
        }
    }
}

impl OperationInput for IfMatch {
    fn operation_input(_: &mut aide::generate::GenContext, operation: &mut aide::openapi::Operation) {
        crate::http::operation::note(operation, "x-if-match", true);
    }
}

#[derive(PartialEq, Clone, Copy)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of tags, or `*`, names this one.
fn names(tags: &str, tag: &HeaderValue, comparison: Comparison) -> bool {
    let is_it = |given: &str| {
        let given = match comparison {
            Comparison::Weak => given.strip_prefix("W/").unwrap_or(given),
            Comparison::Strong => given,
        };
        given == "*" || given.as_bytes() == tag.as_bytes()
    };
    tags.split(',').map(str::trim).any(is_it)
}

/// Saves sending what the client has already.
pub(crate) fn not_modified(mut response: Response, method: &Method, tags: Option<&HeaderValue>) -> Response {
    let is_read = matches!(*method, Method::GET | Method::HEAD) && response.status() == StatusCode::OK;
    let Some(tags) = tags.filter(|_| is_read) else {
        return response;
    };
    let (Ok(tags), Some(tag)) = (tags.to_str(), response.headers().get(header::ETAG)) else {
        return response;
    };
    if !names(tags, tag, Comparison::Weak) {
        return response;
    }
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response.headers_mut().remove(header::CONTENT_TYPE);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::empty();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_as_http_says() {
        let tag = entity_tag(b"body");
        let text = tag.to_str().expect("ascii").to_owned();
        assert!(names(&format!("\"other\", {text}"), &tag, Comparison::Strong));
        assert!(names("*", &tag, Comparison::Strong));
        assert!(!names(&format!("W/{text}"), &tag, Comparison::Strong));
        assert!(names(&format!("W/{text}"), &tag, Comparison::Weak));
        assert!(!names("\"other\"", &tag, Comparison::Weak));
        assert_ne!(entity_tag(b"bodies"), tag);
    }
}
