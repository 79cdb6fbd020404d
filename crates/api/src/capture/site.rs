//! Frontend apps, as pages load them. They stand at a path of their own, and the answer may do nothing but be a script.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use service::pipeline::{Script, SiteApp};
use service::{AppConfigId, Error, Service, TeamId};
use std::sync::Arc;

use super::state::Capture;

/// What changes with code and values is in the address, so an answer never changes.
const FOR_A_DAY: HeaderValue = HeaderValue::from_static("public, max-age=86400");
/// Opened alone, the script runs nowhere and loads nothing.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox");

/// `GET /site_app/{config}/{token}/{version}/`
pub(super) async fn site(
    State(capture): State<Arc<Capture>>,
    Path(address): Path<(String, String, String)>,
) -> Response {
    serve(
        &capture.service,
        &address,
        Script::Site,
        |id, SiteApp { script, values }| {
            let values = Value::Object(values);
            let options = format!("{{ config: {values}, posthog: window[\"__$$ph_site_app_{id}\"] }}");
            format!("({script})().inject({options});\n")
        },
    )
    .await
}

/// `GET /frontend_app/{config}/{token}/{version}/`
pub(super) async fn frontend(
    State(capture): State<Arc<Capture>>,
    Path(address): Path<(String, String, String)>,
) -> Response {
    serve(
        &capture.service,
        &address,
        Script::Frontend,
        |id, SiteApp { script, .. }| {
            format!("(window.hedgerowApps = window.hedgerowApps || {{}})[\"{id}\"] = ({script})();\n")
        },
    )
    .await
}

/// Where scripts of apps have a host of their own, they are served nowhere else: whoever opens one as a page must not be
/// on the console's.
pub(super) async fn only_on_its_host(State(capture): State<Arc<Capture>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match capture.settings.is_for_apps(&parts) {
        Some(false) => missing(),
        _ => next.run(Request::from_parts(parts, body)).await,
    }
}

async fn serve(
    service: &Service,
    (id, token, _): &(String, String, String),
    which: Script,
    write: impl FnOnce(AppConfigId, SiteApp) -> String,
) -> Response {
    let Ok(id) = id.parse::<AppConfigId>() else {
        return missing();
    };
    match service.site_app(id, token, which).await {
        Ok(Some(app)) => script(write(id, app)),
        Ok(None) => missing(),
        Err(error) => failed(&error),
    }
}

fn script(text: String) -> Response {
    let headers: [(HeaderName, HeaderValue); 5] = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/javascript; charset=utf-8"),
        ),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("cross-origin"),
        ),
        (header::CACHE_CONTROL, FOR_A_DAY),
    ];
    (headers, text).into_response()
}

fn missing() -> Response {
    let body = json!({
        "type": "invalid_request",
        "code": "missing_site_app_source",
        "detail": "Frontend app not found or disabled.",
        "attr": null,
    });
    (StatusCode::NOT_FOUND, axum::Json(body)).into_response()
}

fn failed(error: &Error) -> Response {
    let (Error::Unavailable { wait, .. } | Error::Throttled(wait)) = error else {
        tracing::error!(
            error = error as &dyn std::error::Error,
            "a frontend app could not be served"
        );
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let body = json!({
        "type": "server_error",
        "code": "server_busy",
        "detail": error.to_string(),
        "attr": null,
    });
    let retry = [(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)))];
    (StatusCode::SERVICE_UNAVAILABLE, retry, axum::Json(body)).into_response()
}

/// What pages of a team load, for SDKs to find.
pub(super) async fn listed(service: &Service, team: TeamId) -> Value {
    let apps = service.site_apps(team).await.unwrap_or_else(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "frontend apps could not be listed"
        );
        Vec::new()
    });
    let each = |(id, token, version): (AppConfigId, String, String)| json!({ "id": id, "type": "site_app", "url": format!("/site_app/{id}/{token}/{version}/") });
    apps.into_iter().map(each).collect()
}
