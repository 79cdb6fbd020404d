//! Logs are asked for below an export that was found for the caller.

use uuid::Uuid;

use crate::batch_exports::types::{LogEntry, LogFilter, LogLevel, Run};
use crate::clock::Time;
use crate::db::{Session, changed, log_page, on};
use crate::error::Result;
use crate::id::ExportId;
use crate::page::{Page, Window};
use crate::retention::delete_oldest;
use crate::transaction::WriteTx;

pub(in super::super) async fn page(
    db: &mut Session,
    export: ExportId,
    filter: &LogFilter,
    window: Window,
) -> Result<Page<LogEntry>> {
    let (rows, count) = log_page!(
        db,
        "run_id, level, message, created_at" as LogEntry,
        "export_log WHERE batch_export_id" = export,
        ["run_id" = filter.run],
        filter,
        window
    );
    Ok(Page { items: rows, count })
}

pub(in super::super) async fn insert(db: &mut WriteTx, run: &Run, level: LogLevel, message: &str) -> Result<()> {
    const SQL: &str = "INSERT INTO export_log (id, organization_id, batch_export_id, run_id, level, message, created_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let (id, now) = (db.uuid(), db.now);
    changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(run.organization_id)
            .bind(run.batch_export)
            .bind(run.id)
            .bind(level.as_str())
            .bind(message)
            .bind(now)
    )?;
    Ok(())
}

/// The line that is so many from the newest. None: there are fewer.
pub(in super::super) async fn line_at(db: &mut Session, export: ExportId, place: i64) -> Result<Option<(Time, Uuid)>> {
    const SQL: &str = "SELECT created_at, id FROM export_log WHERE batch_export_id = $1 \
        ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET $2";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(export).bind(place - 1).fetch_optional(conn))?)
}

/// Deletes this line and older ones, the oldest first and so many at most. Says how many.
pub(in super::super) async fn delete_until(
    db: &mut WriteTx,
    export: ExportId,
    (created_at, id): (Time, Uuid),
    most: i64,
) -> Result<u64> {
    const SQL: &str = "DELETE FROM export_log WHERE id IN (SELECT id FROM export_log WHERE batch_export_id = $1 \
        AND (created_at, id) <= ($2, $3) ORDER BY created_at, id LIMIT $4)";
    Ok(changed!(
        db,
        sqlx::query(SQL).bind(export).bind(created_at).bind(id).bind(most)
    )?)
}

pub(in super::super) const DELETE_OLDEST: &str = delete_oldest!("export_log");
