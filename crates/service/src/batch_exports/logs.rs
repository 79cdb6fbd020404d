//! What happened in runs, for the owner of an export to read.

use boxed::boxed;

use super::types::{LogEntry, LogFilter, LogLevel, Run};
use super::{cases, sql};
use crate::Service;
use crate::access::{Caller, ReadExports};
use crate::error::Result;
use crate::id::ExportId;
use crate::page::{Page, Window};
use crate::transaction::WriteTx;

/// For as long as log entries are kept, and how many of an export: one or two for each of the runs that are kept.
const KEPT: chrono::TimeDelta = chrono::TimeDelta::days(30);
const MAX_KEPT: i64 = 20_000;
/// How many one step forgets.
const AT_ONCE: i64 = 500;
/// No sentence needs more.
const MAX_LENGTH: usize = 2000;

impl Service {
    /// Newest first.
    #[boxed]
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

    #[boxed]
    pub async fn forget_old_logs(&self) -> Result<u64> {
        self.delete_older_than(KEPT, sql::logs::DELETE_OLDEST).await
    }

    /// Forgets some lines of an export that has too many. True: there are more of them.
    pub(super) async fn forget_lines_of(&self, export: ExportId) -> Result<bool> {
        let mut db = self.core.store.read().await?;
        let Some(newest) = sql::logs::line_at(&mut db, export, MAX_KEPT + 1).await? else {
            return Ok(false);
        };
        drop(db);
        let mut db = self.write().await?;
        let forgotten = sql::logs::delete_until(&mut db, export, newest, AT_ONCE).await?;
        db.commit_unrecorded().await?;
        Ok(i64::try_from(forgotten).is_ok_and(|count| count >= AT_ONCE))
    }
}

pub(super) async fn write(db: &mut WriteTx, run: &Run, level: LogLevel, message: &str) -> Result<()> {
    sql::logs::insert(db, run, level, &cut(message)).await
}

/// As much of a sentence as is kept: it may name what stands in a configuration, and lists show it of every run.
pub(super) fn cut(text: &str) -> String {
    text.chars().filter(|&c| c != '\0').take(MAX_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_up_to_its_longest() {
        assert_eq!(cut("no\0 luck"), "no luck");
        assert_eq!(cut(&"ü".repeat(1_000_000)).chars().count(), MAX_LENGTH);
    }
}
