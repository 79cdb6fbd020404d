//! What a caller asks for names the organization; apps that are there for all are found from every one.

use sqlx::types::Json;

use crate::clock::Time;
use crate::db::columns::columns;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{AppId, OrganizationId};
use crate::page::{Page, Window};
use crate::pipeline::sizes;
use crate::pipeline::types::{App, Collection};
use crate::transaction::WriteTx;

/// What an app has from the start, in the order of [`bind_fixed`].
macro_rules! fixed {
    ($table:literal) => {
        columns!($table => organization_id, collection, created_at)
    };
}

/// Binds what [`fixed`] names.
macro_rules! bind_fixed {
    ($query:expr, $bind:ident, $app:expr) => {
        $query
            .$bind($app.organization_id)
            .$bind($app.collection.name())
            .$bind($app.created_at)
    };
}

/// What changes, in the order of [`bind_changing`].
macro_rules! changing {
    ($table:literal) => {
        columns!(
            $table => plugin_type, name, description, url, private_token, icon, config_schema, tag, latest_tag, is_global,
            capabilities, metrics, public_jobs, hosts, overrides, version, next_check_at, updated_at
        )
    };
}

/// Binds what [`changing`] names, and the size.
macro_rules! bind_changing {
    ($query:expr, $bind:ident, $app:expr) => {
        $query
            .$bind($app.plugin_type.as_str())
            .$bind(&$app.name)
            .$bind(&$app.description)
            .$bind(&$app.url)
            .$bind(&$app.private_token)
            .$bind(&$app.icon)
            .$bind(Json(&$app.config_schema))
            .$bind(&$app.tag)
            .$bind(&$app.latest_tag)
            .$bind($app.is_global)
            .$bind(Json(&$app.capabilities))
            .$bind(Json(&$app.metrics))
            .$bind(Json(&$app.public_jobs))
            .$bind($app.hosts.as_ref().map(Json))
            .$bind(Json(&$app.overrides))
            .$bind($app.version)
            .$bind($app.next_check_at)
            .$bind($app.updated_at)
            .$bind(sizes::app_size($app))
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, o.name AS organization_name, ",
            fixed!("a."),
            ", ",
            changing!("a."),
            " FROM pipeline_app a JOIN organization o ON o.id = a.organization_id ",
            $rest
        )
    };
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
    let items = on!(db, conn => sqlx::query_as(ROWS)
        .bind(organization).bind(name).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).bind(name).fetch_one(conn))?;
    Ok(Page { items, count })
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
    let items = on!(db, conn => sqlx::query_as(ROWS)
        .bind(organization).bind(name).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).bind(name).fetch_one(conn))?;
    Ok(Page { items, count })
}

/// How many belong to the organization, whatever the collection.
pub(in super::super) async fn count_own(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_app WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// What all of them take; see [`sizes::app_size`].
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
    let items = on!(db, conn => sqlx::query_as(ROWS)
        .bind(organization).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(COUNT).bind(organization).fetch_one(conn))?;
    Ok(Page { items, count })
}

pub(in super::super) async fn find(db: &mut Session, organization: OrganizationId, id: AppId) -> Result<Option<App>> {
    const SQL: &str = select!("WHERE (a.organization_id = $1 OR a.is_global) AND a.id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?)
}

/// Whoever it belongs to: for those who work for everybody.
pub(in super::super) async fn any(db: &mut Session, id: AppId) -> Result<Option<App>> {
    const SQL: &str = select!("WHERE a.id = $1");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(id).fetch_optional(conn))?)
}

pub(in super::super) async fn lock(db: &mut WriteTx, id: AppId) -> Result<Option<App>> {
    let sql = db.pick(
        select!("WHERE a.id = $1"),
        select!("WHERE a.id = $1 FOR NO KEY UPDATE OF a"),
    );
    Ok(on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?)
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
    Ok(on!(db, conn => sqlx::query_as(sql).bind(now).fetch_optional(conn))?)
}

pub(in super::super) async fn insert(db: &mut WriteTx, app: &mut App) -> Result<()> {
    const SQL: &str = concat!(
        "INSERT INTO pipeline_app (",
        fixed!(""),
        ", ",
        changing!(""),
        ", size) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, \
         $22) RETURNING id"
    );
    app.id =
        on!(db, conn => bind_changing!(bind_fixed!(sqlx::query_scalar(SQL), bind, app), bind, app).fetch_one(conn))?;
    Ok(())
}

pub(in super::super) async fn save(db: &mut WriteTx, app: &App) -> Result<()> {
    const SQL: &str = concat!(
        "UPDATE pipeline_app SET (",
        changing!(""),
        ", size) = ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) WHERE id = $1"
    );
    changed!(db, bind_changing!(sqlx::query(SQL).bind(app.id), bind, app))?;
    Ok(())
}

pub(in super::super) async fn delete(db: &mut WriteTx, app: &App) -> Result<()> {
    const SQL: &str = "DELETE FROM pipeline_app WHERE organization_id = $1 AND id = $2";
    changed!(db, sqlx::query(SQL).bind(app.organization_id).bind(app.id))?;
    Ok(())
}
