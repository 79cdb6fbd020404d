//! Why a delivery did not happen, and whether it is worth trying again.

use std::error::Error as StdError;

use outbound::{DialError, HttpError};

type Cause = Box<dyn StdError + Send + Sync>;

/// The sentence is for the export's owner: what is wrong and what would help. It never holds a secret, an internal
/// address, or the far side's words. Sources are for the log.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct Error {
    pub sentence: String,
    /// Trying again would not help: somebody has to change something.
    pub is_lasting: bool,
    #[source]
    cause: Option<Cause>,
}

impl Error {
    pub fn lasting(sentence: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self {
            sentence: sentence.into(),
            is_lasting: true,
            cause: Some(cause.into()),
        }
    }

    /// It may well work later.
    pub fn passing(sentence: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self {
            sentence: sentence.into(),
            is_lasting: false,
            cause: Some(cause.into()),
        }
    }

    /// A lasting one whose sentence says it all.
    pub fn plain(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            is_lasting: true,
            cause: None,
        }
    }
}

impl From<HttpError> for Error {
    fn from(cause: HttpError) -> Self {
        let is_lasting = matches!(cause, HttpError::Refused(_) | HttpError::Malformed(_));
        Self {
            sentence: cause.to_string(),
            is_lasting,
            cause: Some(cause.into()),
        }
    }
}

impl From<DialError> for Error {
    fn from(cause: DialError) -> Self {
        let is_lasting = matches!(cause, DialError::Refused(_));
        Self {
            sentence: cause.to_string(),
            is_lasting,
            cause: Some(cause.into()),
        }
    }
}

impl From<events::Error> for Error {
    fn from(cause: events::Error) -> Self {
        Self::passing(
            "the events could not be read; the operator of this server finds the reason in its log",
            cause,
        )
    }
}
