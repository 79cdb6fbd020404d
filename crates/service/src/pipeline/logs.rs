//! What apps say, and what is said of them.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{AppConfig, Collection, sql};
use crate::Service;
use crate::access::{Caller, ReadApps};
use crate::clock::Time;
use crate::db::WriteTx;
use crate::error::Result;
use crate::id::{AppConfigId, AppId};
use crate::page::{Page, Window};

/// For as long as log entries are kept.
const KEPT: chrono::TimeDelta = chrono::TimeDelta::days(30);
/// No sentence needs more.
pub(super) const LONGEST: usize = 2000;
/// So many lines are kept of a configuration, and so many if all of its organization have more than that together.
const MOST_LINES: i64 = 10_000;
const FEWER_LINES: i64 = 1000;
const MOST_OF_ORGANIZATION: i64 = 100_000;
/// After so many lines somebody looks whether there are too many, and then takes at most so many away.
const LOOK_AFTER: i64 = 500;
const MOST_AT_ONCE: i64 = 5000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub enum Level {
    Debug,
    Log,
    Info,
    Warn,
    Error,
}

impl Level {
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

impl FromStr for Level {
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
pub enum Source {
    System,
    Console,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "SYSTEM",
            Self::Console => "CONSOLE",
        }
    }
}

impl FromStr for Source {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::System, Self::Console]
            .into_iter()
            .find(|source| source.as_str().eq_ignore_ascii_case(text))
            .ok_or(())
    }
}

#[derive(Debug, Clone)]
pub struct AppLog {
    pub source: Source,
    pub level: Level,
    pub message: String,
    pub created_at: Time,
}

/// Which entries to list; all of them when empty.
#[derive(Debug, Clone, Default)]
pub struct AppLogFilter {
    pub level: Option<Level>,
    /// Text in the message, however it is capitalized.
    pub search: Option<String>,
    pub after: Option<Time>,
    pub before: Option<Time>,
}

impl Service {
    /// Newest first.
    pub async fn app_logs(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        app: AppId,
        config: AppConfigId,
        filter: &AppLogFilter,
        window: Window,
    ) -> Result<Page<AppLog>> {
        let config = self.app_config(caller, collection, app, config).await?;
        let mut db = self.core.store.read().await?;
        sql::logs::page(&mut db, config.id, filter, window).await
    }

    /// Writes down what happened while an app ran; the times are theirs.
    pub async fn log_app(&self, config: &AppConfig, entries: &[AppLog]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut db = self.write().await?;
        for entry in entries {
            write(&mut db, config, entry).await?;
        }
        let lines = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        count_lines(&mut db, config, lines).await?;
        db.commit_unrecorded().await
    }

    pub async fn forget_old_app_logs(&self) -> Result<u64> {
        self.delete_older_than(KEPT, sql::logs::DELETE_OLDEST).await
    }
}

pub(super) async fn say(db: &mut WriteTx, config: &AppConfig, level: Level, message: &str) -> Result<()> {
    let entry = AppLog {
        source: Source::System,
        level,
        message: message.to_owned(),
        created_at: db.now,
    };
    write(db, config, &entry).await?;
    count_lines(db, config, 1).await
}

/// Counts what was just written. Now and then the oldest lines go, if there are too many.
async fn count_lines(db: &mut WriteTx, config: &AppConfig, written: i64) -> Result<()> {
    let counted = sql::usage::add_lines(db, config.id, written).await?;
    if counted / LOOK_AFTER == (counted - written) / LOOK_AFTER {
        return Ok(());
    }
    let of_all = sql::usage::lines_of_all(db, config.organization_id).await?;
    let most = if of_all > MOST_OF_ORGANIZATION {
        FEWER_LINES
    } else {
        MOST_LINES
    };
    if counted <= most {
        return Ok(());
    }
    let lines = sql::logs::count(db, config.id).await?;
    let beyond = (lines - most).clamp(0, MOST_AT_ONCE);
    sql::logs::delete_oldest(db, config.id, beyond).await?;
    sql::usage::set_lines(db, config.id, lines - beyond).await
}

async fn write(db: &mut WriteTx, config: &AppConfig, entry: &AppLog) -> Result<()> {
    let message: String = entry.message.chars().filter(|&c| c != '\0').take(LONGEST).collect();
    sql::logs::insert(db, config, entry, &message).await
}
