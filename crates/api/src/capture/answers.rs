//! What senders are told. SDKs throw away what was refused with a status below 500, and try again what failed.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use events::capture::Refusal;
use serde_json::json;

use crate::http::receive::ReceiveError;

/// How many seconds SDKs wait before they try again.
const RETRY_AFTER: u32 = 5;

pub(super) type Result<T> = std::result::Result<T, Refused>;

/// So many events are stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done(pub(super) usize);

/// Nothing was stored, and why.
#[derive(Debug)]
pub(super) enum Refused {
    Body(Refusal),
    UnknownToken,
    /// The sender went away in the middle.
    Broken,
    /// The sender is there, but hardly sends.
    TooSlow,
    /// Parsed, the body would need more than any request may have.
    TooMuchMemory,
    Busy,
    TimedOut,
    Failed,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Body(refusal)
    }
}

impl From<ReceiveError> for Refused {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::TooLarge => Self::Body(Refusal::TooLarge),
            ReceiveError::TooSlow => Self::TooSlow,
            ReceiveError::Busy => Self::Busy,
            ReceiveError::Broken => Self::Broken,
        }
    }
}

impl From<events::Error> for Refused {
    fn from(error: events::Error) -> Self {
        if let events::Error::EventTooLarge(index) = error {
            return Self::Body(Refusal::EventTooLarge(index));
        }
        tracing::error!(error = &error as &dyn std::error::Error, "events could not be stored");
        Self::Failed
    }
}

impl From<service::Error> for Refused {
    fn from(error: service::Error) -> Self {
        tracing::error!(error = &error as &dyn std::error::Error, "could not look up a team");
        Self::Failed
    }
}

impl Refused {
    /// The status, the type and the code, one line a case.
    fn kind(&self) -> (StatusCode, &'static str, &'static str) {
        const REQUEST: &str = "invalid_request";
        const VALIDATION: &str = "validation_error";
        const AUTHENTICATION: &str = "authentication_error";
        const SERVER: &str = "server_error";
        match self {
            Self::Body(refusal) => match refusal {
                Refusal::Empty | Refusal::Unreadable(_) => (StatusCode::BAD_REQUEST, REQUEST, "parse_error"),
                Refusal::TooLarge | Refusal::TooMany | Refusal::TokenTooFar | Refusal::EventTooLarge(_) => {
                    (StatusCode::PAYLOAD_TOO_LARGE, REQUEST, "too_large")
                }
                Refusal::UnknownPacking => (StatusCode::UNSUPPORTED_MEDIA_TYPE, REQUEST, "unsupported_media_type"),
                Refusal::NoToken => (StatusCode::UNAUTHORIZED, AUTHENTICATION, "missing_api_key"),
                Refusal::ManyTokens => (StatusCode::BAD_REQUEST, VALIDATION, "invalid_input"),
                Refusal::NoName(_) | Refusal::NoDistinctId(_) => (StatusCode::BAD_REQUEST, VALIDATION, "required"),
            },
            Self::UnknownToken => (StatusCode::UNAUTHORIZED, AUTHENTICATION, "invalid_api_key"),
            Self::Broken => (StatusCode::BAD_REQUEST, REQUEST, "parse_error"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, REQUEST, "too_slow"),
            Self::TooMuchMemory => (StatusCode::PAYLOAD_TOO_LARGE, REQUEST, "too_large"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "busy"),
            Self::TimedOut => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "timeout"),
            Self::Failed => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "error"),
        }
    }

    /// Whether the rest of the body is worth reading, so that its sender comes to read this answer.
    pub(super) fn is_for_a_reader(&self) -> bool {
        !matches!(self, Self::Broken | Self::TooSlow | Self::TimedOut)
    }

    fn detail(&self) -> String {
        match self {
            Self::Body(refusal) => refusal.to_string(),
            Self::UnknownToken => "Invalid project API key. Use the api_token of one of your teams.".to_owned(),
            Self::Broken => "The request body ended too early.".to_owned(),
            Self::TooSlow => {
                "The request body is arriving too slowly. Send at least 10,000 bytes every 10 seconds.".to_owned()
            }
            Self::TooMuchMemory => "The request body has too many values. Send fewer events per request.".to_owned(),
            Self::Busy => "Too much data is being sent at the same time. Try again.".to_owned(),
            Self::TimedOut => "The request timed out. Try again.".to_owned(),
            Self::Failed => "The events could not be stored. Try again.".to_owned(),
        }
    }
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        metrics::counter!("hedgerow_captured_events_total").increment(self.0 as u64);
        // As text: this is said for every request.
        ([(header::CONTENT_TYPE, "application/json")], r#"{"status":1}"#).into_response()
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, r#type, code) = self.kind();
        count_request(status);
        let body = json!({ "type": r#type, "code": code, "detail": self.detail(), "attr": null });
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::REQUEST_TIMEOUT {
            response
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER));
        }
        response
    }
}

/// How many events a refused request held is often not known.
fn count_request(status: StatusCode) {
    let outcome = if status.is_server_error() { "failed" } else { "refused" };
    metrics::counter!("hedgerow_capture_requests_refused_total", "outcome" => outcome).increment(1);
}
