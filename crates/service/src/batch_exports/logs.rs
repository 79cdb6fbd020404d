//! What happened in runs, for the owner of an export to read.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Run, cases, sql};
use crate::Service;
use crate::access::{Caller, ReadExports};
use crate::clock::Time;
use crate::db::WriteTx;
use crate::error::Result;
use crate::id::{ExportId, RunId};
use crate::page::{Page, Window};

/// For as long as log entries are kept.
const KEPT: chrono::TimeDelta = chrono::TimeDelta::days(30);
/// No sentence needs more.
const LONGEST: usize = 2000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

impl FromStr for Level {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Info, Self::Warning, Self::Error]
            .into_iter()
            .find(|level| level.as_str().eq_ignore_ascii_case(text))
            .ok_or(())
    }
}

#[derive(Debug, Clone)]
pub struct LogEntry {
    pub run: Option<RunId>,
    pub level: Level,
    pub message: String,
    pub created_at: Time,
}

/// Which entries to list; all of them when empty.
#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    pub run: Option<RunId>,
    pub level: Option<Level>,
    /// Text in the message, however it is capitalized.
    pub search: Option<String>,
    pub after: Option<Time>,
    pub before: Option<Time>,
}

impl Service {
    /// Newest first.
    pub async fn export_logs(
        &self,
        caller: &Caller<ReadExports>,
        export: ExportId,
        filter: &LogFilter,
        window: Window,
    ) -> Result<Page<LogEntry>> {
        let mut db = self.core.store.read().await?;
        cases::find(&mut db, caller, export).await?;
        sql::logs::page(&mut db, export, filter, window).await
    }

    pub async fn forget_old_logs(&self) -> Result<u64> {
        self.delete_older_than(KEPT, sql::logs::DELETE_OLDEST).await
    }
}

pub(super) async fn write(db: &mut WriteTx, run: &Run, level: Level, message: &str) -> Result<()> {
    let message: String = message.chars().filter(|&c| c != '\0').take(LONGEST).collect();
    sql::logs::insert(db, run, level, &message).await
}
