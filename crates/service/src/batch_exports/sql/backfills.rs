//! Backfills are asked for below an export that was found for the caller.

use super::unknown;
use crate::batch_exports::backfills::Backfill;
use crate::clock::Time;
use crate::db::{Session, WriteTx, changed, on};
use crate::error::{Error, Result};
use crate::id::{BackfillId, ExportId, OrganizationId};
use crate::page::{Page, Window};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT b.id, b.organization_id, b.batch_export_id, b.start_at, b.end_at, b.status, b.is_resend, \
             b.scheduled_until, b.total_runs, b.skipped_runs, b.forgotten_runs, b.created_at, b.finished_at, b.updated_at, \
             (SELECT count(*) FROM export_run r WHERE r.backfill_id = b.id AND r.due_at IS NULL) AS over \
             FROM export_backfill b ",
            $rest
        )
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    id: BackfillId,
    organization_id: OrganizationId,
    batch_export_id: ExportId,
    start_at: Time,
    end_at: Time,
    status: String,
    is_resend: bool,
    scheduled_until: Time,
    total_runs: i64,
    skipped_runs: i64,
    forgotten_runs: i64,
    created_at: Time,
    finished_at: Option<Time>,
    updated_at: Time,
    over: i64,
}

impl TryFrom<Row> for Backfill {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: row.id,
            organization_id: row.organization_id,
            batch_export: row.batch_export_id,
            start_at: row.start_at,
            end_at: row.end_at,
            status: row.status.parse().map_err(|()| unknown("status"))?,
            is_resend: row.is_resend,
            scheduled_until: row.scheduled_until,
            total_runs: row.total_runs,
            skipped_runs: row.skipped_runs,
            created_at: row.created_at,
            finished_at: row.finished_at,
            updated_at: row.updated_at,
            finished_runs: row.skipped_runs + row.forgotten_runs + row.over,
        })
    }
}

pub(in super::super) async fn page(db: &mut Session, export: ExportId, window: Window) -> Result<Page<Backfill>> {
    const ROWS: &str = select!("WHERE b.batch_export_id = $1 ORDER BY b.created_at DESC, b.id DESC LIMIT $2 OFFSET $3");
    const COUNT: &str = "SELECT count(*) FROM export_backfill WHERE batch_export_id = $1";
    let Window { limit, offset } = window;
    let rows: Vec<Row> = on!(db, conn => sqlx::query_as(ROWS).bind(export).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(export).fetch_one(conn))?;
    Ok(Page {
        items: rows.into_iter().map(Backfill::try_from).collect::<Result<_>>()?,
        count,
    })
}

pub(in super::super) async fn find(db: &mut Session, export: ExportId, id: BackfillId) -> Result<Option<Backfill>> {
    const SQL: &str = select!("WHERE b.batch_export_id = $1 AND b.id = $2");
    let row: Option<Row> = on!(db, conn => sqlx::query_as(SQL).bind(export).bind(id).fetch_optional(conn))?;
    row.map(Backfill::try_from).transpose()
}

/// Those with something to be done: runs to be made while fewer than so many wait, or to be ended. Organizations take turns, and
/// in each its oldest comes first.
pub(in super::super) async fn open(db: &mut Session, most_waiting: i64) -> Result<Vec<BackfillId>> {
    const SQL: &str = "SELECT t.id FROM ( \
          SELECT o.id, o.created_at, row_number() OVER (PARTITION BY o.organization_id ORDER BY o.created_at, o.id) AS place \
          FROM (SELECT b.id, b.organization_id, b.created_at, b.scheduled_until < b.end_at AS is_more, \
                  (SELECT count(*) FROM export_run r WHERE r.backfill_id = b.id AND r.due_at IS NOT NULL) AS waiting \
                FROM export_backfill b WHERE b.finished_at IS NULL) o \
          WHERE o.waiting = 0 OR (o.is_more AND o.waiting < $1)) t \
        ORDER BY t.place, t.created_at LIMIT 100";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(most_waiting).fetch_all(conn))?)
}

pub(in super::super) async fn count_open(db: &mut Session, export: ExportId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM export_backfill WHERE batch_export_id = $1 AND finished_at IS NULL";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).fetch_one(conn))?)
}

/// Those that are over, but for so many of the newest and those with a run that was asked for again.
pub(in super::super) async fn old(db: &mut Session, export: ExportId, kept: i64, most: i64) -> Result<Vec<BackfillId>> {
    const SQL: &str = "SELECT b.id FROM export_backfill b WHERE b.batch_export_id = $1 AND b.finished_at IS NOT NULL \
        AND b.created_at < (SELECT x.created_at FROM export_backfill x WHERE x.batch_export_id = $1 \
          ORDER BY x.created_at DESC, x.id DESC LIMIT 1 OFFSET $2) \
        AND NOT EXISTS (SELECT 1 FROM export_run r WHERE r.backfill_id = b.id AND r.due_at IS NOT NULL) \
        ORDER BY b.created_at, b.id LIMIT $3";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).bind(kept - 1).bind(most).fetch_all(conn))?)
}

pub(in super::super) async fn delete(db: &mut WriteTx, ids: &[BackfillId]) -> Result<()> {
    const SQL: &str = "DELETE FROM export_backfill WHERE id = $1";
    for id in ids {
        changed!(db, sqlx::query(SQL).bind(*id))?;
    }
    Ok(())
}

/// Runs of it that are no longer kept count as over.
pub(in super::super) async fn count_forgotten(db: &mut WriteTx, id: BackfillId, count: i64) -> Result<()> {
    const SQL: &str = "UPDATE export_backfill SET forgotten_runs = forgotten_runs + $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(count))?;
    Ok(())
}

pub(in super::super) async fn insert(db: &mut WriteTx, backfill: &Backfill) -> Result<()> {
    const SQL: &str = "INSERT INTO export_backfill (id, organization_id, batch_export_id, start_at, end_at, status, \
        is_resend, scheduled_until, total_runs, skipped_runs, created_at, finished_at, updated_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(backfill.id)
            .bind(backfill.organization_id)
            .bind(backfill.batch_export)
            .bind(backfill.start_at)
            .bind(backfill.end_at)
            .bind(backfill.status.as_str())
            .bind(backfill.is_resend)
            .bind(backfill.scheduled_until)
            .bind(backfill.total_runs)
            .bind(backfill.skipped_runs)
            .bind(backfill.created_at)
            .bind(backfill.finished_at)
            .bind(backfill.updated_at)
    )?;
    Ok(())
}

pub(in super::super) async fn save(db: &mut WriteTx, backfill: &Backfill) -> Result<()> {
    const SQL: &str = "UPDATE export_backfill SET status = $2, scheduled_until = $3, total_runs = $4, \
        skipped_runs = $5, finished_at = $6, updated_at = $7 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(backfill.id)
            .bind(backfill.status.as_str())
            .bind(backfill.scheduled_until)
            .bind(backfill.total_runs)
            .bind(backfill.skipped_runs)
            .bind(backfill.finished_at)
            .bind(backfill.updated_at)
    )?;
    Ok(())
}
