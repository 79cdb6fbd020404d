//! What a caller asks for names the organization; the workers' statements go over all of them.

use serde_json::{Map, Value};
use sqlx::types::Json;

use super::unknown;
use crate::clock::Time;
use crate::db::{Session, WriteTx, changed, listed, on, within_reach};
use crate::error::{Error, Result};
use crate::id::{AppConfigId, AppId, OrganizationId, TeamId, WorkerId};
use crate::page::{self, Page, Window};
use crate::pipeline::schema::{KnownSecrets, SecretChange};
use crate::pipeline::{App, AppConfig, Collection, Cursor, DueAfter, DueApp, limits};

macro_rules! select {
    ($rest:literal) => {
        select!("c.config, c.secrets", $rest)
    };
    ($values:literal, $rest:literal) => {
        concat!(
            "SELECT c.id, c.organization_id, c.app_id, a.collection, a.name AS app_name, c.team_id, c.enabled, c.sort_order, ",
            $values,
            ", c.web_token, c.delivered_until, c.delivered_count, c.due_at, c.attempt, c.tries, \
             c.failures, c.latest_error, c.allowed_hosts, c.version, a.version AS latest_version, c.created_at, c.updated_at \
             FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id ",
            $rest
        )
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    id: AppConfigId,
    organization_id: OrganizationId,
    app_id: AppId,
    collection: String,
    app_name: String,
    team_id: TeamId,
    enabled: bool,
    sort_order: i64,
    config: Json<Map<String, Value>>,
    secrets: Option<Vec<u8>>,
    web_token: String,
    delivered_until: Time,
    delivered_count: i64,
    due_at: Option<Time>,
    attempt: i64,
    tries: i64,
    failures: i64,
    latest_error: Option<String>,
    allowed_hosts: Option<Json<Vec<String>>>,
    version: i64,
    latest_version: i64,
    created_at: Time,
    updated_at: Time,
}

impl TryFrom<Row> for AppConfig {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: row.id,
            organization_id: row.organization_id,
            app_id: row.app_id,
            collection: row.collection.parse().map_err(|()| unknown("collection"))?,
            app_name: row.app_name,
            team_id: row.team_id,
            enabled: row.enabled,
            order: row.sort_order,
            config: row.config.0,
            secrets: row.secrets,
            web_token: row.web_token,
            delivered_until: row.delivered_until,
            delivered_count: row.delivered_count,
            due_at: row.due_at,
            attempt: row.attempt,
            tries: row.tries,
            failures: row.failures,
            latest_error: row.latest_error,
            allowed_hosts: row.allowed_hosts.map(|hosts| hosts.0),
            version: row.version,
            latest_version: row.latest_version,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

impl Row {
    fn bytes(&self) -> usize {
        limits::size_of_map(&self.config)
    }
}

fn all(rows: Vec<Row>) -> Result<Vec<AppConfig>> {
    rows.into_iter().map(AppConfig::try_from).collect()
}

macro_rules! seen {
    ($select:expr, $rest:literal) => {
        concat!($select, "WHERE ", within_reach!("c"), $rest)
    };
}

macro_rules! count {
    ($rest:literal) => {
        seen!(
            "SELECT count(*) FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id ",
            $rest
        )
    };
}

/// Of one app, oldest first.
pub(in super::super) async fn page(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    app: AppId,
    window: Window,
) -> Result<Page<AppConfig>> {
    const ROWS: &str = seen!(select!(""), "AND c.app_id = $3 ORDER BY c.id LIMIT $4 OFFSET $5");
    const COUNT: &str = count!("AND c.app_id = $3");
    let (teams, Window { limit, offset }) = (listed(teams), window);
    let rows = on!(db, conn => page::read(sqlx::query_as(ROWS)
        .bind(organization).bind(&teams).bind(app).bind(limit).bind(offset).fetch(conn), Row::bytes))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).bind(&teams).bind(app).fetch_one(conn))?;
    let items = all(rows)?;
    Ok(Page { items, count })
}

/// Those that are on, in their order.
pub(in super::super) async fn page_of_enabled(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    collection: Collection,
    window: Window,
) -> Result<Page<AppConfig>> {
    const ROWS: &str = seen!(
        select!(""),
        "AND c.enabled AND a.collection = $3 ORDER BY c.sort_order, c.id LIMIT $4 OFFSET $5"
    );
    const COUNT: &str = count!("AND c.enabled AND a.collection = $3");
    let (teams, name, Window { limit, offset }) = (listed(teams), collection.name(), window);
    let rows = on!(db, conn => page::read(sqlx::query_as(ROWS)
        .bind(organization).bind(&teams).bind(name).bind(limit).bind(offset).fetch(conn), Row::bytes))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).bind(&teams).bind(name).fetch_one(conn))?;
    let items = all(rows)?;
    Ok(Page { items, count })
}

/// Keeps those of every organization that uses the app from changing until the use case ends: workers write how far they got.
pub(in super::super) async fn lock_all_of_app(db: &mut WriteTx, app: AppId) -> Result<()> {
    let sql = db.pick(
        "SELECT id FROM pipeline_config WHERE app_id = $1",
        "SELECT id FROM pipeline_config WHERE app_id = $1 ORDER BY id FOR NO KEY UPDATE",
    );
    let _: Vec<AppConfigId> = on!(db, conn => sqlx::query_scalar(sql).bind(app).fetch_all(conn))?;
    Ok(())
}

/// Of every other organization that uses it, without what they tell the app, which may be large.
pub(in super::super) async fn of_others(db: &mut WriteTx, app: &App) -> Result<Vec<AppConfig>> {
    let sql = db.pick(
        select!(
            "'{}' AS config, NULL AS secrets",
            "WHERE c.app_id = $1 AND c.organization_id <> $2 ORDER BY c.id"
        ),
        select!(
            "'{}'::jsonb AS config, NULL::bytea AS secrets",
            "WHERE c.app_id = $1 AND c.organization_id <> $2 ORDER BY c.id"
        ),
    );
    all(on!(db, conn => sqlx::query_as(sql).bind(app.id).bind(app.organization_id).fetch_all(conn))?)
}

/// One configuration, or all that an organization has of an app.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Configs {
    app: AppId,
    organization: OrganizationId,
    first: AppConfigId,
    last: AppConfigId,
}

impl Configs {
    pub(in super::super) fn one(config: &AppConfig) -> Self {
        Self {
            app: config.app_id,
            organization: config.organization_id,
            first: config.id,
            last: config.id,
        }
    }

    /// Of the app's own organization.
    pub(in super::super) fn own(app: &App) -> Self {
        Self {
            app: app.id,
            organization: app.organization_id,
            first: AppConfigId(0),
            last: AppConfigId(i64::MAX),
        }
    }
}

/// Those configurations `c` that [`Configs`] names, which takes `$1` to `$4`: see [`bound`].
macro_rules! among {
    () => {
        "c.app_id = $1 AND c.organization_id = $2 AND c.id BETWEEN $3 AND $4"
    };
}

/// A query about configurations, with which they are.
macro_rules! bound {
    ($sql:expr, $configs:expr) => {
        sqlx::query($sql)
            .bind($configs.app)
            .bind($configs.organization)
            .bind($configs.first)
            .bind($configs.last)
    };
}

/// Gives them the version, and has those that are on wait for events, if the app takes any.
pub(in super::super) async fn settle(
    db: &mut WriteTx,
    configs: Configs,
    version: i64,
    takes_events: bool,
) -> Result<()> {
    const SQL: &str = concat!(
        "UPDATE pipeline_config AS c SET version = $5, due_at = CASE WHEN c.enabled AND $6 THEN COALESCE(c.due_at, $7) END WHERE ",
        among!(),
        " AND (c.version <> $5 OR (c.due_at IS NULL) = (c.enabled AND $6))"
    );
    let now = db.now;
    changed!(db, bound!(SQL, configs).bind(version).bind(takes_events).bind(now))?;
    Ok(())
}

/// Has a function called by the clock, from this time on, for each of them that is on.
pub(in super::super) async fn schedule(db: &mut WriteTx, configs: Configs, name: &str, due_at: Time) -> Result<()> {
    macro_rules! insert {
        ($id:literal) => {
            concat!(
                "INSERT INTO pipeline_task (id, organization_id, config_id, kind, name, payload, due_at, attempt, created_at) SELECT ",
                $id,
                ", c.organization_id, c.id, 'schedule', $5, 'null', $6, 0, $7 FROM pipeline_config c WHERE ",
                among!(),
                " AND c.enabled ON CONFLICT (config_id, name) WHERE kind = 'schedule' DO NOTHING"
            )
        };
    }
    let sql = db.pick(insert!("randomblob(16)"), insert!("gen_random_uuid()"));
    let now = db.now;
    changed!(db, bound!(sql, configs).bind(name).bind(due_at).bind(now))?;
    Ok(())
}

/// Ends what is called by the clock and is none of these functions, or belongs to one that is off.
pub(in super::super) async fn unschedule(db: &mut WriteTx, configs: Configs, names: &[&str]) -> Result<()> {
    const SQL: &str = concat!(
        "DELETE FROM pipeline_task WHERE kind = 'schedule' \
         AND config_id IN (SELECT c.id FROM pipeline_config c WHERE ",
        among!(),
        ") AND ($5 NOT LIKE '%,' || name || ',%' OR config_id IN (SELECT c.id FROM pipeline_config c WHERE ",
        among!(),
        " AND NOT c.enabled))"
    );
    changed!(db, bound!(SQL, configs).bind(listed(names)))?;
    Ok(())
}

/// The first configuration behind this one that has secrets, with these alone.
pub(in super::super) async fn next_with_secrets(
    db: &mut Session,
    organization: OrganizationId,
    app: AppId,
    after: AppConfigId,
) -> Result<Option<AppConfig>> {
    let sql = db.pick(
        select!(
            "'{}' AS config, c.secrets",
            "WHERE c.organization_id = $1 AND c.app_id = $2 AND c.id > $3 AND c.secrets IS NOT NULL ORDER BY c.id LIMIT 1"
        ),
        select!(
            "'{}'::jsonb AS config, c.secrets",
            "WHERE c.organization_id = $1 AND c.app_id = $2 AND c.id > $3 AND c.secrets IS NOT NULL ORDER BY c.id LIMIT 1"
        ),
    );
    let row: Option<Row> = on!(db, conn => sqlx::query_as(sql)
        .bind(organization).bind(app).bind(after).fetch_optional(conn))?;
    row.map(AppConfig::try_from).transpose()
}

/// Those of the app's own organization that may have a value of a field that becomes a secret, or is one no longer. Which secrets one has
/// is itself encrypted, and may be known.
pub(in super::super) async fn concerned(
    db: &mut WriteTx,
    app: &App,
    secrets: &SecretChange,
    known: &KnownSecrets,
) -> Result<Vec<AppConfig>> {
    if !secrets.is_any() {
        return Ok(Vec::new());
    }
    let sql = db.pick(
        select!(
            "WHERE c.app_id = $1 AND c.organization_id = $2 AND (($3 AND c.secrets IS NOT NULL \
             AND lower(hex(substr(c.secrets, 1, 28))) NOT IN (SELECT value FROM json_each($5))) \
             OR EXISTS (SELECT 1 FROM json_each(c.config) own JOIN json_each($4) added ON added.value = own.key)) ORDER BY c.id"
        ),
        select!(
            "WHERE c.app_id = $1 AND c.organization_id = $2 AND (($3 AND c.secrets IS NOT NULL \
             AND encode(substring(c.secrets FROM 1 FOR 28), 'hex') NOT IN (SELECT jsonb_array_elements_text($5))) \
             OR EXISTS (SELECT 1 FROM jsonb_object_keys(c.config) own JOIN jsonb_array_elements_text($4) added ON added = own)) \
             ORDER BY c.id"
        ),
    );
    all(on!(db, conn => sqlx::query_as(sql)
        .bind(app.id)
        .bind(app.organization_id)
        .bind(!secrets.removed.is_empty())
        .bind(Json(&secrets.added))
        .bind(Json(known.without(&secrets.removed)))
        .fetch_all(conn))?)
}

/// Others who change configurations of the organization wait. Workers, who only refer to it, do not.
pub(in super::super) async fn lock_organization(db: &mut WriteTx, id: OrganizationId) -> Result<()> {
    let sql = db.pick(
        "SELECT 1 FROM organization WHERE id = $1",
        "SELECT 1 FROM organization WHERE id = $1 FOR NO KEY UPDATE",
    );
    let _: Option<i32> = on!(db, conn => sqlx::query_scalar(sql).bind(id).fetch_optional(conn))?;
    Ok(())
}

/// What all of them take; see [`limits::config_size`].
pub(in super::super) async fn size_of_all(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM pipeline_config WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// Of all apps and teams.
pub(in super::super) async fn count(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_config WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// Of other organizations, for one app of this one, or any.
pub(in super::super) async fn count_of_others(
    db: &mut Session,
    organization: OrganizationId,
    app: Option<AppId>,
) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id \
        WHERE a.organization_id = $1 AND c.organization_id <> $1 AND ($2 IS NULL OR a.id = $2)";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).bind(app).fetch_one(conn))?)
}

pub(in super::super) async fn find(
    db: &mut Session,
    organization: OrganizationId,
    id: AppConfigId,
) -> Result<Option<AppConfig>> {
    const SQL: &str = select!("WHERE c.organization_id = $1 AND c.id = $2");
    let row: Option<Row> = on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?;
    row.map(AppConfig::try_from).transpose()
}

/// Whose it is, is for the caller to look at.
pub(in super::super) async fn any(db: &mut Session, id: AppConfigId) -> Result<Option<AppConfig>> {
    const SQL: &str = select!("WHERE c.id = $1");
    let row: Option<Row> = on!(db, conn => sqlx::query_as(SQL).bind(id).fetch_optional(conn))?;
    row.map(AppConfig::try_from).transpose()
}

pub(in super::super) async fn lock(db: &mut WriteTx, id: AppConfigId) -> Result<Option<AppConfig>> {
    let sql = db.pick(
        select!("WHERE c.id = $1"),
        select!("WHERE c.id = $1 FOR NO KEY UPDATE OF c"),
    );
    let row: Option<Row> = on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?;
    row.map(AppConfig::try_from).transpose()
}

#[derive(sqlx::FromRow)]
struct DueRow {
    id: AppConfigId,
    organization_id: OrganizationId,
    due_at: Time,
    team_id: TeamId,
    delivered_until: Time,
    delivered_count: i64,
}

/// Those whose time has come, behind `after`.
pub(in super::super) async fn due(db: &mut Session, now: Time, after: &DueAfter, limit: i64) -> Result<Vec<DueApp>> {
    const SQL: &str = "SELECT id, organization_id, team_id, due_at, delivered_until, delivered_count \
        FROM pipeline_config WHERE due_at <= $1 AND (organization_id, due_at, id) > ($2, $3, $4) \
        ORDER BY organization_id, due_at, id LIMIT $5";
    let rows: Vec<DueRow> = on!(db, conn => sqlx::query_as(SQL)
        .bind(now)
        .bind(after.organization)
        .bind(after.due_at)
        .bind(after.config)
        .bind(limit)
        .fetch_all(conn))?;
    let due = |row: DueRow| DueApp {
        config: row.id,
        organization: row.organization_id,
        due_at: row.due_at,
        team: row.team_id,
        place: Cursor {
            until: row.delivered_until,
            count: row.delivered_count,
        },
    };
    Ok(rows.into_iter().map(due).collect())
}

pub(in super::super) async fn insert(db: &mut WriteTx, config: &mut AppConfig) -> Result<()> {
    const SQL: &str = "INSERT INTO pipeline_config (organization_id, app_id, team_id, enabled, sort_order, config, \
        web_token, delivered_until, delivered_count, attempt, tries, failures, created_at, updated_at, version) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0, 0, 0, $9, $10, $11) RETURNING id";
    config.id = on!(db, conn => sqlx::query_scalar(SQL)
        .bind(config.organization_id)
        .bind(config.app_id)
        .bind(config.team_id)
        .bind(config.enabled)
        .bind(config.order)
        .bind(Json(&config.config))
        .bind(&config.web_token)
        .bind(config.delivered_until)
        .bind(config.created_at)
        .bind(config.updated_at)
        .bind(config.version)
        .fetch_one(conn))?;
    Ok(())
}

/// What it tells its app, and where that may go.
pub(in super::super) async fn save_values(db: &mut WriteTx, config: &AppConfig) -> Result<()> {
    const SQL: &str =
        "UPDATE pipeline_config SET config = $2, secrets = $3, allowed_hosts = $4, size = $5 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(config.id)
            .bind(Json(&config.config))
            .bind(&config.secrets)
            .bind(config.allowed_hosts.as_ref().map(Json))
            .bind(limits::config_size(config))
    )?;
    Ok(())
}

/// Everything but that, which may be large, and who holds it.
pub(in super::super) async fn save(db: &mut WriteTx, config: &AppConfig) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_config SET enabled = $2, sort_order = $3, delivered_until = $4, delivered_count = $5, \
        due_at = $6, attempt = $7, tries = $8, failures = $9, latest_error = $10, updated_at = $11, version = $12 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(config.id)
            .bind(config.enabled)
            .bind(config.order)
            .bind(config.delivered_until)
            .bind(config.delivered_count)
            .bind(config.due_at)
            .bind(config.attempt)
            .bind(config.tries)
            .bind(config.failures)
            .bind(&config.latest_error)
            .bind(config.updated_at)
            .bind(config.version)
    )?;
    Ok(())
}

/// Who holds it from now on.
pub(in super::super) async fn hold(db: &mut WriteTx, id: AppConfigId, worker: Option<WorkerId>) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_config SET worker = $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(worker))?;
    Ok(())
}

/// A sign of life, and how far it has got. False: it is no longer held.
pub(in super::super) async fn keep(
    db: &mut WriteTx,
    id: AppConfigId,
    worker: WorkerId,
    attempt: i64,
    place: &Cursor,
    until: Time,
) -> Result<bool> {
    const SQL: &str = "UPDATE pipeline_config SET delivered_until = $4, delivered_count = $5, due_at = $6 \
        WHERE id = $1 AND worker = $2 AND attempt = $3 AND enabled";
    let kept = changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(worker)
            .bind(attempt)
            .bind(place.until)
            .bind(place.count)
            .bind(until)
    )?;
    Ok(kept > 0)
}

pub(in super::super) async fn delete(db: &mut WriteTx, config: &AppConfig) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_config WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(config.organization_id).bind(config.id))?;
    Ok(())
}

/// How far ahead of time its jobs are; null if it never had one.
pub(in super::super) async fn lock_jobs_until(db: &mut WriteTx, id: AppConfigId) -> Result<Option<Time>> {
    let sql = db.pick(
        "SELECT jobs_until FROM pipeline_config WHERE id = $1",
        "SELECT jobs_until FROM pipeline_config WHERE id = $1 FOR NO KEY UPDATE",
    );
    let found: Option<Option<Time>> = on!(db, conn => sqlx::query_scalar(sql).bind(id).fetch_optional(conn))?;
    Ok(found.flatten())
}

pub(in super::super) async fn save_jobs_until(db: &mut WriteTx, id: AppConfigId, until: Time) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_config SET jobs_until = $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(until))?;
    Ok(())
}
