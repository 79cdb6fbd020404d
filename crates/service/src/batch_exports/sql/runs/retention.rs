//! Runs that may be forgotten.

use sqlx::QueryBuilder;

use crate::batch_exports::types::{Limits, Old};
use crate::clock::Time;
use crate::db::{Connection, Session, answered, on};
use crate::error::Result;
use crate::id::{ExportId, RunId};
use crate::transaction::WriteTx;

/// When the run was made that is so many from the newest. None: there are fewer.
pub(in crate::batch_exports) async fn made_at(db: &mut Session, export: ExportId, place: i64) -> Result<Option<Time>> {
    const SQL: &str = "SELECT created_at FROM export_run WHERE batch_export_id = $1 \
        ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET $2";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).bind(place - 1).fetch_optional(conn))?)
}

/// Runs that are over and that nothing depends on, in order of time. A backfill in progress looks at its runs when it ends.
pub(in crate::batch_exports) async fn old(
    db: &mut Session,
    export: ExportId,
    limits: Limits,
    most: i64,
) -> Result<Vec<RunId>> {
    const SQL: &str = "SELECT r.id FROM export_run r LEFT JOIN export_backfill b ON b.id = r.backfill_id \
        WHERE r.batch_export_id = $1 AND r.created_at < $2 AND r.due_at IS NULL AND r.data_interval_start < $4 \
        AND (r.data_interval_start < $3 OR r.status NOT IN ('Failed', 'TimedOut')) \
        AND (b.id IS NULL OR b.finished_at IS NOT NULL) \
        ORDER BY r.data_interval_start, r.data_interval_end LIMIT $5";
    Ok(on!(db, conn => sqlx::query_scalar(SQL)
        .bind(export)
        .bind(limits.made)
        .bind(limits.failed)
        .bind(limits.start)
        .bind(most)
        .fetch_all(conn))?)
}

/// Those of them that nobody has asked for again. Says what they were.
pub(in crate::batch_exports) async fn delete_old(db: &mut WriteTx, ids: &[RunId]) -> Result<Vec<Old>> {
    macro_rules! delete {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new("DELETE FROM export_run WHERE due_at IS NULL AND id IN (");
            let mut list = query.separated(", ");
            for id in ids {
                list.push_bind(*id);
            }
            query.push(") RETURNING data_interval_start, data_interval_end, status, backfill_id");
            query.build_query_as().fetch_all($conn).await?
        }};
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    Ok(match db.connection() {
        Connection::Sqlite(conn) => delete!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(delete!(sqlx::Postgres, conn)) }).await?,
    })
}
