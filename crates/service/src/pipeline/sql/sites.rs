//! Whose it is, is not asked: who has the token may load it. Scripts stand by themselves, so that nobody reads what no page is given.

use crate::clock::Time;
use crate::db::{Session, on};
use crate::error::Result;
use crate::id::{AppConfigId, TeamId};
use crate::pipeline::types::{App, Collection, Script};

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

/// A script of the code that an app has now, if it has it, with the checksum over the files that it was made from.
pub(in super::super) async fn script(
    db: &mut Session,
    app: &App,
    script: Script,
) -> Result<Option<(Option<String>, String)>> {
    const SQL: &str = "SELECT v.sha256, s.code FROM pipeline_script s \
        JOIN pipeline_version v ON v.app_id = s.app_id AND v.number = s.number \
        WHERE s.app_id = $1 AND s.number = $2 AND s.name = $3";
    Ok(on!(db, conn => sqlx::query_as(SQL)
        .bind(app.id).bind(app.version).bind(script.name()).fetch_optional(conn))?)
}
