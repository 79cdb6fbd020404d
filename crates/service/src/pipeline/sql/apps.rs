//! What a caller asks for names the organization; apps that are there for all are found from every one.

use serde_json::Value;
use sqlx::types::Json;

use super::unknown;
use crate::clock::Time;
use crate::db::{Session, WriteTx, changed, on};
use crate::error::{Error, Result};
use crate::id::{AppId, OrganizationId};
use crate::page::{Page, Window};
use crate::pipeline::{App, AppName, Collection, Derived, limits};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, a.organization_id, o.name AS organization_name, a.collection, a.plugin_type, a.name, \
             a.description, a.url, a.private_token, a.icon, a.config_schema, a.tag, a.latest_tag, a.is_global, \
             a.capabilities, a.metrics, a.public_jobs, a.hosts, a.written, a.version, a.next_check_at, a.created_at, a.updated_at \
             FROM pipeline_app a JOIN organization o ON o.id = a.organization_id ",
            $rest
        )
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    id: AppId,
    organization_id: OrganizationId,
    organization_name: String,
    collection: String,
    plugin_type: String,
    name: AppName,
    description: String,
    url: Option<String>,
    private_token: Option<Vec<u8>>,
    icon: Option<String>,
    config_schema: Json<Value>,
    tag: Option<String>,
    latest_tag: Option<String>,
    is_global: bool,
    capabilities: Json<Value>,
    metrics: Json<Value>,
    public_jobs: Json<Value>,
    hosts: Option<Json<Vec<String>>>,
    written: Json<Vec<Derived>>,
    version: i64,
    next_check_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
}

impl TryFrom<Row> for App {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        Ok(Self {
            id: row.id,
            organization_id: row.organization_id,
            organization_name: row.organization_name,
            collection: row.collection.parse().map_err(|()| unknown("collection"))?,
            plugin_type: row.plugin_type.parse().map_err(|()| unknown("plugin_type"))?,
            name: row.name,
            description: row.description,
            url: row.url,
            private_token: row.private_token,
            icon: row.icon,
            config_schema: row.config_schema.0,
            tag: row.tag,
            latest_tag: row.latest_tag,
            is_global: row.is_global,
            capabilities: row.capabilities.0,
            metrics: row.metrics.0,
            public_jobs: row.public_jobs.0,
            hosts: row.hosts.map(|hosts| hosts.0),
            written: row.written.0,
            version: row.version,
            next_check_at: row.next_check_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

fn all(rows: Vec<Row>) -> Result<Vec<App>> {
    rows.into_iter().map(App::try_from).collect()
}

pub(in super::super) async fn page(
    db: &mut Session,
    organization: OrganizationId,
    collection: Collection,
    window: Window,
) -> Result<Page<App>> {
    const ROWS: &str = select!(
        "WHERE (a.organization_id = $1 OR a.is_global) AND a.collection = $2 ORDER BY a.id DESC LIMIT $3 OFFSET $4"
    );
    const COUNT: &str =
        "SELECT count(*) FROM pipeline_app WHERE (organization_id = $1 OR is_global) AND collection = $2";
    let (name, Window { limit, offset }) = (collection.name(), window);
    let rows = on!(db, conn => sqlx::query_as(ROWS)
        .bind(organization).bind(name).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).bind(name).fetch_one(conn))?;
    Ok(Page {
        items: all(rows)?,
        count,
    })
}

/// Those that no team of the organization has enabled.
pub(in super::super) async fn page_of_unused(
    db: &mut Session,
    organization: OrganizationId,
    collection: Collection,
    window: Window,
) -> Result<Page<App>> {
    macro_rules! unused {
        () => {
            "WHERE (a.organization_id = $1 OR a.is_global) AND a.collection = $2 AND NOT EXISTS (SELECT 1 \
             FROM pipeline_config c WHERE c.app_id = a.id AND c.organization_id = $1 AND c.enabled) "
        };
    }
    const ROWS: &str = concat!(select!(""), unused!(), "ORDER BY a.id DESC LIMIT $3 OFFSET $4");
    const COUNT: &str = concat!("SELECT count(*) FROM pipeline_app a ", unused!());
    let (name, Window { limit, offset }) = (collection.name(), window);
    let rows = on!(db, conn => sqlx::query_as(ROWS)
        .bind(organization).bind(name).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).bind(name).fetch_one(conn))?;
    Ok(Page {
        items: all(rows)?,
        count,
    })
}

/// How many belong to the organization, whatever the collection.
pub(in super::super) async fn count_own(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_app WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// What all of them take; see [`limits::app_size`].
pub(in super::super) async fn size_of_all(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM pipeline_app WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// Those of the organization that something newer is known of, whatever the collection.
pub(in super::super) async fn page_of_outdated(
    db: &mut Session,
    organization: OrganizationId,
    window: Window,
) -> Result<Page<App>> {
    macro_rules! outdated {
        () => {
            "WHERE a.organization_id = $1 AND a.latest_tag <> COALESCE(a.tag, '') "
        };
    }
    const ROWS: &str = concat!(select!(""), outdated!(), "ORDER BY a.id DESC LIMIT $2 OFFSET $3");
    const COUNT: &str = concat!("SELECT count(*) FROM pipeline_app a ", outdated!());
    let Window { limit, offset } = window;
    let rows = on!(db, conn => sqlx::query_as(ROWS)
        .bind(organization).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).fetch_one(conn))?;
    Ok(Page {
        items: all(rows)?,
        count,
    })
}

pub(in super::super) async fn find(db: &mut Session, organization: OrganizationId, id: AppId) -> Result<Option<App>> {
    const SQL: &str = select!("WHERE (a.organization_id = $1 OR a.is_global) AND a.id = $2");
    let row: Option<Row> = on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?;
    row.map(App::try_from).transpose()
}

/// Whoever it belongs to: for those who work for everybody.
pub(in super::super) async fn any(db: &mut Session, id: AppId) -> Result<Option<App>> {
    const SQL: &str = select!("WHERE a.id = $1");
    let row: Option<Row> = on!(db, conn => sqlx::query_as(SQL).bind(id).fetch_optional(conn))?;
    row.map(App::try_from).transpose()
}

pub(in super::super) async fn lock(db: &mut WriteTx, id: AppId) -> Result<Option<App>> {
    let sql = db.pick(
        select!("WHERE a.id = $1"),
        select!("WHERE a.id = $1 FOR NO KEY UPDATE OF a"),
    );
    let row: Option<Row> = on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?;
    row.map(App::try_from).transpose()
}

pub(in super::super) async fn is_any_to_check(db: &mut Session, now: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM pipeline_app WHERE next_check_at <= $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(now).fetch_optional(conn))?;
    Ok(found.is_some())
}

pub(in super::super) async fn lock_to_check(db: &mut WriteTx) -> Result<Option<App>> {
    let sql = db.pick(
        select!("WHERE a.next_check_at <= $1 ORDER BY a.next_check_at LIMIT 1"),
        select!("WHERE a.next_check_at <= $1 ORDER BY a.next_check_at LIMIT 1 FOR NO KEY UPDATE OF a SKIP LOCKED"),
    );
    let now = db.now;
    let row: Option<Row> = on!(db, conn => sqlx::query_as(sql).bind(now).fetch_optional(conn))?;
    row.map(App::try_from).transpose()
}

pub(in super::super) async fn insert(db: &mut WriteTx, app: &mut App) -> Result<()> {
    const SQL: &str = "INSERT INTO pipeline_app (organization_id, collection, plugin_type, name, description, url, \
        private_token, icon, config_schema, tag, latest_tag, is_global, capabilities, metrics, public_jobs, written, \
        version, next_check_at, created_at, updated_at, hosts, size) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22) RETURNING id";
    app.id = on!(db, conn => sqlx::query_scalar(SQL)
        .bind(app.organization_id)
        .bind(app.collection.name())
        .bind(app.plugin_type.as_str())
        .bind(&app.name)
        .bind(&app.description)
        .bind(&app.url)
        .bind(&app.private_token)
        .bind(&app.icon)
        .bind(Json(&app.config_schema))
        .bind(&app.tag)
        .bind(&app.latest_tag)
        .bind(app.is_global)
        .bind(Json(&app.capabilities))
        .bind(Json(&app.metrics))
        .bind(Json(&app.public_jobs))
        .bind(Json(&app.written))
        .bind(app.version)
        .bind(app.next_check_at)
        .bind(app.created_at)
        .bind(app.updated_at)
        .bind(app.hosts.as_ref().map(Json))
        .bind(limits::app_size(app))
        .fetch_one(conn))?;
    Ok(())
}

pub(in super::super) async fn save(db: &mut WriteTx, app: &App) -> Result<()> {
    const SQL: &str = "UPDATE pipeline_app SET plugin_type = $2, name = $3, description = $4, private_token = $5, icon = $6, \
        config_schema = $7, tag = $8, latest_tag = $9, is_global = $10, capabilities = $11, metrics = $12, \
        public_jobs = $13, written = $14, version = $15, next_check_at = $16, updated_at = $17, hosts = $18, url = $19, \
        size = $20 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL)
            .bind(app.id)
            .bind(app.plugin_type.as_str())
            .bind(&app.name)
            .bind(&app.description)
            .bind(&app.private_token)
            .bind(&app.icon)
            .bind(Json(&app.config_schema))
            .bind(&app.tag)
            .bind(&app.latest_tag)
            .bind(app.is_global)
            .bind(Json(&app.capabilities))
            .bind(Json(&app.metrics))
            .bind(Json(&app.public_jobs))
            .bind(Json(&app.written))
            .bind(app.version)
            .bind(app.next_check_at)
            .bind(app.updated_at)
            .bind(app.hosts.as_ref().map(Json))
            .bind(&app.url)
            .bind(limits::app_size(app))
    )?;
    Ok(())
}

pub(in super::super) async fn delete(db: &mut WriteTx, app: &App) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_app WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(app.organization_id).bind(app.id))?;
    Ok(())
}
