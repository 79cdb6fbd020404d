//! What apps say, and what is said of them.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::db::columns::read_as_text;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub enum AppLogLevel {
    Debug,
    Log,
    Info,
    Warn,
    Error,
}

impl AppLogLevel {
    const ALL: [Self; 5] = [Self::Debug, Self::Log, Self::Info, Self::Warn, Self::Error];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Log => "LOG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

impl FromStr for AppLogLevel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|level| level.as_str().eq_ignore_ascii_case(text))
            .ok_or(())
    }
}

/// Who says it: the app, or this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub enum AppLogSource {
    System,
    Console,
}

impl AppLogSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "SYSTEM",
            Self::Console => "CONSOLE",
        }
    }
}

impl FromStr for AppLogSource {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::System, Self::Console]
            .into_iter()
            .find(|source| source.as_str().eq_ignore_ascii_case(text))
            .ok_or(())
    }
}

read_as_text!(AppLogLevel, AppLogSource);

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct AppLog {
    #[sqlx(try_from = "String")]
    pub source: AppLogSource,
    #[sqlx(try_from = "String")]
    pub level: AppLogLevel,
    pub message: String,
    pub created_at: Time,
}

/// Which entries to list; all of them when empty.
#[derive(Debug, Clone, Default)]
pub struct AppLogFilter {
    pub level: Option<AppLogLevel>,
    /// Text in the message, however it is capitalized.
    pub search: Option<String>,
    pub after: Option<Time>,
    pub before: Option<Time>,
}
