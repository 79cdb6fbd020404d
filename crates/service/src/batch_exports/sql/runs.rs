//! Runs are asked for below an export that was found for the caller; workers' statements go over all of them.

use std::collections::HashMap;

use sqlx::QueryBuilder;

use super::unknown;
use crate::batch_exports::coverage::Stretch;
use crate::batch_exports::retention::{Limits, Old};
use crate::batch_exports::runs::{Run, RunFilter, RunStatus};
use crate::batch_exports::{Interval, Progress, Span};
use crate::clock::Time;
use crate::db::{Connection, Session, WriteTx, answered, changed, on};
use crate::error::{Error, Result};
use crate::id::{BackfillId, ExportId, OrganizationId, RunId, WorkerId};
use crate::page::{Page, Window};

/// How many runs an export shows of itself.
const LATEST: usize = 10;

macro_rules! columns {
    ($of:literal) => {
        concat!(
            $of,
            "id, ",
            $of,
            "organization_id, ",
            $of,
            "batch_export_id, ",
            $of,
            "backfill_id, ",
            $of,
            "data_interval_start, ",
            $of,
            "data_interval_end, ",
            $of,
            "status, ",
            $of,
            "is_resend, ",
            $of,
            "records_completed, ",
            $of,
            "records_total_count, ",
            $of,
            "records_read, ",
            $of,
            "bytes_exported, ",
            $of,
            "latest_error, ",
            $of,
            "place, ",
            $of,
            "due_at, ",
            $of,
            "worker, ",
            $of,
            "attempt, ",
            $of,
            "tries, ",
            $of,
            "queued_at, ",
            $of,
            "started_at, ",
            $of,
            "created_at, ",
            $of,
            "finished_at, ",
            $of,
            "updated_at"
        )
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", columns!("r."), " FROM export_run r ", $rest)
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    id: RunId,
    organization_id: OrganizationId,
    batch_export_id: ExportId,
    backfill_id: Option<BackfillId>,
    data_interval_start: Time,
    data_interval_end: Time,
    status: String,
    is_resend: bool,
    records_completed: Option<i64>,
    records_total_count: Option<i64>,
    records_read: Option<i64>,
    bytes_exported: Option<i64>,
    latest_error: Option<String>,
    place: String,
    due_at: Option<Time>,
    worker: Option<WorkerId>,
    attempt: i64,
    tries: i64,
    queued_at: Time,
    started_at: Option<Time>,
    created_at: Time,
    finished_at: Option<Time>,
    updated_at: Time,
}

impl TryFrom<Row> for Run {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: row.id,
            organization_id: row.organization_id,
            batch_export: row.batch_export_id,
            backfill: row.backfill_id,
            data_interval_start: row.data_interval_start,
            data_interval_end: row.data_interval_end,
            status: row.status.parse().map_err(|()| unknown("status"))?,
            is_resend: row.is_resend,
            records_completed: row.records_completed,
            records_total_count: row.records_total_count,
            records_read: row.records_read,
            bytes_exported: row.bytes_exported,
            latest_error: row.latest_error,
            place: row.place,
            due_at: row.due_at,
            worker: row.worker,
            attempt: row.attempt,
            tries: row.tries,
            queued_at: row.queued_at,
            started_at: row.started_at,
            created_at: row.created_at,
            finished_at: row.finished_at,
            updated_at: row.updated_at,
        })
    }
}

fn all(rows: Vec<Row>) -> Result<Vec<Run>> {
    rows.into_iter().map(Run::try_from).collect()
}

fn one(row: Option<Row>) -> Result<Option<Run>> {
    row.map(Run::try_from).transpose()
}

/// Runs that reach beyond a time begin after this one: none is longer than the longest interval. Without it every run since the
/// first would be read, for the indexes know where runs begin.
fn earliest_start(reached: Time) -> Time {
    reached.checked_sub_signed(Interval::LONGEST).unwrap_or(reached)
}

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

pub(in super::super) async fn page(
    db: &mut Session,
    export: ExportId,
    filter: &RunFilter,
    window: Window,
) -> Result<Page<Run>> {
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut rows = QueryBuilder::<$driver>::new(concat!("SELECT ", columns!("r.")));
            filtered!(rows, export, filter);
            rows.push(" ORDER BY r.created_at DESC, r.id DESC LIMIT ")
                .push_bind(window.limit);
            rows.push(" OFFSET ").push_bind(window.offset);
            let mut count = QueryBuilder::<$driver>::new("SELECT count(*)");
            filtered!(count, export, filter);
            let rows: Vec<Row> = rows.build_query_as().fetch_all(&mut *$conn).await?;
            let count: i64 = count.build_query_scalar().fetch_one($conn).await?;
            (rows, count)
        }};
    }
    let (rows, count) = match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    };
    Ok(Page {
        items: all(rows)?,
        count,
    })
}

/// The newest runs of an export, newest first.
pub(in super::super) async fn newest(db: &mut Session, export: ExportId, most: i64) -> Result<Vec<Run>> {
    const SQL: &str = select!("WHERE r.batch_export_id = $1 ORDER BY r.created_at DESC, r.id DESC LIMIT $2");
    all(on!(db, conn => sqlx::query_as(SQL).bind(export).bind(most).fetch_all(conn))?)
}

/// The newest runs of each of these exports, newest first.
pub(in super::super) async fn latest(db: &mut Session, exports: &[ExportId]) -> Result<HashMap<ExportId, Vec<Run>>> {
    // For each export the moment of its tenth newest run, and from there on all of them: two short walks of one index.
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(concat!(
                "SELECT ",
                columns!("r."),
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
    let rows = match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    };
    let mut found: HashMap<ExportId, Vec<Run>> = HashMap::new();
    for run in all(rows)? {
        let runs = found.entry(run.batch_export).or_default();
        if runs.len() < LATEST {
            runs.push(run);
        }
    }
    Ok(found)
}

pub(in super::super) async fn find(db: &mut Session, export: ExportId, id: RunId) -> Result<Option<Run>> {
    const SQL: &str = select!("WHERE r.batch_export_id = $1 AND r.id = $2");
    one(on!(db, conn => sqlx::query_as(SQL).bind(export).bind(id).fetch_optional(conn))?)
}

pub(in super::super) async fn lock(db: &mut WriteTx, id: RunId) -> Result<Option<Run>> {
    let sql = db.pick(select!("WHERE r.id = $1"), select!("WHERE r.id = $1 FOR NO KEY UPDATE"));
    one(on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?)
}

/// Whether there may be anything to take: asking costs less than writing.
pub(in super::super) async fn is_due(db: &mut Session, now: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM export_run r JOIN batch_export e ON e.id = r.batch_export_id \
        WHERE r.due_at <= $1 AND (NOT e.paused OR r.backfill_id IS NOT NULL) LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(now).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// So many of the organizations after this one that have a run which is due and goes to none of these places.
pub(in super::super) async fn due_organizations(
    db: &mut Session,
    now: Time,
    after: OrganizationId,
    busy: &[String],
    most: usize,
) -> Result<Vec<OrganizationId>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    // From one organization to the next by the index: of what they have waiting only the first is read.
    macro_rules! read {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(
                "WITH RECURSIVE owner (id) AS ( \
                   SELECT (SELECT organization_id FROM export_run WHERE due_at IS NOT NULL AND organization_id > ",
            );
            query.push_bind(after).push(
                " ORDER BY organization_id LIMIT 1) \
                   UNION ALL \
                   SELECT (SELECT r.organization_id FROM export_run r \
                           WHERE r.due_at IS NOT NULL AND r.organization_id > owner.id \
                           ORDER BY r.organization_id LIMIT 1) \
                   FROM owner WHERE owner.id IS NOT NULL) \
                 SELECT owner.id FROM owner WHERE owner.id IS NOT NULL",
            );
            query.push(
                " AND (SELECT r.due_at FROM export_run r JOIN batch_export e ON e.id = r.batch_export_id \
                   WHERE r.organization_id = owner.id AND (NOT e.paused OR r.backfill_id IS NOT NULL) \
                     AND r.due_at IS NOT NULL",
            );
            for place in busy {
                query.push(" AND r.place <> ").push_bind(place);
            }
            query
                .push(" ORDER BY r.due_at LIMIT 1) <= ")
                .push_bind(now)
                .push(" LIMIT ")
                .push_bind(most);
            query.build_query_scalar().fetch_all($conn).await?
        }};
    }
    Ok(match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(read!(sqlx::Postgres, conn)) }).await?,
    })
}

/// The run of this organization that has waited longest, of an export that is not paused or of a backfill, unless it goes to
/// one of these places.
///
/// PostgreSQL also holds the export itself, so that whoever deletes it waits for this write, and this write for nobody.
pub(in super::super) async fn lock_due(
    db: &mut WriteTx,
    organization: OrganizationId,
    busy: &[String],
) -> Result<Option<Run>> {
    let now = db.now;
    macro_rules! read {
        ($driver:ty, $conn:ident, $end:literal) => {{
            let mut query = QueryBuilder::<$driver>::new(select!(
                "JOIN batch_export e ON e.id = r.batch_export_id WHERE (NOT e.paused OR r.backfill_id IS NOT NULL) \
                 AND r.due_at <= "
            ));
            query.push_bind(now);
            query.push(" AND r.organization_id = ").push_bind(organization);
            for place in busy {
                query.push(" AND r.place <> ").push_bind(place);
            }
            query.push(concat!(" ORDER BY r.due_at, r.id LIMIT 1", $end));
            query.build_query_as().fetch_optional($conn).await?
        }};
    }
    one(match db.connection() {
        Connection::Sqlite(conn) => read!(sqlx::Sqlite, conn, ""),
        Connection::Postgres(conn) => {
            answered(async {
                Ok(read!(
                    sqlx::Postgres,
                    conn,
                    " FOR NO KEY UPDATE OF r SKIP LOCKED FOR KEY SHARE OF e SKIP LOCKED"
                ))
            })
            .await?
        }
    })
}

/// Those that no run exists for yet.
pub(in super::super) async fn insert_new(db: &mut WriteTx, runs: &[Run]) -> Result<()> {
    macro_rules! write {
        ($driver:ty, $conn:ident, $runs:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(concat!("INSERT INTO export_run (", columns!(""), ") "));
            query.push_values($runs, |mut row, run| {
                row.push_bind(run.id)
                    .push_bind(run.organization_id)
                    .push_bind(run.batch_export)
                    .push_bind(run.backfill)
                    .push_bind(run.data_interval_start)
                    .push_bind(run.data_interval_end)
                    .push_bind(run.status.as_str())
                    .push_bind(run.is_resend)
                    .push_bind(run.records_completed)
                    .push_bind(run.records_total_count)
                    .push_bind(run.records_read)
                    .push_bind(run.bytes_exported)
                    .push_bind(&run.latest_error)
                    .push_bind(&run.place)
                    .push_bind(run.due_at)
                    .push_bind(run.worker)
                    .push_bind(run.attempt)
                    .push_bind(run.tries)
                    .push_bind(run.queued_at)
                    .push_bind(run.started_at)
                    .push_bind(run.created_at)
                    .push_bind(run.finished_at)
                    .push_bind(run.updated_at);
            });
            query.push(" ON CONFLICT (batch_export_id, data_interval_start, data_interval_end) DO NOTHING");
            query.build().execute(&mut *$conn).await?;
        }};
    }
    // As many as a statement can have parameters for, on either database.
    for some in runs.chunks(1000) {
        match db.connection() {
            Connection::Sqlite(conn) => write!(sqlx::Sqlite, conn, some),
            Connection::Postgres(conn) => {
                answered(async {
                    write!(sqlx::Postgres, conn, some);
                    Ok(())
                })
                .await?;
            }
        }
    }
    Ok(())
}

pub(in super::super) async fn save(db: &mut WriteTx, run: &Run) -> Result<()> {
    const SQL: &str = "UPDATE export_run SET backfill_id = $2, status = $3, is_resend = $4, records_completed = $5, \
        records_total_count = $6, bytes_exported = $7, latest_error = $8, due_at = $9, worker = $10, attempt = $11, \
        tries = $12, queued_at = $13, started_at = $14, finished_at = $15, updated_at = $16, \
        records_read = $17 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(run.id)
            .bind(run.backfill)
            .bind(run.status.as_str())
            .bind(run.is_resend)
            .bind(run.records_completed)
            .bind(run.records_total_count)
            .bind(run.bytes_exported)
            .bind(&run.latest_error)
            .bind(run.due_at)
            .bind(run.worker)
            .bind(run.attempt)
            .bind(run.tries)
            .bind(run.queued_at)
            .bind(run.started_at)
            .bind(run.finished_at)
            .bind(run.updated_at)
            .bind(run.records_read)
    )?;
    Ok(())
}

/// Keeps a run for its holder. False: it has none, or another.
pub(in super::super) async fn keep(
    db: &mut WriteTx,
    id: RunId,
    worker: WorkerId,
    attempt: i64,
    until: Time,
    progress: &Progress,
) -> Result<bool> {
    const SQL: &str = "UPDATE export_run SET due_at = $4, records_completed = $5, bytes_exported = $6, \
        records_total_count = COALESCE($7, records_total_count), updated_at = $8, records_read = $9 \
        WHERE id = $1 AND worker = $2 AND attempt = $3 AND status = 'Running'";
    let now = db.now;
    let kept = changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(worker)
            .bind(attempt)
            .bind(until)
            .bind(number(progress.records))
            .bind(number(progress.bytes))
            .bind(progress.total.map(number))
            .bind(now)
            .bind(number(progress.read))
    )?;
    Ok(kept == 1)
}

/// What a cancelled run has delivered after all. Asked for again, it is another attempt's.
pub(in super::super) async fn note_cancelled(
    db: &mut WriteTx,
    id: RunId,
    attempt: i64,
    delivered: &Progress,
) -> Result<()> {
    const SQL: &str = "UPDATE export_run SET records_completed = $3, bytes_exported = $4, records_read = $5 \
        WHERE id = $1 AND attempt = $2 AND status = 'Cancelled'";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(attempt)
            .bind(number(delivered.records))
            .bind(number(delivered.bytes))
            .bind(number(delivered.read))
    )?;
    Ok(())
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Every run that has to do with a span, in order of time.
pub(in super::super) async fn overlapping(db: &mut Session, export: ExportId, span: Span) -> Result<Vec<Run>> {
    const SQL: &str = select!(
        "WHERE r.batch_export_id = $1 AND r.data_interval_start > $4 AND r.data_interval_start < $3 \
         AND r.data_interval_end > $2 ORDER BY r.data_interval_start, r.data_interval_end"
    );
    let since = earliest_start(span.start);
    all(on!(db, conn => sqlx::query_as(SQL)
        .bind(export).bind(span.start).bind(span.end).bind(since).fetch_all(conn))?)
}

/// The same, with no more than it takes to say what was delivered, also by runs that are no longer kept.
pub(in super::super) async fn stretches(db: &mut Session, export: ExportId, span: Span) -> Result<Vec<Stretch>> {
    const SQL: &str = "SELECT data_interval_start, data_interval_end, status FROM export_run \
        WHERE batch_export_id = $1 AND data_interval_start > $4 AND data_interval_start < $3 AND data_interval_end > $2 \
        ORDER BY data_interval_start, data_interval_end";
    let since = earliest_start(span.start);
    let rows: Vec<(Time, Time, String)> = on!(db, conn => sqlx::query_as(SQL)
        .bind(export).bind(span.start).bind(span.end).bind(since).fetch_all(conn))?;
    let stretch = |(start, end, status): (Time, Time, String)| {
        Ok(Stretch {
            span: Span { start, end },
            status: status.parse().map_err(|()| unknown("status"))?,
        })
    };
    let mut found: Vec<Stretch> = rows.into_iter().map(stretch).collect::<Result<_>>()?;
    let delivered = super::delivered::touching(db, export, span).await?;
    if !delivered.is_empty() {
        found.extend(delivered.into_iter().map(|span| Stretch {
            span,
            status: RunStatus::Completed,
        }));
        found.sort_by_key(|stretch| (stretch.span.start, stretch.span.end));
    }
    Ok(found)
}

pub(in super::super) async fn open_of_backfill(db: &mut WriteTx, id: BackfillId) -> Result<Vec<Run>> {
    let sql = db.pick(
        select!("WHERE r.backfill_id = $1 AND r.due_at IS NOT NULL"),
        select!("WHERE r.backfill_id = $1 AND r.due_at IS NOT NULL FOR NO KEY UPDATE"),
    );
    all(on!(db, conn => sqlx::query_as(sql).bind(id).fetch_all(conn))?)
}

pub(in super::super) async fn any_failed(db: &mut Session, id: BackfillId) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM export_run WHERE backfill_id = $1 AND status <> 'Completed' LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(id).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// When the run was made that is so many from the newest. None: there are fewer.
pub(in super::super) async fn made_at(db: &mut Session, export: ExportId, place: i64) -> Result<Option<Time>> {
    const SQL: &str = "SELECT created_at FROM export_run WHERE batch_export_id = $1 \
        ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET $2";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).bind(place - 1).fetch_optional(conn))?)
}

/// Where the last interval begins that there is a run for.
pub(in super::super) async fn last_start(db: &mut Session, export: ExportId) -> Result<Option<Time>> {
    const SQL: &str = "SELECT max(data_interval_start) FROM export_run WHERE batch_export_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).fetch_one(conn))?)
}

/// Runs that are over and that nothing depends on, in order of time. A backfill under way looks at its runs when it ends.
pub(in super::super) async fn old(db: &mut Session, export: ExportId, limits: Limits, most: i64) -> Result<Vec<RunId>> {
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
pub(in super::super) async fn delete_old(db: &mut WriteTx, ids: &[RunId]) -> Result<Vec<Old>> {
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
    let rows: Vec<(Time, Time, String, Option<BackfillId>)> = match db.connection() {
        Connection::Sqlite(conn) => delete!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => answered(async { Ok(delete!(sqlx::Postgres, conn)) }).await?,
    };
    let old = |(start, end, status, backfill): (Time, Time, String, Option<BackfillId>)| {
        Ok(Old {
            span: Span { start, end },
            status: status.parse().map_err(|()| unknown("status"))?,
            backfill,
        })
    };
    rows.into_iter().map(old).collect()
}

/// Where the newest interval ends that there is a run for.
pub(in super::super) async fn covered_until(db: &mut Session, export: ExportId) -> Result<Option<Time>> {
    const SQL: &str =
        "SELECT max(data_interval_end) FROM export_run WHERE batch_export_id = $1 AND data_interval_start > $2";
    let Some(last) = last_start(db, export).await? else {
        return Ok(None);
    };
    // The last to begin need not be the last to end, but what ends after it did not begin long before it.
    let since = earliest_start(last);
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).bind(since).fetch_one(conn))?)
}

/// Where the first interval begins that failed for good, since then.
pub(in super::super) async fn first_failed(db: &mut Session, export: ExportId, since: Time) -> Result<Option<Time>> {
    const SQL: &str = "SELECT min(data_interval_start) FROM export_run \
        WHERE batch_export_id = $1 AND data_interval_start >= $2 AND status IN ('Failed', 'TimedOut')";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(export).bind(since).fetch_one(conn))?)
}
