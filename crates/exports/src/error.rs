//! Why a delivery did not happen, and whether it is worth trying again.

use std::error::Error as StdError;

use outbound::{DialError, HttpError};

type Cause = Box<dyn StdError + Send + Sync>;

/// The sentence is for the export's owner: what is wrong and what would help. It never holds a secret, an internal
/// address, or the other side's words. Sources are for the log.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct Error {
    pub sentence: String,
    /// Trying again would not help: somebody has to change something.
    pub is_permanent: bool,
    /// The key of the configuration that is wrong, if it is just one; below a group with its path, such as `a__b`.
    pub key: Option<&'static str>,
    #[source]
    cause: Option<Cause>,
}

impl Error {
    pub fn permanent(sentence: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self {
            sentence: sentence.into(),
            is_permanent: true,
            key: None,
            cause: Some(cause.into()),
        }
    }

    /// It may well work later.
    pub fn retryable(sentence: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self {
            sentence: sentence.into(),
            is_permanent: false,
            key: None,
            cause: Some(cause.into()),
        }
    }

    /// The same, about one key of the configuration.
    #[must_use]
    pub fn in_key(mut self, key: &'static str) -> Self {
        self.key = Some(key);
        self
    }

    /// A permanent one whose sentence says it all.
    pub fn plain(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            is_permanent: true,
            key: None,
            cause: None,
        }
    }
}

impl From<HttpError> for Error {
    fn from(cause: HttpError) -> Self {
        let is_permanent = matches!(cause, HttpError::Refused(_) | HttpError::Malformed(_));
        Self {
            sentence: cause.to_string(),
            is_permanent,
            key: None,
            cause: Some(cause.into()),
        }
    }
}

impl From<DialError> for Error {
    fn from(cause: DialError) -> Self {
        let is_permanent = matches!(cause, DialError::Refused(_));
        Self {
            sentence: cause.to_string(),
            is_permanent,
            key: None,
            cause: Some(cause.into()),
        }
    }
}

/// What a query may not ask for.
pub(crate) const TOO_LARGE: &str = "a row has more than 16 MiB, or the query creates a text of more than 4 MiB with concat or \
                                    replaceAll: select less, or shorten texts with substring";
const _: () = assert!(events::MAX_ROW_BYTES == 16 << 20, "TOO_LARGE says so");

impl From<events::Error> for Error {
    fn from(cause: events::Error) -> Self {
        if matches!(cause, events::Error::TooLarge) {
            return Self::permanent(TOO_LARGE, cause);
        }
        Self::retryable(
            "the events could not be read; the server's operator can find details in its log",
            cause,
        )
    }
}
