//! The configurations of one app, when its code changes.

use sqlx::types::Json;

use super::row::{select, select_with};
use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{AppConfigId, AppId, OrganizationId};
use crate::pipeline::schema::{KnownSecrets, SecretChange};
use crate::pipeline::types::{App, AppConfig};
use crate::transaction::WriteTx;

/// Keeps those of every organization that uses the app from changing until the use case ends: workers write how far they got.
pub(in crate::pipeline) async fn lock_all_of_app(db: &mut WriteTx, app: AppId) -> Result<()> {
    let sql = db.pick(
        "SELECT id FROM pipeline_config WHERE app_id = $1",
        "SELECT id FROM pipeline_config WHERE app_id = $1 ORDER BY id FOR NO KEY UPDATE",
    );
    let _: Vec<AppConfigId> = on!(db, conn => sqlx::query_scalar(sql).bind(app).fetch_all(conn))?;
    Ok(())
}

/// Of every other organization that uses it, without what they tell the app, which may be large.
pub(in crate::pipeline) async fn of_others(db: &mut WriteTx, app: &App) -> Result<Vec<AppConfig>> {
    let sql = db.pick(
        select_with!(
            "'{}' AS config, NULL AS secrets",
            "WHERE c.app_id = $1 AND c.organization_id <> $2 ORDER BY c.id"
        ),
        select_with!(
            "'{}'::jsonb AS config, NULL::bytea AS secrets",
            "WHERE c.app_id = $1 AND c.organization_id <> $2 ORDER BY c.id"
        ),
    );
    Ok(on!(db, conn => sqlx::query_as(sql).bind(app.id).bind(app.organization_id).fetch_all(conn))?)
}

/// One configuration, or all that an organization has of an app.
#[derive(Debug, Clone, Copy)]
pub(in crate::pipeline) struct Configs {
    app: AppId,
    organization: OrganizationId,
    first: AppConfigId,
    last: AppConfigId,
}

impl Configs {
    pub(in crate::pipeline) fn one(config: &AppConfig) -> Self {
        Self {
            app: config.app_id,
            organization: config.organization_id,
            first: config.id,
            last: config.id,
        }
    }

    /// Of the app's own organization.
    pub(in crate::pipeline) fn own(app: &App) -> Self {
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
pub(in crate::pipeline) async fn settle(
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
pub(in crate::pipeline) async fn schedule(db: &mut WriteTx, configs: Configs, name: &str, due_at: Time) -> Result<()> {
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
pub(in crate::pipeline) async fn unschedule(db: &mut WriteTx, configs: Configs, names: &[&str]) -> Result<()> {
    macro_rules! delete {
        ($names:literal) => {
            concat!(
                "DELETE FROM pipeline_task WHERE kind = 'schedule' \
                 AND config_id IN (SELECT c.id FROM pipeline_config c WHERE ",
                among!(),
                ") AND (name NOT IN (SELECT ",
                $names,
                ") OR config_id IN (SELECT c.id FROM pipeline_config c WHERE ",
                among!(),
                " AND NOT c.enabled))"
            )
        };
    }
    let sql = db.pick(
        delete!("value FROM json_each($5)"),
        delete!("jsonb_array_elements_text($5)"),
    );
    changed!(db, bound!(sql, configs).bind(Json(names)))?;
    Ok(())
}

/// The first configuration behind this one that has secrets, with these alone.
pub(in crate::pipeline) async fn next_with_secrets(
    db: &mut Session,
    organization: OrganizationId,
    app: AppId,
    after: AppConfigId,
) -> Result<Option<AppConfig>> {
    let sql = db.pick(
        select_with!(
            "'{}' AS config, c.secrets",
            "WHERE c.organization_id = $1 AND c.app_id = $2 AND c.id > $3 AND c.secrets IS NOT NULL ORDER BY c.id LIMIT 1"
        ),
        select_with!(
            "'{}'::jsonb AS config, c.secrets",
            "WHERE c.organization_id = $1 AND c.app_id = $2 AND c.id > $3 AND c.secrets IS NOT NULL ORDER BY c.id LIMIT 1"
        ),
    );
    Ok(on!(db, conn => sqlx::query_as(sql)
        .bind(organization).bind(app).bind(after).fetch_optional(conn))?)
}

/// Those of the app's own organization that may have a value of a field that becomes a secret, or is one no longer. Which secrets one has
/// is itself encrypted, and may be known.
pub(in crate::pipeline) async fn concerned(
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
    Ok(on!(db, conn => sqlx::query_as(sql)
        .bind(app.id)
        .bind(app.organization_id)
        .bind(!secrets.removed.is_empty())
        .bind(Json(&secrets.added))
        .bind(Json(known.without(&secrets.removed)))
        .fetch_all(conn))?)
}
