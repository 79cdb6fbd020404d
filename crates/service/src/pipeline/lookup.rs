//! Apps and configurations as callers may see and change them.

use super::sql;
use super::types::{App, AppConfig, Collection};
use crate::access::{Caller, ChangeApps};
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::{AppConfigId, AppId};
use crate::transaction::WriteTx;
use crate::{Precondition, organizations};

/// What an organization must be allowed to do, as `plugins_access_level` says it.
pub(super) const CONFIGURE: i16 = 3;
pub(super) const INSTALL: i16 = 6;
pub(super) const ROOT: i16 = 9;

/// What the organization is allowed to do with apps.
pub(super) async fn allow<P>(db: &mut Session, caller: &Caller<P>, needed: i16) -> Result<()> {
    grant(organizations::sql::apps_level(db, caller.organization).await?, needed)
}

pub(super) fn grant(level: i16, needed: i16) -> Result<()> {
    if level >= needed {
        return Ok(());
    }
    Err(Error::Forbidden(format!(
        "this organization's plugins_access_level is {level}, but this requires {needed}"
    )))
}

/// An app that the caller's organization can see.
pub(super) async fn find_app<P>(
    db: &mut Session,
    caller: &Caller<P>,
    collection: Collection,
    id: AppId,
) -> Result<App> {
    let app = sql::apps::find(db, caller.organization, id).await?;
    app.filter(|app| app.collection == collection)
        .ok_or(Error::NotFound("app"))
}

/// Apps for all can be used by everybody, and changed by their own organization.
pub(super) fn own(caller: &Caller<ChangeApps>, app: &App) -> Result<()> {
    if app.organization_id == caller.organization {
        return Ok(());
    }
    Err(Error::Forbidden(
        "this app belongs to another organization: only that organization can change it".to_owned(),
    ))
}

/// Whether those who configure an app could as well change its code, and with it where its secrets go.
pub(super) fn may_change_code(caller: &Caller<ChangeApps>, app: &App, level: i16) -> bool {
    // The code of an app for all is changed by operators, and that of one with a checksum by whoever publishes it.
    level >= INSTALL && app.organization_id == caller.organization && !app.is_global && !app.is_pinned()
}

/// An app that the caller may change, kept from changing until the use case ends, with what the organization may do.
pub(super) async fn lock_app(
    db: &mut WriteTx,
    caller: &Caller<ChangeApps>,
    collection: Collection,
    id: AppId,
    precondition: Precondition<'_, App>,
) -> Result<(App, i16)> {
    let organization = organizations::sql::lock(db, caller.organization).await?;
    grant(organization.plugins_access_level, INSTALL)?;
    let app = find_app(db, caller, collection, id).await?;
    own(caller, &app)?;
    if !precondition(&app) {
        return Err(Error::Stale("app"));
    }
    Ok((app, organization.plugins_access_level))
}

/// A configuration of this app, of a team the caller may see.
pub(super) async fn find_config<P>(
    db: &mut Session,
    caller: &Caller<P>,
    app: AppId,
    id: AppConfigId,
) -> Result<AppConfig> {
    seen(caller, app, sql::configs::find(db, caller.organization, id).await?)
}

fn seen<P>(caller: &Caller<P>, app: AppId, config: Option<AppConfig>) -> Result<AppConfig> {
    let is_theirs = |config: &AppConfig| config.app_id == app && caller.may_see_team(config.team_id);
    config.filter(is_theirs).ok_or(Error::NotFound("configuration"))
}

/// The same, kept from changing until the use case ends.
pub(super) async fn lock_config(
    db: &mut WriteTx,
    caller: &Caller<ChangeApps>,
    app: AppId,
    id: AppConfigId,
    precondition: Precondition<'_, AppConfig>,
) -> Result<AppConfig> {
    organizations::sql::lock(db, caller.organization).await?;
    let config = sql::configs::lock(db, id).await?;
    let config = config.filter(|config| config.organization_id == caller.organization);
    let config = seen(caller, app, config)?;
    if !precondition(&config) {
        return Err(Error::Stale("configuration"));
    }
    Ok(config)
}
