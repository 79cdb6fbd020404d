//! What SDKs ask for when they start. There are no feature flags here, and nothing is enabled from afar but the team's
//! own frontend apps.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, header};
use events::capture::{Progress, TokenScan};
use serde_json::{Value, json};
use std::sync::Arc;

use super::answers::{Refused, Result};
use super::budget::Reservation;
use super::receive::receiver;
use super::search::{SCANNER, search};
use super::site;
use super::state::Capture;
use crate::http::receive::Receiver;

/// How much of a body is searched for the token.
const MAX_SEARCHED: usize = 64 * 1024;

/// `POST /flags/`
pub(super) async fn flags() -> Json<Value> {
    Json(json!({
        "flags": {},
        "featureFlags": {},
        "featureFlagPayloads": {},
        "errorsWhileComputingFlags": false,
    }))
}

/// `POST /decide/`, which older SDKs ask instead.
pub(super) async fn decide(State(capture): State<Arc<Capture>>, request: Request) -> Result<Json<Value>> {
    let mut answer = settings(&capture, &token(&capture, request).await?).await;
    answer["featureFlags"] = json!({});
    answer["featureFlagPayloads"] = json!({});
    answer["errorsWhileComputingFlags"] = json!(false);
    answer["isAuthenticated"] = json!(false);
    answer["config"] = json!({ "enable_collect_everything": true });
    answer["toolbarParams"] = json!({});
    Ok(Json(answer))
}

/// The token in a body, of which nothing else is kept; empty if there is none in its first part.
async fn token(capture: &Capture, request: Request) -> Result<String> {
    let (parts, body) = request.into_parts();
    let mut counted = capture.budget.enter(capture.settings.client_address(&parts))?;
    let receiver = receiver(body, &parts.headers)?;
    let ended = counted.stay();
    tokio::select! {
        biased;
        () = ended => Err(Refused::Busy),
        token = find(capture, counted, receiver) => token,
    }
}

async fn find(capture: &Capture, mut counted: Reservation, mut receiver: Receiver) -> Result<String> {
    let mut scan = TokenScan::default();
    let mut first = None;
    while let Some(bytes) = receiver.next().await? {
        let mut taken = 0;
        if counted.bytes() == 0 && scan.will_unpack(&bytes) {
            counted.patiently(|mine| mine.grow(SCANNER)).await?;
        }
        while first.is_none() && taken < bytes.len() && may_go_on(&scan) {
            let more;
            (scan, more) = search(capture, counted.sender(), scan, &bytes[taken..]).await?;
            taken += more;
            first = scan.candidates().into_iter().next();
        }
    }
    Ok(first.map_or_else(String::new, |candidate| candidate.token))
}

/// SDKs ask with a few hundred bytes.
fn may_go_on(scan: &TokenScan) -> bool {
    scan.progress() == Progress::Searching && scan.seen() < MAX_SEARCHED
}

/// `GET /array/{token}/config`
pub(super) async fn config(State(capture): State<Arc<Capture>>, Path(token): Path<String>) -> Json<Value> {
    Json(settings(&capture, &token).await)
}

/// The same as a script, which `posthog-js` puts into pages.
pub(super) async fn config_script(
    State(capture): State<Arc<Capture>>,
    Path(token): Path<String>,
) -> ([(HeaderName, &'static str); 1], String) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let script = if token.bytes().all(is_plain) {
        let all = json!({ "config": settings(&capture, &token).await, "siteApps": [] });
        format!("(window._POSTHOG_REMOTE_CONFIG = window._POSTHOG_REMOTE_CONFIG || {{}})[\"{token}\"] = {all};\n")
    } else {
        String::new()
    };
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], script)
}

/// What the server can do for a browser: take events, and name the team's frontend apps.
async fn settings(capture: &Capture, token: &str) -> Value {
    let site_apps = match capture.service.team_by_token(token).await {
        Ok(Some(found)) => site::listed(&capture.service, found.team).await,
        _ => json!([]),
    };
    json!({
        "supportedCompression": ["gzip", "gzip-js"],
        "hasFeatureFlags": false,
        "capturePerformance": false,
        "autocapture_opt_out": false,
        "autocaptureExceptions": false,
        "elementsChainAsString": true,
        "sessionRecording": false,
        "heatmaps": false,
        "surveys": false,
        "siteApps": site_apps,
    })
}
