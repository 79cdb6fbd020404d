//! What a caller asks for names the organization; the scheduler's statements go over all of them.

use hogql::Model;
use serde_json::{Map, Value};
use sqlx::QueryBuilder;
use sqlx::types::Json;

use super::unknown;
use crate::batch_exports::destination::Kind;
use crate::batch_exports::{BatchExport, ExportName};
use crate::clock::Time;
use crate::db::{Connection, Session, WriteTx, answered, changed, listed, on, within_reach};
use crate::error::{Error, Result};
use crate::id::{BackfillId, ExportId, OrganizationId, TeamId};
use crate::organizations;
use crate::page::{Page, Window};

macro_rules! columns {
    () => {
        "id, organization_id, team_id, name, model, frequency, kind, config, secrets, paused, last_paused_at, start_at, \
         end_at, hogql_query, scheduled_until, next_run_at, failures, created_at, updated_at"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM batch_export ", $rest)
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    id: ExportId,
    organization_id: OrganizationId,
    team_id: TeamId,
    name: ExportName,
    model: String,
    frequency: String,
    kind: String,
    config: Json<Map<String, Value>>,
    secrets: Option<Vec<u8>>,
    paused: bool,
    last_paused_at: Option<Time>,
    start_at: Option<Time>,
    end_at: Option<Time>,
    hogql_query: Option<String>,
    scheduled_until: Time,
    next_run_at: Option<Time>,
    failures: i64,
    created_at: Time,
    updated_at: Time,
}

impl TryFrom<Row> for BatchExport {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let model = [Model::Events, Model::Persons]
            .into_iter()
            .find(|model| model.name() == row.model);
        Ok(Self {
            id: row.id,
            organization_id: row.organization_id,
            team_id: row.team_id,
            name: row.name,
            model: model.ok_or_else(|| unknown("model"))?,
            interval: row.frequency.parse().map_err(|()| unknown("interval"))?,
            kind: Kind::named(&row.kind).ok_or_else(|| unknown("destination"))?,
            config: row.config.0,
            secrets: row.secrets,
            paused: row.paused,
            last_paused_at: row.last_paused_at,
            start_at: row.start_at,
            end_at: row.end_at,
            hogql_query: row.hogql_query,
            scheduled_until: row.scheduled_until,
            next_run_at: row.next_run_at,
            failures: row.failures,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

fn all(rows: Vec<Row>) -> Result<Vec<BatchExport>> {
    rows.into_iter().map(BatchExport::try_from).collect()
}

macro_rules! seen {
    ($select:expr, $rest:literal) => {
        concat!(
            $select,
            " FROM batch_export WHERE ",
            within_reach!("batch_export"),
            $rest
        )
    };
}

macro_rules! rows {
    ($rest:literal) => {
        seen!(concat!("SELECT ", columns!()), $rest)
    };
}

/// Which of the exports a page is cut from, and in what order.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Which {
    /// Newest first.
    All,
    /// Those that fail or are paused, and that fail first.
    Troubled,
}

impl Which {
    fn statements(self) -> (&'static str, &'static str) {
        match self {
            Self::All => (
                rows!(" ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4"),
                seen!("SELECT count(*)", ""),
            ),
            Self::Troubled => (
                rows!(
                    " AND (paused OR failures > 0) ORDER BY CASE WHEN failures > 0 THEN 0 ELSE 1 END, created_at DESC, \
                     id DESC LIMIT $3 OFFSET $4"
                ),
                seen!("SELECT count(*)", " AND (paused OR failures > 0)"),
            ),
        }
    }
}

/// `teams`: only exports of these; of all when empty.
pub(in super::super) async fn page(
    db: &mut Session,
    which: Which,
    organization: OrganizationId,
    teams: &[TeamId],
    window: Window,
) -> Result<Page<BatchExport>> {
    let (rows, count) = which.statements();
    let teams = listed(teams);
    let Window { limit, offset } = window;
    let rows = on!(db, conn => sqlx::query_as(rows)
        .bind(organization).bind(&teams).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(count).bind(organization).bind(&teams).fetch_one(conn))?;
    Ok(Page {
        items: all(rows)?,
        count,
    })
}

pub(in super::super) async fn find(
    db: &mut Session,
    organization: OrganizationId,
    id: ExportId,
) -> Result<Option<BatchExport>> {
    const SQL: &str = select!("WHERE organization_id = $1 AND id = $2");
    let row: Option<Row> = on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?;
    row.map(BatchExport::try_from).transpose()
}

pub(in super::super) async fn count(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM batch_export WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// The next few of all there are, in the order of their ids.
pub(in super::super) async fn after(db: &mut Session, id: ExportId, most: i64) -> Result<Vec<BatchExport>> {
    const SQL: &str = select!("WHERE id > $1 ORDER BY id LIMIT $2");
    all(on!(db, conn => sqlx::query_as(SQL).bind(id).bind(most).fetch_all(conn))?)
}

/// Whoever asks looks at whose it is.
pub(in super::super) async fn lock(db: &mut WriteTx, id: ExportId) -> Result<Option<BatchExport>> {
    const OWNER: &str = "SELECT organization_id FROM batch_export WHERE id = $1";
    let owner: Option<OrganizationId> = on!(db, conn => sqlx::query_scalar(OWNER).bind(id).fetch_optional(conn))?;
    let Some(owner) = owner else { return Ok(None) };
    organizations::sql::keep(db, owner).await?;
    let sql = db.pick(select!("WHERE id = $1"), select!("WHERE id = $1 FOR NO KEY UPDATE"));
    let row: Option<Row> = on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?;
    row.map(BatchExport::try_from).transpose()
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
    let rows = on!(db, conn => sqlx::query_as(sql).bind(now).bind(limit).fetch_all(conn))?;
    all(rows)
}

pub(in super::super) async fn insert(db: &mut WriteTx, export: &BatchExport) -> Result<()> {
    const SQL: &str = concat!(
        "INSERT INTO batch_export (",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)"
    );
    changed!(
        db,
        sqlx::query(SQL)
            .bind(export.id)
            .bind(export.organization_id)
            .bind(export.team_id)
            .bind(&export.name)
            .bind(export.model.name())
            .bind(export.interval.as_str())
            .bind(export.kind.name())
            .bind(Json(&export.config))
            .bind(&export.secrets)
            .bind(export.paused)
            .bind(export.last_paused_at)
            .bind(export.start_at)
            .bind(export.end_at)
            .bind(&export.hogql_query)
            .bind(export.scheduled_until)
            .bind(export.next_run_at)
            .bind(export.failures)
            .bind(export.created_at)
            .bind(export.updated_at)
    )?;
    Ok(())
}

pub(in super::super) async fn save(db: &mut WriteTx, export: &BatchExport) -> Result<()> {
    const SQL: &str = "UPDATE batch_export SET name = $2, model = $3, frequency = $4, kind = $5, config = $6, \
        secrets = $7, paused = $8, last_paused_at = $9, start_at = $10, end_at = $11, hogql_query = $12, \
        scheduled_until = $13, next_run_at = $14, failures = $15, updated_at = $16 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(export.id)
            .bind(&export.name)
            .bind(export.model.name())
            .bind(export.interval.as_str())
            .bind(export.kind.name())
            .bind(Json(&export.config))
            .bind(&export.secrets)
            .bind(export.paused)
            .bind(export.last_paused_at)
            .bind(export.start_at)
            .bind(export.end_at)
            .bind(&export.hogql_query)
            .bind(export.scheduled_until)
            .bind(export.next_run_at)
            .bind(export.failures)
            .bind(export.updated_at)
    )?;
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
