//! After a clock that was ahead: what waits for a time that no right clock can have given.

use boxed::boxed;
use chrono::TimeDelta;

use crate::Service;
use crate::db::{changed, on};
use crate::error::Result;

/// Leases and pauses before another attempt are shorter by far.
const MAX_WAIT: TimeDelta = TimeDelta::hours(1);

/// What a clock that was ahead has left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftBehind {
    /// Runs, deliveries and tasks that go on now.
    pub recalled: u64,
    /// Exports whose intervals up to a time to come count as exported; they go on then.
    pub ahead: i64,
}

impl Service {
    /// Has everything go on that was held, or put off, until a time far ahead.
    #[boxed]
    pub async fn recover_from_clock(&self) -> Result<LeftBehind> {
        const HELD: [&str; 3] = [
            "UPDATE export_run SET due_at = $1 WHERE due_at > $2",
            "UPDATE pipeline_config SET due_at = $1 WHERE due_at > $2",
            "UPDATE pipeline_task SET due_at = $1 WHERE worker IS NOT NULL AND due_at > $2",
        ];
        const AHEAD: &str = "SELECT count(*) FROM batch_export WHERE scheduled_until > $1";
        let mut db = self.write().await?;
        let (now, far) = (db.now, db.now + MAX_WAIT);
        let mut recalled = 0;
        for sql in HELD {
            recalled += changed!(db, sqlx::query(sql).bind(now).bind(far))?;
        }
        let ahead = on!(db, conn => sqlx::query_scalar(AHEAD).bind(far).fetch_one(conn))?;
        db.commit_unrecorded().await?;
        Ok(LeftBehind { recalled, ahead })
    }
}
