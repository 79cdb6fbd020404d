//! Errors as answers. The only place where a failure becomes a status.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use service::{Error, Invalid, Undone};

use crate::http::body_memory::{MAX_BYTES, MAX_UNAUTHENTICATED_BYTES};

/// What went wrong, as the client is told.
#[derive(Debug, Clone)]
pub(crate) enum Problem {
    Service(Arc<Error>),
    NotAuthenticated,
    AuthenticationFailed,
    /// The credential is fine, but a signed-in person is needed.
    SignInNeeded,
    /// The password was right; a code is asked for next.
    CodeNeeded,
    CrossOrigin,
    /// The header `Host` is there twice, or is none.
    BadHost,
    Validation(Vec<Invalid>),
    /// The body is no JSON, or not as JSON should be.
    Unreadable(String),
    NoSuchRoute,
    MethodNotAllowed,
    TooLarge,
    /// The body hardly arrives.
    TooSlow,
    UnsupportedMediaType,
    Throttled(Duration),
    TimedOut,
    Panicked,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if let Error::Throttled(wait) = error {
            return Self::Throttled(wait);
        }
        Self::Service(Arc::new(error))
    }
}

impl Problem {
    /// One query parameter or header that breaks its rule.
    pub(crate) fn invalid(attr: impl Into<Cow<'static, str>>, code: &'static str, detail: impl Into<String>) -> Self {
        Self::Validation(vec![Invalid {
            field: Some(attr.into()),
            code,
            detail: detail.into(),
        }])
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.kind().0
    }

    /// The status, the type and the code, one line a case.
    fn kind(&self) -> (StatusCode, &'static str, &'static str) {
        const VALIDATION: &str = "validation_error";
        const REQUEST: &str = "invalid_request";
        const AUTHENTICATION: &str = "authentication_error";
        const SERVER: &str = "server_error";
        match self {
            Self::NotAuthenticated => (StatusCode::UNAUTHORIZED, AUTHENTICATION, "not_authenticated"),
            Self::AuthenticationFailed => (StatusCode::UNAUTHORIZED, AUTHENTICATION, "authentication_failed"),
            Self::SignInNeeded | Self::CrossOrigin => (StatusCode::FORBIDDEN, AUTHENTICATION, "permission_denied"),
            Self::BadHost => (StatusCode::BAD_REQUEST, REQUEST, "invalid_host"),
            Self::CodeNeeded => (StatusCode::UNAUTHORIZED, AUTHENTICATION, "2fa_required"),
            Self::Validation(_) => (StatusCode::BAD_REQUEST, VALIDATION, "invalid_input"),
            Self::Unreadable(_) => (StatusCode::BAD_REQUEST, REQUEST, "parse_error"),
            Self::NoSuchRoute => (StatusCode::NOT_FOUND, REQUEST, "not_found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, REQUEST, "method_not_allowed"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, REQUEST, "too_large"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, REQUEST, "too_slow"),
            Self::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, REQUEST, "unsupported_media_type"),
            Self::Throttled(_) => (StatusCode::TOO_MANY_REQUESTS, "throttled_error", "throttled"),
            Self::TimedOut => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "timeout"),
            Self::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, SERVER, "error"),
            Self::Service(error) => match &**error {
                Error::BadCredential => (StatusCode::UNAUTHORIZED, AUTHENTICATION, "authentication_failed"),
                Error::NotFound(_) => (StatusCode::NOT_FOUND, REQUEST, "not_found"),
                Error::Forbidden(_) => (StatusCode::FORBIDDEN, AUTHENTICATION, "permission_denied"),
                Error::ReauthenticationNeeded => (StatusCode::FORBIDDEN, AUTHENTICATION, "reauthentication_required"),
                Error::SecondFactorNeeded => (StatusCode::FORBIDDEN, AUTHENTICATION, "two_factor_setup_required"),
                Error::Throttled(_) | Error::LimitReached { .. } => {
                    (StatusCode::TOO_MANY_REQUESTS, "throttled_error", "throttled")
                }
                Error::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "server_busy"),
                Error::Outage(_) => (StatusCode::SERVICE_UNAVAILABLE, SERVER, "unavailable"),
                Error::Invalid(_) => (StatusCode::BAD_REQUEST, VALIDATION, "invalid_input"),
                Error::Conflict {
                    code: "idempotency_key_reused",
                    ..
                } => (StatusCode::UNPROCESSABLE_ENTITY, REQUEST, "idempotency_key_reused"),
                Error::Conflict { code, .. } => (StatusCode::CONFLICT, REQUEST, code),
                Error::Stale(_) => (StatusCode::PRECONDITION_FAILED, REQUEST, "precondition_failed"),
                Error::Damaged(_)
                | Error::Database(_)
                | Error::Migration(_)
                | Error::Password(_)
                | Error::Encrypted(_) => (StatusCode::INTERNAL_SERVER_ERROR, SERVER, "error"),
            },
        }
    }

    fn problems(&self) -> &[Invalid] {
        match self {
            Self::Validation(problems) => problems,
            Self::Service(error) => match &**error {
                Error::Invalid(problems) => problems,
                _ => &[],
            },
            _ => &[],
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::NotAuthenticated => "Authentication credentials were not provided. Send your API key in the header \
                                       Authorization: Bearer <key>."
                .to_owned(),
            Self::AuthenticationFailed => "Invalid, expired or revoked API key.".to_owned(),
            Self::SignInNeeded => "API keys cannot do this. Sign in, or use the command line.".to_owned(),
            Self::CodeNeeded => "Two-factor authentication required. Send a code from your authenticator app, or a \
                                 backup code, to /api/login/token/."
                .to_owned(),
            Self::CrossOrigin => "Cross-origin requests are not allowed.".to_owned(),
            Self::BadHost => "Invalid Host header. Send it once, with the name of this server.".to_owned(),
            Self::Validation(_) => "Invalid input.".to_owned(),
            Self::Unreadable(why) => format!("Malformed JSON: {why}."),
            Self::NoSuchRoute => "Endpoint not found.".to_owned(),
            Self::MethodNotAllowed => "Method not allowed. See the Allow header.".to_owned(),
            Self::TooLarge => {
                format!(
                    "The request body is too large. Send at most {MAX_BYTES} bytes, or {MAX_UNAUTHENTICATED_BYTES} \
                     without credentials."
                )
            }
            Self::TooSlow => {
                "The request body is arriving too slowly. Send at least 10,000 bytes every 10 seconds.".to_owned()
            }
            Self::UnsupportedMediaType => "Unsupported media type. Send JSON with the header Content-Type: \
                                           application/json."
                .to_owned(),
            Self::Throttled(wait) => format!("Too many requests. Try again in {} seconds.", seconds(*wait)),
            Self::TimedOut => "The request timed out. Try again.".to_owned(),
            Self::Service(error) if matches!(**error, Error::BadCredential) => Self::AuthenticationFailed.detail(),
            Self::Service(error) if !self.status().is_server_error() || is_busy(error) => error.to_string(),
            Self::Service(error) if matches!(**error, Error::Outage(_)) => {
                "The database is unavailable. Try again in a few seconds.".to_owned()
            }
            Self::Service(_) | Self::Panicked => "Internal server error. Try again later.".to_owned(),
        }
    }

    /// The body, with the request id that leads to the log.
    pub(crate) fn body(&self, request_id: &str) -> ProblemView {
        let (_, r#type, code) = self.kind();
        let errors: Vec<ErrorItem> = match self.problems() {
            [] => vec![ErrorItem {
                code: code.into(),
                detail: sentence(self.detail()),
                attr: None,
            }],
            problems => problems.iter().take(Invalid::MAX).map(ErrorItem::from).collect(),
        };
        let first = errors[0].clone();
        ProblemView {
            r#type,
            code: first.code,
            detail: first.detail,
            attr: first.attr,
            request_id: request_id.to_owned(),
            errors,
        }
    }

    /// A failure of ours is logged here, once, with its causes; the client's are not.
    pub(crate) fn log(&self, request_id: &str) {
        if let Self::Service(error) = self
            && self.status().is_server_error()
            && !is_busy(error)
        {
            tracing::error!(request_id, error = &**error as &dyn std::error::Error, "request failed");
        }
    }
}

/// Leaves the body to [`crate::http::middleware`], which knows the request id and what the client accepts.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        let headers = response.headers_mut();
        match &self {
            Self::Throttled(wait) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(*wait)));
            }
            Self::Service(error) if matches!(**error, Error::Outage(_)) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(Error::OUTAGE_WAIT)));
            }
            Self::Service(error)
                if let Error::LimitReached { wait, .. } | Error::Unavailable { wait, .. } = &**error =>
            {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(*wait)));
            }
            _ if self.status() == StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        if matches!(&self, Self::Service(error) if error.is_undone()) {
            response.extensions_mut().insert(Undone);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Nothing is wrong with us but that we have much to do.
fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Unavailable { .. })
}

/// Whole seconds to wait, never too few.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// An error response.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
#[schemars(extend("examples" = [{
    "type": "validation_error",
    "code": "blank",
    "detail": "This field must not be blank.",
    "attr": "name",
    "request_id": "0198c2f6a9b47c01",
    "errors": [{"code": "blank", "detail": "This field must not be blank.", "attr": "name"}]
}]))]
#[schemars(extend("required" = ["type", "code", "detail", "attr", "request_id", "errors"]))]
pub(crate) struct ProblemView {
    /// The type of error.
    #[schemars(extend("enum" = [
        "validation_error", "invalid_request", "authentication_error", "throttled_error", "server_error"
    ]))]
    r#type: &'static str,
    /// A stable, machine-readable error code.
    code: Cow<'static, str>,
    /// A human-readable message: what went wrong and what would work.
    detail: String,
    /// The field that caused the error, if any; nested fields are joined with `__`.
    attr: Option<Cow<'static, str>>,
    /// Identifies the request in the server's log.
    request_id: String,
    /// All errors, or the first 100; the first one is also given above.
    errors: Vec<ErrorItem>,
}

/// One error.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(extend("required" = ["code", "detail", "attr"]))]
struct ErrorItem {
    code: Cow<'static, str>,
    detail: String,
    attr: Option<Cow<'static, str>>,
}

impl From<&Invalid> for ErrorItem {
    fn from(invalid: &Invalid) -> Self {
        Self {
            code: invalid.code.into(),
            detail: sentence(invalid.detail.clone()),
            attr: invalid.field.clone(),
        }
    }
}

/// Errors of our other crates are lower case without a full stop. A first word that may be a name stays as it is.
fn sentence(mut text: String) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    let first = first.trim_end_matches([',', ':', ';']);
    let is_word = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if is_word {
        text[..1].make_ascii_uppercase();
    }
    if !text.ends_with(['.', '!', '?', '…']) {
        text.push('.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_a_sentence() {
        for (text, expected) in [
            ("the file is too large", "The file is too large."),
            ("Team not found.", "Team not found."),
            ("start_at must be earlier", "start_at must be earlier."),
            ("index.ts:2:22: not found: x, …", "index.ts:2:22: not found: x, …"),
            ("lee@example.com is a member", "lee@example.com is a member."),
        ] {
            assert_eq!(sentence(text.to_owned()), expected);
        }
    }
}
