//! Configurations without what the apps are told: values and attachments may be large. Every statement names the
//! organization, and the teams that the caller may see.

use sqlx::types::Json;

use crate::db::{Session, on, within_reach};
use crate::error::Result;
use crate::id::{AppId, OrganizationId, TeamId};
use crate::page::{Page, Window};
use crate::pipeline::types::{AppUse, MAX_FAILURES, MAX_STARTS, UseCount};

macro_rules! text {
    ($database:ident, $select:literal, $rest:expr) => {
        concat!(
            $select,
            " FROM pipeline_config c JOIN pipeline_app a ON a.id = c.app_id JOIN team t ON t.id = c.team_id WHERE ",
            within_reach!($database, "c"),
            $rest
        )
    };
}

macro_rules! uses {
    ($db:ident, $select:literal, $rest:literal) => {
        $db.pick(text!(sqlite, $select, $rest), text!(postgres, $select, $rest))
    };
}

macro_rules! rows {
    ($db:ident, $rest:literal) => {
        uses!(
            $db,
            "SELECT c.id, c.app_id, a.collection, a.name AS app_name, t.name AS team_name, c.enabled, c.sort_order, \
             c.latest_error, c.updated_at",
            $rest
        )
    };
}

/// Oldest first.
pub(in super::super) async fn of_app(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    app: AppId,
    window: Window,
) -> Result<Page<AppUse>> {
    let rows = rows!(db, "AND c.app_id = $3 ORDER BY c.id LIMIT $4 OFFSET $5");
    let count = uses!(db, "SELECT count(*)", "AND c.app_id = $3");
    let (teams, Window { limit, offset }) = (Json(teams), window);
    let items = on!(db, conn => sqlx::query_as(rows)
        .bind(organization).bind(teams).bind(app).bind(limit).bind(offset).fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(count).bind(organization).bind(teams).bind(app).fetch_one(conn))?;
    Ok(Page { items, count })
}

/// Those that failed so often that they were disabled, the latest first. Whoever enables or disables one by hand begins
/// to count again, so the counts tell who it was.
pub(in super::super) async fn given_up(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    window: Window,
) -> Result<Page<AppUse>> {
    let rows = rows!(
        db,
        "AND c.enabled = FALSE AND (c.failures >= $3 OR c.tries >= $4) \
         ORDER BY c.updated_at DESC, c.id DESC LIMIT $5 OFFSET $6"
    );
    let count = uses!(
        db,
        "SELECT count(*)",
        "AND c.enabled = FALSE AND (c.failures >= $3 OR c.tries >= $4)"
    );
    let (teams, Window { limit, offset }) = (Json(teams), window);
    let items = on!(db, conn => sqlx::query_as(rows)
        .bind(organization).bind(teams).bind(MAX_FAILURES).bind(MAX_STARTS).bind(limit).bind(offset)
        .fetch_all(conn))?;
    let count = on!(db, conn => sqlx::query_scalar(count)
        .bind(organization).bind(teams).bind(MAX_FAILURES).bind(MAX_STARTS).fetch_one(conn))?;
    Ok(Page { items, count })
}

/// How many there are of each of these apps that is used at all.
pub(in super::super) async fn counts(
    db: &mut Session,
    organization: OrganizationId,
    teams: &[TeamId],
    apps: &[AppId],
) -> Result<Vec<UseCount>> {
    macro_rules! counted {
        ($database:ident, $apps:literal) => {
            text!(
                $database,
                "SELECT c.app_id AS app, count(*) FILTER (WHERE c.enabled) AS enabled, count(c.latest_error) AS troubled",
                concat!("AND c.app_id IN (SELECT ", $apps, ") GROUP BY c.app_id")
            )
        };
    }
    let sql = db.pick(
        counted!(sqlite, "value FROM json_each($3)"),
        counted!(postgres, "CAST(jsonb_array_elements_text($3) AS BIGINT)"),
    );
    let (teams, apps) = (Json(teams), Json(apps));
    Ok(on!(db, conn => sqlx::query_as(sql).bind(organization).bind(teams).bind(apps).fetch_all(conn))?)
}
