//! Middleware of the capture endpoints: request ID, time limit, log, metrics.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use service::caller;

use super::answers::Refused;
use super::state::Capture;
use crate::http::context::{REQUEST_ID, TIME_LIMIT, request_id};
use crate::http::middleware::start_of;

pub(super) async fn layer(State(capture): State<Arc<Capture>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&capture.service, request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let (parts, body) = request.into_parts();
    let address = capture.settings.client_address(&parts);
    let request = Request::from_parts(parts, body);
    let answer = caller::on_behalf_of(Some(address), next.run(request));
    let answer = AssertUnwindSafe(answer).catch_unwind();
    let response = match tokio::time::timeout(TIME_LIMIT, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => Refused::Failed.into_response(),
        Err(_) => Refused::TimedOut.into_response(),
    };
    let held = capture.response_memory.hold(response, address, None).await;
    let mut response = held.unwrap_or_else(|_| Refused::Busy.into_response());
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    let (status, took) = (response.status(), started.elapsed());
    // The path is left out: it may hold a token.
    tracing::info!(
        request_id = &*id,
        method = start_of(method.as_str()),
        route,
        status = status.as_u16(),
        duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        "request"
    );
    capture.meters.count(&method, route, status, took);
    response
}
