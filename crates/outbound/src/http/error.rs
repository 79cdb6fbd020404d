//! Why there is no response.

use std::error::Error as StdError;
use std::time::Duration;

use crate::dial::{CONNECT_TIME, DialError};
use crate::policy::Refusal;

/// Why there is no response. What it displays may be shown to whoever chose the URL: it names no address and
/// quotes nothing of the response. Its sources, and [`Refusal::detail`], are for the log.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("{0}")]
    Refused(Refusal),
    #[error("Requests to {host} are not allowed.")]
    HostNotAllowed { host: String },
    #[error("The request is malformed.")]
    Malformed(#[source] Box<dyn StdError + Send + Sync>),
    #[error(
        "The connection to {host} failed. Check the host, the port and its certificate, and that it accepts \
         connections from here."
    )]
    Unreachable { host: String, source: reqwest::Error },
    #[error("The request to {host} timed out after {} seconds.", limit.as_secs_f32())]
    TooSlow { host: String, limit: Duration },
    #[error("The response from {host} is larger than {limit} bytes.")]
    TooLarge { host: String, limit: usize },
    #[error("{host} closed the connection, or its response is not valid HTTP.")]
    Broken { host: String, source: reqwest::Error },
}

pub(super) fn malformed(cause: impl StdError + Send + Sync + 'static) -> HttpError {
    HttpError::Malformed(Box::new(cause))
}

/// Finds our own refusal inside reqwest's error.
pub(super) fn unanswered(host: String, error: reqwest::Error) -> HttpError {
    if let Some(refusal) = refusal_in(&error) {
        return HttpError::Refused(refusal);
    }
    // The URL may carry a token, and the log need not know it.
    let source = error.without_url();
    match source {
        source if source.is_timeout() => HttpError::TooSlow {
            host,
            limit: CONNECT_TIME,
        },
        source if source.is_connect() => HttpError::Unreachable { host, source },
        source if source.is_builder() => malformed(source),
        source => HttpError::Broken { host, source },
    }
}

fn refusal_in(error: &(dyn StdError + 'static)) -> Option<Refusal> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(DialError::Refused(refusal)) = error.downcast_ref::<DialError>() {
            return Some(refusal.clone());
        }
        next = error.source();
    }
    None
}
