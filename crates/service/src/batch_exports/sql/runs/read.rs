//! Runs one by one, in pages, and the newest of exports.

use std::collections::HashMap;

use sqlx::QueryBuilder;

use super::coverage::earliest_start;
use super::row::{columns, select};
use crate::batch_exports::types::{Run, RunFilter};
use crate::db::{Connection, Session, answered, on};
use crate::error::Result;
use crate::id::{BackfillId, ExportId, RunId};
use crate::page::{Page, Window};
use crate::transaction::WriteTx;

/// How many runs an export shows of itself.
const LATEST: usize = 10;

/// Adds the conditions that both the page and the count stand under. What is not asked about does not keep an index from fitting.
macro_rules! filtered {
    ($query:ident, $export:ident, $filter:ident) => {
        $query
            .push(" FROM export_run r WHERE r.batch_export_id = ")
            .push_bind($export);
        if let Some(status) = $filter.status {
            $query.push(" AND r.status = ").push_bind(status.as_str());
        }
        if let Some(after) = $filter.after {
            $query.push(" AND r.data_interval_end > ").push_bind(after);
            $query
                .push(" AND r.data_interval_start > ")
                .push_bind(earliest_start(after));
        }
        if let Some(before) = $filter.before {
            $query.push(" AND r.data_interval_start < ").push_bind(before);
        }
        if let Some(backfill) = $filter.backfill {
            $query.push(" AND r.backfill_id = ").push_bind(backfill);
        }
    };
}

pub(in crate::batch_exports) async fn page(
    db: &mut Session,
    export: ExportId,
    filter: &RunFilter,
    window: Window,
) -> Result<Page<Run>> {
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut rows = QueryBuilder::<$driver>::new(concat!("SELECT ", columns!()));
            filtered!(rows, export, filter);
            rows.push(" ORDER BY r.created_at DESC, r.id DESC LIMIT ")
                .push_bind(window.limit);
            rows.push(" OFFSET ").push_bind(window.offset);
            let rows: Vec<Run> = rows.build_query_as().fetch_all(&mut *$conn).await?;
            let count = match window.count_at_end(rows.len()) {
                Some(count) => count,
                None => {
                    let mut count = QueryBuilder::<$driver>::new("SELECT count(*)");
                    filtered!(count, export, filter);
                    count.build_query_scalar().fetch_one($conn).await?
                }
            };
            (rows, count)
        }};
    }
    let (rows, count) = match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    };
    Ok(Page { items: rows, count })
}

/// The newest runs of an export, newest first.
pub(in crate::batch_exports) async fn newest(db: &mut Session, export: ExportId, most: i64) -> Result<Vec<Run>> {
    const SQL: &str = select!("WHERE r.batch_export_id = $1 ORDER BY r.created_at DESC, r.id DESC LIMIT $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(export).bind(most).fetch_all(conn))?)
}

/// The newest runs of each of these exports, newest first.
pub(in crate::batch_exports) async fn latest(
    db: &mut Session,
    exports: &[ExportId],
) -> Result<HashMap<ExportId, Vec<Run>>> {
    // For each export the moment of its tenth newest run, and from there on all of them: two short walks of one index.
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(concat!(
                "SELECT ",
                columns!(),
                " FROM (SELECT e.id, (SELECT x.created_at FROM export_run x \
                 WHERE x.batch_export_id = e.id ORDER BY x.created_at DESC, x.id DESC LIMIT 1 OFFSET 9) AS since \
                 FROM batch_export e WHERE e.id IN ("
            ));
            let mut list = query.separated(", ");
            for id in exports {
                list.push_bind(*id);
            }
            query.push(
                ")) t JOIN export_run r ON r.batch_export_id = t.id AND (t.since IS NULL OR r.created_at >= t.since) \
                 ORDER BY r.created_at DESC, r.id DESC",
            );
            query.build_query_as().fetch_all($conn).await?
        }};
    }
    if exports.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<Run> = match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    };
    let mut found: HashMap<ExportId, Vec<Run>> = HashMap::new();
    for run in rows {
        let runs = found.entry(run.batch_export).or_default();
        if runs.len() < LATEST {
            runs.push(run);
        }
    }
    Ok(found)
}

pub(in crate::batch_exports) async fn find(db: &mut Session, export: ExportId, id: RunId) -> Result<Option<Run>> {
    const SQL: &str = select!("WHERE r.batch_export_id = $1 AND r.id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(export).bind(id).fetch_optional(conn))?)
}

pub(in crate::batch_exports) async fn lock(db: &mut WriteTx, id: RunId) -> Result<Option<Run>> {
    let sql = db.pick(select!("WHERE r.id = $1"), select!("WHERE r.id = $1 FOR NO KEY UPDATE"));
    Ok(on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?)
}

pub(in crate::batch_exports) async fn open_of_backfill(db: &mut WriteTx, id: BackfillId) -> Result<Vec<Run>> {
    let sql = db.pick(
        select!("WHERE r.backfill_id = $1 AND r.due_at IS NOT NULL"),
        select!("WHERE r.backfill_id = $1 AND r.due_at IS NOT NULL FOR NO KEY UPDATE"),
    );
    Ok(on!(db, conn => sqlx::query_as(sql).bind(id).fetch_all(conn))?)
}

pub(in crate::batch_exports) async fn any_failed(db: &mut Session, id: BackfillId) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM export_run WHERE backfill_id = $1 AND status <> 'Completed' LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(id).fetch_optional(conn))?;
    Ok(found.is_some())
}
