//! Deleting what is too old to be kept, some rows at a time: whoever wants to write does so in between.

use chrono::TimeDelta;

use crate::Service;
use crate::db::changed;
use crate::error::Result;

/// The oldest rows of a table, some hundred of them, that were created before `$1`.
macro_rules! delete_oldest {
    ($table:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE created_at < $1 AND created_at <= COALESCE((SELECT created_at FROM ",
            $table,
            " ORDER BY created_at LIMIT 1 OFFSET 499), $1)"
        )
    };
}
pub(crate) use delete_oldest;

impl Service {
    /// Repeats the statement of [`delete_oldest`] until nothing is left to delete, and tells how much that was.
    pub(crate) async fn delete_older_than(&self, kept: TimeDelta, statement: &'static str) -> Result<u64> {
        let mut deleted = 0;
        loop {
            let mut db = self.write().await?;
            let before = db.now - kept;
            let some = changed!(db, sqlx::query(statement).bind(before))?;
            db.commit_unrecorded().await?;
            if some == 0 {
                return Ok(deleted);
            }
            deleted += some;
        }
    }
}
