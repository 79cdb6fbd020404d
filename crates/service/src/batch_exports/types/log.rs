//! What happened in runs, for the owner of an export to read.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::db::columns::read_as_text;
use crate::id::RunId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub enum LogLevel {
    Info,
    Warning,
    Error,
}

impl LogLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

impl FromStr for LogLevel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Info, Self::Warning, Self::Error]
            .into_iter()
            .find(|level| level.as_str().eq_ignore_ascii_case(text))
            .ok_or(())
    }
}

read_as_text!(LogLevel);

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct LogEntry {
    #[sqlx(rename = "run_id")]
    pub run: Option<RunId>,
    #[sqlx(try_from = "String")]
    pub level: LogLevel,
    pub message: String,
    pub created_at: Time,
}

/// Which entries to list; all of them when empty.
#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    pub run: Option<RunId>,
    pub level: Option<LogLevel>,
    /// Text in the message, however it is capitalized.
    pub search: Option<String>,
    pub after: Option<Time>,
    pub before: Option<Time>,
}
