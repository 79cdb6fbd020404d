//! Whose it is, is not asked: who has the token may load it. Scripts stand by themselves, so that nobody reads what no page is given.

use serde::Deserialize;
use serde_json::{Map, Value};
use sqlx::types::Json;

use super::versions;
use crate::clock::Time;
use crate::db::{Session, on};
use crate::error::Result;
use crate::id::{AppConfigId, AppId, OrganizationId, TeamId};
use crate::pipeline::types::{Collection, Script};

#[derive(sqlx::FromRow)]
pub(in super::super) struct Loaded {
    pub(in super::super) id: AppConfigId,
    pub(in super::super) web_token: String,
    updated_at: Time,
    app_updated_at: Time,
    pub(in super::super) version: i64,
}

impl Loaded {
    /// Which values pages are given is said by the app.
    pub(in super::super) fn changed_at(&self) -> Time {
        self.updated_at.max(self.app_updated_at)
    }
}

/// The frontend apps that are on for a team and have something for pages, in their order.
pub(in super::super) async fn of_team(db: &mut Session, team: TeamId) -> Result<Vec<Loaded>> {
    const SQL: &str = "SELECT c.id, c.web_token, c.updated_at, a.updated_at AS app_updated_at, c.version \
        FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id \
        WHERE c.team_id = $1 AND c.enabled AND a.collection = $2 AND EXISTS (SELECT 1 FROM pipeline_script s \
        WHERE s.app_id = c.app_id AND s.number = c.version AND s.name = $3) ORDER BY c.sort_order, c.id";
    let (collection, script) = (Collection::FrontendApps.name(), Script::Site.name());
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(team).bind(collection).bind(script).fetch_all(conn))?)
}

/// How many frontend apps are on for a team, whatever they have.
pub(in super::super) async fn count(db: &mut Session, team: TeamId) -> Result<i64> {
    const SQL: &str = "SELECT count(*) FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id \
        WHERE c.team_id = $1 AND c.enabled AND a.collection = $2";
    let collection = Collection::FrontendApps.name();
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(team).bind(collection).fetch_one(conn))?)
}

/// Which code a configuration has pages run. Many may wait for a script with one of these, so nothing in it is large.
#[derive(sqlx::FromRow)]
pub(in super::super) struct Served {
    id: AppConfigId,
    pub(in super::super) organization_id: OrganizationId,
    pub(in super::super) app_id: AppId,
    pub(in super::super) version: i64,
    pub(in super::super) web_token: String,
    /// Over the files of that version. None: there is no code, or none was kept.
    pub(in super::super) sha256: Option<String>,
}

/// None: the configuration was not found, or is disabled.
pub(in super::super) async fn served(db: &mut Session, id: AppConfigId) -> Result<Option<Served>> {
    const SQL: &str = "SELECT c.id, c.organization_id, c.app_id, c.version, c.web_token, v.sha256 FROM pipeline_config c \
        LEFT JOIN pipeline_version v ON v.app_id = c.app_id AND v.number = c.version WHERE c.id = $1 AND c.enabled";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(id).fetch_optional(conn))?)
}

/// A script of the code that is served, if it has it, with the checksum over the files that it was made from.
pub(in super::super) async fn script(
    db: &mut Session,
    served: &Served,
    script: Script,
) -> Result<Option<(Option<String>, String)>> {
    const SQL: &str = "SELECT v.sha256, s.code FROM pipeline_script s \
        JOIN pipeline_version v ON v.app_id = s.app_id AND v.number = s.number \
        WHERE s.app_id = $1 AND s.number = $2 AND s.name = $3";
    Ok(on!(db, conn => sqlx::query_as(SQL)
        .bind(served.app_id).bind(served.version).bind(script.name()).fetch_optional(conn))?)
}

#[derive(sqlx::FromRow)]
struct ValuesRow {
    #[sqlx(json)]
    config: Map<String, Value>,
    config_schema: Option<Json<Value>>,
    manifest: Option<String>,
}

/// What is needed of what was said of a version. The rest is passed over.
#[derive(Deserialize)]
struct VersionSchema {
    config_schema: Value,
}

/// What a configuration tells its app, and the schema that it was approved with. None: it is off, or runs another version by now.
pub(in super::super) async fn values(db: &mut Session, served: &Served) -> Result<Option<(Map<String, Value>, Value)>> {
    const SQL: &str = "SELECT c.config, \
        CASE WHEN a.version = c.version OR v.number IS NULL THEN a.config_schema END AS config_schema, \
        CASE WHEN a.version <> c.version THEN COALESCE(v.manifest, v.metadata) END AS manifest \
        FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id \
        LEFT JOIN pipeline_version v ON v.app_id = c.app_id AND v.number = c.version \
        WHERE c.id = $1 AND c.version = $2 AND c.enabled";
    let row: Option<ValuesRow> =
        on!(db, conn => sqlx::query_as(SQL).bind(served.id).bind(served.version).fetch_optional(conn))?;
    let Some(row) = row else {
        return Ok(None);
    };
    let schema = match row.manifest {
        Some(manifest) => versions::read::<VersionSchema>(&manifest)?.config_schema,
        None => row.config_schema.map(|Json(schema)| schema).unwrap_or_default(),
    };
    Ok(Some((row.config, schema)))
}
