//! Problems become bodies here, once the request id is known and what the client accepts.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

use super::context::RequestContext;
use super::error::Problem;

const PROBLEM_JSON: &str = "application/problem+json";

/// Gives a problem its body. Answers that are no problem stay as they are.
pub(crate) fn rendered(mut response: Response, accept: Option<&HeaderValue>, context: &RequestContext) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    problem.log(&context.request_id);
    let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = if accepts_problem_json(accept) {
        PROBLEM_JSON
    } else {
        "application/json"
    };
    let body = serde_json::to_vec(&problem.body(&context.request_id)).expect("a problem is plain text");
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    *response.body_mut() = Body::from(body);
    response
}

/// Whether it is named, and not with the weight of nothing.
fn accepts_problem_json(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(PROBLEM_JSON));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        is_named && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0))
    })
}
