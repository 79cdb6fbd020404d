//! What a caller asks for names the organization; the scheduler's statements go over all of them.

use sqlx::QueryBuilder;
use sqlx::types::Json;

use crate::batch_exports::types::{BatchExport, ExportSelection};
use crate::clock::Time;
use crate::db::columns::columns;
use crate::db::{Connection, Session, answered, changed, on, within_reach};
use crate::error::Result;
use crate::id::{BackfillId, ExportId, OrganizationId, TeamId};
use crate::organizations;
use crate::page::{self, Page, Window};
use crate::transaction::WriteTx;

/// What an export has from the start, in the order of [`bind_fixed`].
macro_rules! fixed {
    () => {
        columns!("" => id, organization_id, team_id, created_at)
    };
}

/// Binds what [`fixed`] names.
macro_rules! bind_fixed {
    ($query:expr, $bind:ident, $export:expr) => {
        $query
            .$bind($export.id)
            .$bind($export.organization_id)
            .$bind($export.team_id)
            .$bind($export.created_at)
    };
}

/// What changes, in the order of [`bind_changing`].
macro_rules! changing {
    () => {
        columns!(
            "" => name, model, frequency, kind, config, secrets, paused, last_paused_at, start_at, end_at, hogql_query,
            scheduled_until, next_run_at, failures, updated_at
        )
    };
}

/// Binds what [`changing`] names.
macro_rules! bind_changing {
    ($query:expr, $bind:ident, $export:expr) => {
        $query
            .$bind(&$export.name)
            .$bind($export.model.name())
            .$bind($export.interval.as_str())
            .$bind($export.kind.name())
            .$bind(Json(&$export.config))
            .$bind(&$export.secrets)
            .$bind($export.paused)
            .$bind($export.last_paused_at)
            .$bind($export.start_at)
            .$bind($export.end_at)
            .$bind(&$export.hogql_query)
            .$bind($export.scheduled_until)
            .$bind($export.next_run_at)
            .$bind($export.failures)
            .$bind($export.updated_at)
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", fixed!(), ", ", changing!(), " FROM batch_export ", $rest)
    };
}

macro_rules! text {
    ($database:ident, $select:expr, $rest:literal) => {
        concat!(
            $select,
            " FROM batch_export WHERE ",
            within_reach!($database, "batch_export"),
            $rest
        )
    };
}

macro_rules! seen {
    ($db:ident, $select:expr, $rest:literal) => {
        $db.pick(text!(sqlite, $select, $rest), text!(postgres, $select, $rest))
    };
}

macro_rules! rows {
    ($db:ident, $rest:literal) => {
        seen!($db, concat!("SELECT ", fixed!(), ", ", changing!()), $rest)
    };
}

/// The statements for the rows of a page, and for how many there are in all.
fn selecting(selection: ExportSelection, db: &Session) -> (&'static str, &'static str) {
    match selection {
        ExportSelection::All => (
            rows!(db, " ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4"),
            seen!(db, "SELECT count(*)", ""),
        ),
        ExportSelection::NeedsAttention => (
            rows!(
                db,
                " AND (paused OR failures > 0) ORDER BY CASE WHEN failures > 0 THEN 0 ELSE 1 END, created_at DESC, \
                 id DESC LIMIT $3 OFFSET $4"
            ),
            seen!(db, "SELECT count(*)", " AND (paused OR failures > 0)"),
        ),
    }
}

/// `teams`: only exports of these; of all when empty.
pub(in super::super) async fn page(
    db: &mut Session,
    selection: ExportSelection,
    organization: OrganizationId,
    teams: &[TeamId],
    window: Window,
) -> Result<Page<BatchExport>> {
    let (rows, count) = selecting(selection, db);
    let teams = Json(teams);
    let Window { limit, offset } = window;
    let items: Vec<BatchExport> = on!(db, conn => page::read(sqlx::query_as(rows)
        .bind(organization).bind(teams).bind(limit).bind(offset).fetch(conn), BatchExport::bytes))?;
    let count = match window.count_at_end(items.len()) {
        Some(count) => count,
        None => on!(db, conn => sqlx::query_scalar(count).bind(organization).bind(teams).fetch_one(conn))?,
    };
    Ok(Page { items, count })
}

pub(in super::super) async fn find(
    db: &mut Session,
    organization: OrganizationId,
    id: ExportId,
) -> Result<Option<BatchExport>> {
    const SQL: &str = select!("WHERE organization_id = $1 AND id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?)
}

pub(in super::super) async fn count(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM batch_export WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// `teams`: as for a page of them.
pub(in super::super) async fn count_of_team(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    team: TeamId,
) -> Result<i64> {
    let sql = seen!(db, "SELECT count(*)", " AND team_id = $3");
    let teams = Json(teams);
    Ok(on!(db, conn => sqlx::query_scalar(sql).bind(organization).bind(teams).bind(team).fetch_one(conn))?)
}

/// The next few of all there are, in the order of their ids.
pub(in super::super) async fn after(db: &mut Session, id: ExportId, most: i64) -> Result<Vec<BatchExport>> {
    const SQL: &str = select!("WHERE id > $1 ORDER BY id LIMIT $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(id).bind(most).fetch_all(conn))?)
}

/// Whoever asks looks at whose it is.
pub(in super::super) async fn lock(db: &mut WriteTx, id: ExportId) -> Result<Option<BatchExport>> {
    const OWNER: &str = "SELECT organization_id FROM batch_export WHERE id = $1";
    let owner: Option<OrganizationId> = on!(db, conn => sqlx::query_scalar(OWNER).bind(id).fetch_optional(conn))?;
    let Some(owner) = owner else { return Ok(None) };
    organizations::sql::keep(db, owner).await?;
    let sql = db.pick(select!("WHERE id = $1"), select!("WHERE id = $1 FOR NO KEY UPDATE"));
    Ok(on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?)
}

pub(in super::super) async fn lock_of_backfill(db: &mut WriteTx, id: BackfillId) -> Result<Option<BatchExport>> {
    const SQL: &str = "SELECT batch_export_id FROM export_backfill WHERE id = $1";
    let export: Option<ExportId> = on!(db, conn => sqlx::query_scalar(SQL).bind(id).fetch_optional(conn))?;
    match export {
        Some(export) => lock(db, export).await,
        None => Ok(None),
    }
}

/// Whether there is anything to do: asking costs less than writing.
pub(in super::super) async fn is_due(db: &mut Session, now: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM batch_export WHERE next_run_at <= $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(now).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// Exports whose time has come and that no other scheduler holds.
pub(in super::super) async fn lock_due(db: &mut WriteTx, limit: usize) -> Result<Vec<BatchExport>> {
    let sql = db.pick(
        select!("WHERE next_run_at <= $1 ORDER BY next_run_at LIMIT $2"),
        select!(
            "WHERE id IN (SELECT e.id FROM batch_export e JOIN organization o ON o.id = e.organization_id \
             WHERE e.next_run_at <= $1 ORDER BY e.next_run_at LIMIT $2 \
             FOR NO KEY UPDATE OF e SKIP LOCKED FOR KEY SHARE OF o SKIP LOCKED) ORDER BY next_run_at"
        ),
    );
    let (now, limit) = (db.now, i64::try_from(limit).unwrap_or(i64::MAX));
    Ok(on!(db, conn => sqlx::query_as(sql).bind(now).bind(limit).fetch_all(conn))?)
}

pub(in super::super) async fn insert(db: &mut WriteTx, export: &BatchExport) -> Result<()> {
    const SQL: &str = concat!(
        "INSERT INTO batch_export (",
        fixed!(),
        ", ",
        changing!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)"
    );
    changed!(
        db,
        bind_changing!(bind_fixed!(sqlx::query(SQL), bind, export), bind, export)
    )?;
    Ok(())
}

pub(in super::super) async fn save(db: &mut WriteTx, export: &BatchExport) -> Result<()> {
    const SQL: &str = concat!(
        "UPDATE batch_export SET (",
        changing!(),
        ") = ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) WHERE id = $1"
    );
    changed!(db, bind_changing!(sqlx::query(SQL).bind(export.id), bind, export))?;
    Ok(())
}

/// Only how far they have got, of many at once.
pub(in super::super) async fn save_schedules(db: &mut WriteTx, exports: &[BatchExport]) -> Result<()> {
    macro_rules! save {
        ($driver:ty, $conn:ident) => {{
            let mut query = QueryBuilder::<$driver>::new(
                "UPDATE batch_export SET scheduled_until = v.column2, next_run_at = v.column3 FROM (",
            );
            query.push_values(exports, |mut row, export| {
                row.push_bind(export.id)
                    .push_bind(export.scheduled_until)
                    .push_bind(export.next_run_at);
            });
            query.push(") AS v WHERE batch_export.id = v.column1");
            query.build().execute($conn).await?;
        }};
    }
    if exports.is_empty() {
        return Ok(());
    }
    match db.connection() {
        Connection::Sqlite(conn) => save!(sqlx::Sqlite, conn),
        Connection::Postgres(conn) => {
            answered(async {
                save!(sqlx::Postgres, conn);
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

pub(in super::super) async fn delete(db: &mut WriteTx, export: &BatchExport) -> Result<()> {
    const SQL: &str = "DELETE FROM batch_export WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(export.organization_id).bind(export.id))?;
    Ok(())
}
