//! Logs are asked for below an export that was found for the caller.

use super::unknown;
use crate::batch_exports::logs::{Level, LogEntry, LogFilter};
use crate::batch_exports::runs::Run;
use crate::clock::{Time, far_away};
use crate::db::{Session, Writing, changed, containing, on};
use crate::error::{Error, Result};
use crate::id::{ExportId, RunId};
use crate::page::{Page, Window};

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
    macro_rules! matching {
        ($what:literal, $after:literal) => {
            concat!(
                "SELECT ",
                $what,
                " FROM export_log WHERE batch_export_id = $1 AND ($2 OR run_id = $3) AND ($4 = '' OR level = $4) \
                 AND ($5 = '' OR lower(message) LIKE $5 ESCAPE '\\') AND created_at >= $6 AND created_at < $7 ",
                $after
            )
        };
    }
    const ROWS: &str = matching!(
        "run_id, level, message, created_at",
        "ORDER BY created_at DESC, id DESC LIMIT $8 OFFSET $9"
    );
    const COUNT: &str = matching!("count(*)", "");
    let level = filter.level.map(Level::as_str).unwrap_or_default();
    let search = filter.search.as_deref().map(containing).unwrap_or_default();
    let after = filter.after.unwrap_or(Time::UNIX_EPOCH);
    let before = filter.before.unwrap_or_else(far_away);
    macro_rules! ask {
        ($query:expr) => {
            $query
                .bind(export)
                .bind(filter.run.is_none())
                .bind(filter.run)
                .bind(level)
                .bind(&search)
                .bind(after)
                .bind(before)
        };
    }
    let Window { limit, offset } = window;
    let rows: Vec<Row> = on!(db, conn => ask!(sqlx::query_as(ROWS)).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => ask!(sqlx::query_scalar(COUNT)).fetch_one(conn))?;
    Ok(Page {
        items: rows.into_iter().map(LogEntry::try_from).collect::<Result<_>>()?,
        count,
    })
}

pub(in super::super) async fn insert(db: &mut Writing, run: &Run, level: Level, message: &str) -> Result<()> {
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

pub(in super::super) async fn delete_before(db: &mut Writing, before: Time) -> Result<u64> {
    const SQL: &str = "DELETE FROM export_log WHERE created_at < $1";
    Ok(changed!(db, sqlx::query(SQL).bind(before))?)
}
