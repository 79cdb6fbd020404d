//! What belonged to exports, apps and their configurations that were deleted. There may be millions of rows, so they are deleted
//! afterwards, some at a time: whoever wants to write does so in between.

use boxed::boxed;

use crate::Service;
use crate::db::{changed, on};
use crate::error::Result;
use crate::id::{AppConfigId, AppId, ExportId};

/// Some rows of a table that have an id of their own. That they belong to `$1` is asked once: SQLite would read all that do.
macro_rules! by_id {
    ($table:literal of $owner:literal, $most:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE id IN (SELECT id FROM ",
            $table,
            " WHERE ",
            $owner,
            " = $1 LIMIT ",
            $most,
            ")"
        )
    };
}

/// Some rows of a table whose key begins with the owner.
macro_rules! by_key {
    ($table:literal of $owner:literal, $key:literal, $most:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE ",
            $owner,
            " = $1 AND ",
            $key,
            " IN (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE ",
            $owner,
            " = $1 LIMIT ",
            $most,
            ")"
        )
    };
}

/// Runs first, as workers look for those that are due, and few, as their logs go with them.
const OF_EXPORT: [&str; 4] = [
    by_id!("export_run" of "batch_export_id", 100),
    by_id!("export_backfill" of "batch_export_id", 500),
    by_id!("export_log" of "batch_export_id", 500),
    by_key!("export_delivered" of "batch_export_id", "starts_at", 500),
];
const OF_CONFIG: [&str; 3] = [
    by_key!("pipeline_storage" of "config_id", "key", 500),
    by_key!("pipeline_reached_host" of "config_id", "host", 500),
    by_id!("pipeline_log" of "config_id", 500),
];
/// One at a time, with its scripts: files and code may have 8 MB each.
const OF_APP: [&str; 1] = [by_key!("pipeline_version" of "app_id", "number", 1)];

/// Deletes some rows of the first table that has any of a deleted owner, or forgets the owner. False: there is none.
///
/// An owner is held until the end, so that another replica takes another one. Only old lines of logs are deleted by others, too:
/// finding none may mean that they were faster, so `$last` is looked at once more.
macro_rules! delete_some {
    ($service:expr, $id:ty, $owners:literal by $key:literal, $last:literal, $statements:expr) => {
        async {
            const DONE: &str = concat!(
                "DELETE FROM ",
                $owners,
                " WHERE ",
                $key,
                " = $1 AND NOT EXISTS (SELECT 1 FROM ",
                $last,
                " WHERE ",
                $key,
                " = $1)"
            );
            let mut db = $service.write().await?;
            let next = db.pick(
                concat!("SELECT ", $key, " FROM ", $owners, " LIMIT 1"),
                concat!("SELECT ", $key, " FROM ", $owners, " LIMIT 1 FOR UPDATE SKIP LOCKED"),
            );
            let owner: Option<$id> = on!(db, conn => sqlx::query_scalar(next).fetch_optional(conn))?;
            let Some(owner) = owner else {
                return Ok(false);
            };
            let mut deleted = 0;
            for statement in $statements {
                deleted = changed!(db, sqlx::query(statement).bind(owner))?;
                if deleted > 0 {
                    break;
                }
            }
            if deleted == 0 {
                changed!(db, sqlx::query(DONE).bind(owner))?;
            }
            db.commit_unrecorded().await?;
            Ok(true)
        }
    };
}

impl Service {
    /// Deletes some of what is left, in short transactions. False: nothing is left.
    #[boxed]
    pub async fn delete_leftovers(&self) -> Result<bool> {
        let exports: Result<bool> =
            delete_some!(self, ExportId, "deleted_export" by "batch_export_id", "export_log", OF_EXPORT).await;
        let configs: Result<bool> =
            delete_some!(self, AppConfigId, "deleted_config" by "config_id", "pipeline_log", OF_CONFIG).await;
        let apps: Result<bool> = delete_some!(self, AppId, "deleted_app" by "app_id", "pipeline_version", OF_APP).await;
        Ok(exports? | configs? | apps?)
    }
}
