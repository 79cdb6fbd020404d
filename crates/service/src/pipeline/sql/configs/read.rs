//! Configurations one by one, in pages, and counted.

use sqlx::types::Json;

use super::row::select;
use crate::db::{Session, on, within_reach};
use crate::error::Result;
use crate::id::{AppConfigId, AppId, OrganizationId, TeamId};
use crate::page::{self, Page, Window};
use crate::pipeline::sizes;
use crate::pipeline::types::{AppConfig, Collection};
use crate::transaction::WriteTx;

macro_rules! seen {
    ($db:ident, $select:expr, $rest:literal) => {
        $db.pick(
            concat!($select, "WHERE ", within_reach!(sqlite, "c"), $rest),
            concat!($select, "WHERE ", within_reach!(postgres, "c"), $rest),
        )
    };
}

macro_rules! count {
    ($db:ident, $rest:literal) => {
        seen!(
            $db,
            "SELECT count(*) FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id ",
            $rest
        )
    };
}

/// What it takes on a page.
fn bytes(config: &AppConfig) -> usize {
    sizes::size_of_map(&config.config)
}

/// Of one app, oldest first.
pub(in crate::pipeline) async fn page(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    app: AppId,
    window: Window,
) -> Result<Page<AppConfig>> {
    let rows = seen!(db, select!(""), "AND c.app_id = $3 ORDER BY c.id LIMIT $4 OFFSET $5");
    let count = count!(db, "AND c.app_id = $3");
    let (teams, Window { limit, offset }) = (Json(teams), window);
    let items = on!(db, conn => page::read(sqlx::query_as(rows)
        .bind(organization).bind(teams).bind(app).bind(limit).bind(offset).fetch(conn), bytes))?;
    let count = on!(db, conn => sqlx::query_scalar(count).bind(organization).bind(teams).bind(app).fetch_one(conn))?;
    Ok(Page { items, count })
}

/// Those that are on, in their order.
pub(in crate::pipeline) async fn page_of_enabled(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    collection: Collection,
    window: Window,
) -> Result<Page<AppConfig>> {
    let rows = seen!(
        db,
        select!(""),
        "AND c.enabled AND a.collection = $3 ORDER BY c.sort_order, c.id LIMIT $4 OFFSET $5"
    );
    let count = count!(db, "AND c.enabled AND a.collection = $3");
    let (teams, name, Window { limit, offset }) = (Json(teams), collection.name(), window);
    let items = on!(db, conn => page::read(sqlx::query_as(rows)
        .bind(organization).bind(teams).bind(name).bind(limit).bind(offset).fetch(conn), bytes))?;
    let count = on!(db, conn => sqlx::query_scalar(count).bind(organization).bind(teams).bind(name).fetch_one(conn))?;
    Ok(Page { items, count })
}

/// Others who change configurations of the organization wait. Workers, who only refer to it, do not.
pub(in crate::pipeline) async fn lock_organization(db: &mut WriteTx, id: OrganizationId) -> Result<()> {
    let sql = db.pick(
        "SELECT 1 FROM organization WHERE id = $1",
        "SELECT 1 FROM organization WHERE id = $1 FOR NO KEY UPDATE",
    );
    let _: Option<i32> = on!(db, conn => sqlx::query_scalar(sql).bind(id).fetch_optional(conn))?;
    Ok(())
}

/// What all of them take; see [`sizes::config_size`].
pub(in crate::pipeline) async fn size_of_all(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM pipeline_config WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// Of all apps and teams.
pub(in crate::pipeline) async fn count(db: &mut Session, organization: OrganizationId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_config WHERE organization_id = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_one(conn))?)
}

/// Of other organizations, for one app of this one, or any.
pub(in crate::pipeline) async fn count_of_others(
    db: &mut Session,
    organization: OrganizationId,
    app: Option<AppId>,
) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id \
        WHERE a.organization_id = $1 AND c.organization_id <> $1 AND ($2 IS NULL OR a.id = $2)";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(organization).bind(app).fetch_one(conn))?)
}

pub(in crate::pipeline) async fn find(
    db: &mut Session,
    organization: OrganizationId,
    id: AppConfigId,
) -> Result<Option<AppConfig>> {
    const SQL: &str = select!("WHERE c.organization_id = $1 AND c.id = $2");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(organization).bind(id).fetch_optional(conn))?)
}

/// Whose it is, is for the caller to look at.
pub(in crate::pipeline) async fn any(db: &mut Session, id: AppConfigId) -> Result<Option<AppConfig>> {
    const SQL: &str = select!("WHERE c.id = $1");
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(id).fetch_optional(conn))?)
}

pub(in crate::pipeline) async fn lock(db: &mut WriteTx, id: AppConfigId) -> Result<Option<AppConfig>> {
    let sql = db.pick(
        select!("WHERE c.id = $1"),
        select!("WHERE c.id = $1 FOR NO KEY UPDATE OF c"),
    );
    Ok(on!(db, conn => sqlx::query_as(sql).bind(id).fetch_optional(conn))?)
}
