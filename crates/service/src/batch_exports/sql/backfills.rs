//! Backfills are asked for below an export that was found for the caller.

use crate::batch_exports::types::Backfill;
use crate::db::columns::columns;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{BackfillId, ExportId, OrganizationId};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;

/// What a backfill has from the start, in the order of [`bind_fixed`].
macro_rules! fixed {
    ($table:literal) => {
        columns!($table => id, organization_id, batch_export_id, start_at, end_at, is_resend, created_at)
    };
}

/// Binds what [`fixed`] names.
macro_rules! bind_fixed {
    ($query:expr, $bind:ident, $backfill:expr) => {
        $query
            .$bind($backfill.id)
            .$bind($backfill.organization_id)
            .$bind($backfill.batch_export)
            .$bind($backfill.start_at)
            .$bind($backfill.end_at)
            .$bind($backfill.is_resend)
            .$bind($backfill.created_at)
    };
}

/// What changes, in the order of [`bind_changing`].
macro_rules! changing {
    ($table:literal) => {
        columns!($table => status, scheduled_until, total_runs, skipped_runs, finished_at, updated_at)
    };
}

/// Binds what [`changing`] names.
macro_rules! bind_changing {
    ($query:expr, $bind:ident, $backfill:expr) => {
        $query
            .$bind($backfill.status.as_str())
            .$bind($backfill.scheduled_until)
            .$bind($backfill.total_runs)
            .$bind($backfill.skipped_runs)
            .$bind($backfill.finished_at)
            .$bind($backfill.updated_at)
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            fixed!("b."),
            ", ",
            changing!("b."),
            ", b.skipped_runs + b.pruned_runs \
             + (SELECT count(*) FROM export_run r WHERE r.backfill_id = b.id AND r.due_at IS NULL) AS finished_runs \
             FROM export_backfill b ",
            $rest
        )
    };
}

pub(in super::super) async fn page(db: &mut Session, export: ExportId, window: Window) -> Result<Page<Backfill>> {
    const ROWS: &str = select!("WHERE b.batch_export_id = $1 ORDER BY b.created_at DESC, b.id DESC LIMIT $2 OFFSET $3");
    const COUNT: &str = "SELECT count(*) FROM export_backfill WHERE batch_export_id = $1";
    let Window { limit, offset } = window;
    let items = on!(db, conn => sqlx::query_as(ROWS).bind(export).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(export).fetch_one(conn))?;
    Ok(Page { items, count })
}

pub(in super::super) async fn find(db: &mut Session, export: ExportId, id: BackfillId) -> Result<Option<Backfill>> {
    const SQL: &str = select!("WHERE b.batch_export_id = $1 AND b.id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(export).bind(id).fetch_optional(conn))?)
}

/// Those with something to be done: runs to be made while fewer than so many wait, or to be ended. Organizations take turns, and
/// in each its oldest comes first.
pub(in super::super) async fn open(db: &mut Session, most_waiting: i64) -> Result<Vec<BackfillId>> {
    // Counting stops at so many: every open backfill is looked at, once a second.
    const SQL: &str = "SELECT t.id FROM ( \
          SELECT b.id, b.created_at, row_number() OVER (PARTITION BY b.organization_id ORDER BY b.created_at, b.id) AS place \
          FROM export_backfill b JOIN batch_export e ON e.id = b.batch_export_id \
          WHERE b.finished_at IS NULL AND CASE WHEN b.scheduled_until < b.end_at \
            THEN (SELECT 1 FROM export_run r WHERE r.backfill_id = b.id AND r.due_at IS NOT NULL LIMIT 1 OFFSET $1) \
            ELSE (SELECT 1 FROM export_run r WHERE r.backfill_id = b.id AND r.due_at IS NOT NULL LIMIT 1) END IS NULL) t \
        ORDER BY t.place, t.created_at LIMIT 100";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(most_waiting - 1).fetch_all(conn))?)
}

pub(in super::super) async fn count_open(db: &mut Session, export: ExportId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM export_backfill WHERE batch_export_id = $1 AND finished_at IS NULL";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).fetch_one(conn))?)
}

pub(in super::super) async fn count_open_of(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM export_backfill b JOIN batch_export e ON e.id = b.batch_export_id \
        WHERE b.organization_id = $1 AND b.finished_at IS NULL";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// Finished backfills, without the `kept` newest and those with a run that was requested again.
pub(in super::super) async fn old(db: &mut Session, export: ExportId, kept: i64, most: i64) -> Result<Vec<BackfillId>> {
    const SQL: &str = "SELECT b.id FROM export_backfill b WHERE b.batch_export_id = $1 AND b.finished_at IS NOT NULL \
        AND b.created_at < (SELECT x.created_at FROM export_backfill x WHERE x.batch_export_id = $1 \
          ORDER BY x.created_at DESC, x.id DESC LIMIT 1 OFFSET $2) \
        AND NOT EXISTS (SELECT 1 FROM export_run r WHERE r.backfill_id = b.id AND r.due_at IS NOT NULL) \
        ORDER BY b.created_at, b.id LIMIT $3";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).bind(kept - 1).bind(most).fetch_all(conn))?)
}

pub(in super::super) async fn delete(db: &mut WriteTx, ids: &[BackfillId]) -> Result<()> {
    const RUNS: &str = "UPDATE export_run SET backfill_id = NULL WHERE backfill_id = $1";
    const SQL: &str = "DELETE FROM export_backfill WHERE id = $1";
    for id in ids {
        changed!(db, sqlx::query(RUNS).bind(*id))?;
        changed!(db, sqlx::query(SQL).bind(*id))?;
    }
    Ok(())
}

/// Runs of it that are no longer kept count as over.
pub(in super::super) async fn count_forgotten(db: &mut WriteTx, id: BackfillId, count: i64) -> Result<()> {
    const SQL: &str = "UPDATE export_backfill SET pruned_runs = pruned_runs + $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(count))?;
    Ok(())
}

pub(in super::super) async fn insert(db: &mut WriteTx, backfill: &Backfill) -> Result<()> {
    const SQL: &str = concat!(
        "INSERT INTO export_backfill (",
        fixed!(""),
        ", ",
        changing!(""),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
    );
    changed!(
        db,
        bind_changing!(bind_fixed!(sqlx::query(SQL), bind, backfill), bind, backfill)
    )?;
    Ok(())
}

pub(in super::super) async fn save(db: &mut WriteTx, backfill: &Backfill) -> Result<()> {
    const SQL: &str = concat!(
        "UPDATE export_backfill SET (",
        changing!(""),
        ") = ($2, $3, $4, $5, $6, $7) WHERE id = $1"
    );
    changed!(db, bind_changing!(sqlx::query(SQL).bind(backfill.id), bind, backfill))?;
    Ok(())
}
