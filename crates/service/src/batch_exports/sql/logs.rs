//! Logs are asked for below an export that was found for the caller.

use super::unknown;
use crate::batch_exports::logs::{Level, LogEntry, LogFilter};
use crate::batch_exports::runs::Run;
use crate::clock::Time;
use crate::db::{Session, WriteTx, changed, log_page};
use crate::error::{Error, Result};
use crate::id::{ExportId, RunId};
use crate::page::{Page, Window};
use crate::retention::delete_oldest;

#[derive(sqlx::FromRow)]
struct Row {
    run_id: Option<RunId>,
    level: String,
    message: String,
    created_at: Time,
}

impl TryFrom<Row> for LogEntry {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            run: row.run_id,
            level: row.level.parse().map_err(|()| unknown("level"))?,
            message: row.message,
            created_at: row.created_at,
        })
    }
}

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
    Ok(Page {
        items: rows.into_iter().map(LogEntry::try_from).collect::<Result<_>>()?,
        count,
    })
}

pub(in super::super) async fn insert(db: &mut WriteTx, run: &Run, level: Level, message: &str) -> Result<()> {
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
