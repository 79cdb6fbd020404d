//! Databricks' errors, as sentences.

use http::StatusCode;
use serde::Deserialize;

use crate::Error;

/// What the server said no with. For the log.
#[derive(Debug, Default, Deserialize, thiserror::Error)]
#[error("Databricks answered {error_code}: {message}")]
pub(super) struct Refused {
    #[serde(default)]
    pub(super) error_code: String,
    #[serde(default)]
    pub(super) message: String,
}

const NOT_FOUND: [&str; 3] = [
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "NO_SUCH_CATALOG_EXCEPTION",
];

/// A response that is not a success.
pub(super) fn response(status: StatusCode, body: &[u8]) -> Error {
    let mut cause: Refused = serde_json::from_slice(body).unwrap_or_default();
    if cause.error_code.is_empty() {
        cause.error_code = format!("status {status}");
    }
    match status {
        StatusCode::UNAUTHORIZED => Error::permanent(
            "Databricks does not accept the token or the service principal's secret; check them",
            cause,
        ),
        StatusCode::FORBIDDEN => Error::permanent(DENIED, cause),
        StatusCode::NOT_FOUND => Error::permanent(
            "SQL warehouse or volume not found; check http_path, catalog and schema",
            cause,
        ),
        StatusCode::TOO_MANY_REQUESTS => {
            Error::retryable("Databricks is rate limiting requests; it will be retried", cause)
        }
        status if status.is_server_error() => {
            Error::retryable("Databricks is temporarily unavailable; it will be retried", cause)
        }
        _ => refused(cause),
    }
}

const DENIED: &str = "a permission is missing in Databricks; the user or service principal needs CAN USE on \
                      the SQL warehouse, USE CATALOG, USE SCHEMA, CREATE TABLE and CREATE VOLUME on the schema, and MODIFY and SELECT on the table";

/// A statement that failed. The class of the error stands in brackets at the head of its message.
pub(super) fn refused(cause: Refused) -> Error {
    let is = |class: &str| cause.message.contains(class) || cause.error_code == class;
    if is("TEMPORARILY_UNAVAILABLE")
        || is("RESOURCE_EXHAUSTED")
        || is("DEADLINE_EXCEEDED")
        || is("INTERNAL_ERROR")
        || is("IO_ERROR")
    {
        return Error::retryable("Databricks is temporarily unavailable; it will be retried", cause);
    }
    if is("DELTA_CONCURRENT") || is("CONCURRENT_") {
        return Error::retryable("Databricks was busy with the same table; it will be retried", cause);
    }
    if is("PERMISSION_DENIED") || is("INSUFFICIENT_PERMISSIONS") {
        return Error::permanent(DENIED, cause);
    }
    if NOT_FOUND.into_iter().any(is) {
        return Error::permanent(
            "the catalog, the schema or the table does not exist; check their names",
            cause,
        );
    }
    if is("DATATYPE_MISMATCH")
        || is("UNRESOLVED_COLUMN")
        || is("CAST_INVALID_INPUT")
        || is("DELTA_FAILED_TO_MERGE_FIELDS")
    {
        return Error::permanent(
            "the table does not match the rows; compare its columns and types with the export's",
            cause,
        );
    }
    Error::retryable("Databricks refused a statement; it will be retried", cause)
}

pub(super) fn is_missing(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Refused>());
    cause.is_some_and(|cause| cause.message.contains("TABLE_OR_VIEW_NOT_FOUND"))
}

pub(super) fn unreadable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable(
        "the response from Databricks could not be understood; check server_hostname",
        cause,
    )
}
