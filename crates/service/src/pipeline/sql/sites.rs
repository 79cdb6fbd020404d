//! Whose it is, is not asked: who has the token may load it. Scripts stand in what a version offers, and the database takes
//! them out, so that nobody reads what no page is given.

use crate::clock::Time;
use crate::db::{Session, on};
use crate::error::Result;
use crate::id::{AppConfigId, TeamId};
use crate::pipeline::sites::Script;
use crate::pipeline::{App, Collection};

#[derive(sqlx::FromRow)]
pub(in super::super) struct Loaded {
    pub(in super::super) id: AppConfigId,
    pub(in super::super) web_token: String,
    pub(in super::super) updated_at: Time,
    pub(in super::super) version: i64,
    pub(in super::super) has_site: bool,
}

/// The frontend apps that are on for a team, in their order.
pub(in super::super) async fn of_team(db: &mut Session, team: TeamId) -> Result<Vec<Loaded>> {
    // Not a condition: a planner could look for it in the code of all apps before it looks for those of the team.
    macro_rules! loaded {
        ($has_site:literal) => {
            concat!(
                "SELECT c.id, c.web_token, c.updated_at, c.version, ",
                $has_site,
                " AS has_site FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id \
                 JOIN pipeline_version v ON v.app_id = a.id AND v.number = c.version \
                 WHERE c.team_id = $1 AND c.enabled AND a.collection = $2 ORDER BY c.sort_order, c.id"
            )
        };
    }
    let sql = db.pick(
        loaded!("json_type(v.offers, '$.site') IS 'text'"),
        loaded!("(v.offers::json ->> 'site') IS NOT NULL"),
    );
    let collection = Collection::FrontendApps.name();
    Ok(on!(db, conn => sqlx::query_as(sql).bind(team).bind(collection).fetch_all(conn))?)
}

/// A script of the code that an app has now, if it has it.
pub(in super::super) async fn script(db: &mut Session, app: &App, script: Script) -> Result<Option<String>> {
    let sql = db.pick(
        "SELECT json_extract(offers, '$.' || $3) FROM pipeline_version WHERE app_id = $1 AND number = $2",
        "SELECT offers::json ->> CAST($3 AS TEXT) FROM pipeline_version WHERE app_id = $1 AND number = $2",
    );
    let found: Option<Option<String>> = on!(db, conn => sqlx::query_scalar(sql)
        .bind(app.id).bind(app.version).bind(script.name()).fetch_optional(conn))?;
    Ok(found.flatten())
}
