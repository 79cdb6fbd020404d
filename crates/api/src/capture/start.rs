//! What SDKs ask for when they start. There are no feature flags here, and nothing is switched on from afar.

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderName, header};
use serde_json::{Value, json};

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
pub(super) async fn decide() -> Json<Value> {
    let mut answer = settings();
    answer["featureFlags"] = json!({});
    answer["featureFlagPayloads"] = json!({});
    answer["errorsWhileComputingFlags"] = json!(false);
    answer["isAuthenticated"] = json!(false);
    answer["config"] = json!({ "enable_collect_everything": true });
    answer["toolbarParams"] = json!({});
    Json(answer)
}

/// `GET /array/{token}/config`
pub(super) async fn config() -> Json<Value> {
    Json(settings())
}

/// The same as a script, which `posthog-js` puts into pages.
pub(super) async fn config_script(Path(token): Path<String>) -> ([(HeaderName, &'static str); 1], String) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let script = if token.bytes().all(is_plain) {
        let all = json!({ "config": settings(), "siteApps": [] });
        format!("(window._POSTHOG_REMOTE_CONFIG = window._POSTHOG_REMOTE_CONFIG || {{}})[\"{token}\"] = {all};\n")
    } else {
        String::new()
    };
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], script)
}

/// What the server can do for a browser: take events, and nothing else.
fn settings() -> Value {
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
        "siteApps": [],
    })
}
