//! Why an app could not be read, and why a call of it did not succeed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an app cannot be read. Positions are those of the source its author wrote, counted from one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub file: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub message: String,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            file: None,
            line: None,
            column: None,
            message,
        }
    }

    pub(crate) fn in_file(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..Self::new(message)
        }
    }

    pub(crate) fn at(file: &str, (line, column): (u32, u32), message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            column: Some(column),
            ..Self::in_file(file, message)
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = [&self.line, &self.column].into_iter().map_while(Option::as_ref);
        if let Some(file) = &self.file {
            write!(f, "{file}")?;
            for number in position {
                write!(f, ":{number}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.message)
    }
}

impl std::error::Error for Fault {}

/// Why an app was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// Others are being read. It can be tried again soon.
    #[error("too many apps are being validated")]
    Busy,
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a call did not succeed, in words for the app's author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    #[error("{name}: {message}")]
    Thrown {
        name: String,
        message: String,
        /// Where it was thrown, in positions of the source.
        stack: String,
        /// Whether the app asks for the call to be repeated later (`RetryError`).
        is_retry: bool,
    },
    #[error("the app exceeded its time limit and was stopped")]
    TooSlow,
    #[error("the app exceeded its memory limit and was stopped")]
    TooMuchMemory,
    #[error("the app returned more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the names of the app's methods, tasks and jobs are longer than {limit} bytes in total")]
    LongNames { limit: usize },
    #[error("the app waits for a promise that never resolves")]
    Stuck,
    #[error("the app has no {0}")]
    NoSuchMethod(String),
    #[error("the app was stopped before this call")]
    NotRun,
    #[error("the app is no longer running")]
    Closed,
    #[error("too many apps are running")]
    Busy,
    /// That is no fault of its own: the call is repeated later.
    #[error("the call was interrupted because other apps needed the memory")]
    Evicted,
    #[error("the app tried to access the host system and was stopped")]
    Forbidden,
    #[error("apps cannot run on this server, because the sandbox is incomplete: {0}")]
    Unconfined(String),
    #[error("the app crashed: {0}")]
    Crashed(String),
}

impl Failure {
    /// The process said something that does not belong there.
    pub(crate) fn unexpected_message() -> Self {
        Self::Crashed("unexpected message from its process".to_owned())
    }

    /// Whether the app is gone, so that further calls need a new instance.
    pub fn is_final(&self) -> bool {
        !matches!(
            self,
            Self::Thrown { .. } | Self::TooLarge { .. } | Self::Stuck | Self::NoSuchMethod(_)
        )
    }

    /// With texts that are as long as an app may make them. Its process cuts them as well, but may be under its control.
    #[must_use]
    pub(crate) fn shortened(mut self) -> Self {
        match &mut self {
            Self::Thrown {
                name, message, stack, ..
            } => [name, message, stack]
                .into_iter()
                .for_each(|text| shorten(text, MAX_LENGTH)),
            Self::NoSuchMethod(text) | Self::Unconfined(text) | Self::Crashed(text) => shorten(text, MAX_LENGTH),
            _ => {}
        }
        self
    }

    /// Whether the app needed more memory or time than it has, as far as can be told: with fewer events it may need less.
    pub fn is_for_lack(&self) -> bool {
        match self {
            Self::TooSlow | Self::TooMuchMemory => true,
            Self::Thrown { message, .. } => message == NULL_THROWN,
            _ => false,
        }
    }

    /// Whether the call is to be repeated later: the app asks for that, or has done nothing wrong.
    pub fn is_retry(&self) -> bool {
        matches!(self, Self::Thrown { is_retry: true, .. } | Self::Evicted)
    }
}

/// The engine throws null if there is no memory for an error, and an app may throw it.
pub(crate) const NULL_THROWN: &str = "null was thrown, by the app or for lack of memory";

/// What is kept of a text for people, in bytes.
const MAX_LENGTH: usize = 4000;

/// Cuts a text to so many bytes, between two characters.
pub(crate) fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_app_says_of_its_failure_is_cut() {
        let long = || "ä".repeat(1_000_000);
        let thrown = Failure::Thrown {
            name: long(),
            message: long(),
            stack: long(),
            is_retry: false,
        };
        assert!(thrown.shortened().to_string().len() < 3 * MAX_LENGTH);
        assert!(Failure::Crashed(long()).shortened().to_string().len() < 2 * MAX_LENGTH);
    }

    #[test]
    fn a_fault_shows_as_much_of_its_position_as_is_known() {
        assert_eq!(Fault::at("index.ts", (3, 7), "no").to_string(), "index.ts:3:7: no");
        assert_eq!(Fault::in_file("index.ts", "no").to_string(), "index.ts: no");
        assert_eq!(Fault::new("no").to_string(), "no");
    }
}
