//! Logs are asked for below an export that was found for the caller.

use crate::batch_exports::types::{LogEntry, LogFilter, LogLevel, Run};
use crate::db::{Session, changed, log_page};
use crate::error::Result;
use crate::id::ExportId;
use crate::page::{Page, Window};
use crate::retention::delete_oldest;
use crate::transaction::WriteTx;

/// What [`log_page`] reads.
type Row = LogEntry;

pub(in super::super) async fn page(
    db: &mut Session,
    export: ExportId,
    filter: &LogFilter,
    window: Window,
) -> Result<Page<LogEntry>> {
    let (rows, count) = log_page!(
        db,
        "run_id, level, message, created_at",
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

pub(in super::super) const DELETE_OLDEST: &str = delete_oldest!("export_log");
