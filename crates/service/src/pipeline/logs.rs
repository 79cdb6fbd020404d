//! What apps say, and what is said of them.

use boxed::boxed;

use super::lookup::{CONFIGURE, allow, find_app, find_config};
use super::sql;
use super::types::{AppConfig, AppLog, AppLogFilter, AppLogLevel, AppLogSource, Collection};
use crate::Service;
use crate::access::{Caller, ReadApps};
use crate::error::Result;
use crate::id::{AppConfigId, AppId};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;

/// For as long as log entries are kept.
const KEPT: chrono::TimeDelta = chrono::TimeDelta::days(30);
/// No sentence needs more.
pub(super) const MAX_LENGTH: usize = 2000;
/// How many lines a configuration keeps: `MAX_LINES`, or `FEWER_LINES` while its organization has more than
/// `MAX_OF_ORGANIZATION`.
const MAX_LINES: i64 = 10_000;
const FEWER_LINES: i64 = 1000;
const MAX_OF_ORGANIZATION: i64 = 100_000;
/// Retention is checked after every `LOOK_AFTER` lines, and deletes at most `MAX_AT_ONCE`.
const LOOK_AFTER: i64 = 500;
const MAX_AT_ONCE: i64 = 5000;

impl Service {
    /// Newest first.
    #[boxed]
    pub async fn app_logs(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        app: AppId,
        config: AppConfigId,
        filter: &AppLogFilter,
        window: Window,
    ) -> Result<Page<AppLog>> {
        let mut db = self.core.store.read().await?;
        allow(&mut db, caller, CONFIGURE).await?;
        find_app(&mut db, caller, collection, app).await?;
        let config = find_config(&mut db, caller, app, config).await?;
        sql::logs::page(&mut db, config.id, filter, window).await
    }

    /// Writes down what happened while an app ran; the times are theirs.
    #[boxed]
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

    #[boxed]
    pub async fn forget_old_app_logs(&self) -> Result<u64> {
        self.delete_older_than(KEPT, sql::logs::DELETE_OLDEST).await
    }
}

pub(super) async fn say(db: &mut WriteTx, config: &AppConfig, level: AppLogLevel, message: &str) -> Result<()> {
    let entry = AppLog {
        source: AppLogSource::System,
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
    let most = if of_all > MAX_OF_ORGANIZATION {
        FEWER_LINES
    } else {
        MAX_LINES
    };
    if counted <= most {
        return Ok(());
    }
    let lines = sql::logs::count(db, config.id).await?;
    let beyond = (lines - most).clamp(0, MAX_AT_ONCE);
    sql::logs::delete_oldest(db, config.id, beyond).await?;
    sql::usage::set_lines(db, config.id, lines - beyond).await
}

async fn write(db: &mut WriteTx, config: &AppConfig, entry: &AppLog) -> Result<()> {
    let message: String = entry.message.chars().filter(|&c| c != '\0').take(MAX_LENGTH).collect();
    sql::logs::insert(db, config, entry, &message).await
}
