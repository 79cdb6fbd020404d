//! `BigQuery`'s errors, as sentences.

use http::StatusCode;
use serde::Deserialize;

use crate::Error;
use crate::destinations::answers::Bounded;

/// Of an error. The first one says what it is.
const MAX_REASONS: usize = 100;

/// What the script raises when another attempt has claimed the interval.
pub(super) const OVERTAKEN: &str = "hedgerow: another attempt has claimed this interval";

/// What the server said no with. For the log.
#[derive(Debug, thiserror::Error)]
#[error("BigQuery answered {reason}: {message}")]
pub(super) struct Refused {
    reason: String,
    message: String,
}

/// One entry of an error, in a response or in a job.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Reason {
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
struct Body {
    error: Inner,
}

#[derive(Debug, Deserialize)]
struct Inner {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Bounded<Reason, MAX_REASONS>,
}

/// A response that is not a success.
pub(super) fn response(status: StatusCode, body: &[u8]) -> Error {
    let body = serde_json::from_slice::<Body>(body).map(|body| body.error);
    let (reason, message) = match body {
        Ok(inner) => (
            inner.errors.0.into_iter().next().unwrap_or_default().reason,
            inner.message,
        ),
        Err(_) => (String::new(), format!("status {status}")),
    };
    let reason = match (reason.as_str(), status) {
        ("", StatusCode::UNAUTHORIZED) => "authError".to_owned(),
        ("", StatusCode::FORBIDDEN) => "accessDenied".to_owned(),
        ("", StatusCode::NOT_FOUND) => "notFound".to_owned(),
        ("", StatusCode::TOO_MANY_REQUESTS) => "rateLimitExceeded".to_owned(),
        ("", status) if status.is_server_error() => "backendError".to_owned(),
        _ => reason,
    };
    refused(Reason { reason, message })
}

/// A reason, of a response or of a job that failed.
pub(super) fn refused(Reason { reason, message }: Reason) -> Error {
    let cause = Refused { reason, message };
    let permanent = |sentence: &str| (sentence.to_owned(), true);
    let retryable = |sentence: &str| (sentence.to_owned(), false);
    let (sentence, is_permanent) = match cause.reason.as_str() {
        _ if cause.message.contains(OVERTAKEN) => retryable("another worker is delivering the same interval"),
        // Two transactions changed the same table, and this one lost.
        _ if cause.message.contains("concurrent update") => {
            retryable("BigQuery was busy with the same table; it will be retried")
        }
        "authError" | "required" => permanent("BigQuery does not accept the service account; check its key"),
        "accessDenied" => permanent(
            "the service account lacks a permission; it needs BigQuery Data Editor on the dataset and BigQuery Job User on \
             the project",
        ),
        "notFound" => {
            permanent("the project, the dataset or the table does not exist; check project_id and dataset_id")
        }
        "billingNotEnabled" | "billingTierLimitExceeded" => {
            permanent("BigQuery requires billing for this; enable it for the project")
        }
        "rateLimitExceeded" | "jobRateLimitExceeded" | "quotaExceeded" | "userRateLimitExceeded" => {
            retryable("a project quota is exceeded; it will be retried")
        }
        "backendError" | "internalError" | "jobBackendError" | "jobInternalError" | "tableUnavailable" | "timeout"
        | "stopped" => retryable("BigQuery is temporarily unavailable; it will be retried"),
        "invalid" | "invalidQuery" | "badRequest" | "parseError" => {
            permanent("the table does not match the rows; compare its columns and types with the export's")
        }
        _ => retryable("BigQuery refused a request; it will be retried"),
    };
    if is_permanent {
        Error::permanent(sentence, cause)
    } else {
        Error::retryable(sentence, cause)
    }
}

pub(super) fn unreadable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable(
        "the response from BigQuery could not be understood; check the endpoint_url",
        cause,
    )
}
