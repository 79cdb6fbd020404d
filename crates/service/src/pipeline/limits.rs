//! How many apps and configurations an organization may have, and how large all of them together.
//!
//! Lists show them, and the activity log keeps them: without limits, reading a page could cost the server all its memory.

use super::sizes::{app_size, config_size};
use super::sql;
use super::types::{App, AppConfig, Collection};
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::OrganizationId;
use crate::transaction::WriteTx;

const MAX_APPS: i64 = 200;
const MAX_CONFIGS: i64 = 1000;
/// Of all configurations of an organization, and of all that is said of its apps: the longest list of either. Counted as what it takes
/// in memory, because that is what a list costs, and texts as they are in JSON, where one byte can take six.
const MAX_CONFIG_BYTES: i64 = 16 << 20;
const MAX_APP_BYTES: i64 = 16 << 20;
/// All versions of an organization's apps, in the database.
const MAX_CODE_BYTES: i64 = 256 << 20;
/// Pages of a team's sites ask which frontend apps there are, and load each.
const MAX_ON_PAGES: i64 = 50;

/// Whether all apps of the organization, which is locked, fit together, now that this one is saved. One that has not grown does.
pub(super) async fn fit_apps(db: &mut WriteTx, before: Option<&App>, app: &App) -> Result<()> {
    let has_grown = app_size(app) > before.map_or(0, app_size);
    if !has_grown || sql::apps::size_of_all(db, app.organization_id).await? <= MAX_APP_BYTES {
        return Ok(());
    }
    let detail = format!(
        "the metadata of all apps of an organization can take at most {} MiB in memory: delete an app first",
        MAX_APP_BYTES >> 20
    );
    Err(Error::refused("apps_too_large", detail))
}

/// The same for configurations.
pub(super) async fn fit_configs(db: &mut WriteTx, before: Option<&AppConfig>, config: &AppConfig) -> Result<()> {
    let has_grown = config_size(config) > before.map_or(0, config_size);
    if !has_grown || sql::configs::size_of_all(db, config.organization_id).await? <= MAX_CONFIG_BYTES {
        return Ok(());
    }
    let detail = format!(
        "all configurations of an organization can take at most {} MiB in memory: delete one first",
        MAX_CONFIG_BYTES >> 20
    );
    Err(Error::refused("configs_too_large", detail))
}

/// Makes room for the code that was just stored: the oldest versions of the organization's apps go that nobody runs.
pub(super) async fn fit_code(db: &mut WriteTx, app: &App) -> Result<()> {
    let mut size = sql::versions::size_of_all(db, app.organization_id).await?;
    if size <= MAX_CODE_BYTES {
        return Ok(());
    }
    for old in sql::versions::unused(db, app).await? {
        sql::versions::delete(db, &old).await?;
        size -= old.size;
        if size <= MAX_CODE_BYTES {
            return Ok(());
        }
    }
    let detail = format!(
        "the code of all apps of an organization can have at most {} MiB, including versions in use: delete an app first",
        MAX_CODE_BYTES >> 20
    );
    Err(Error::refused("code_too_large", detail))
}

/// For a configuration that is being enabled and not saved yet.
pub(super) async fn room_on_pages(db: &mut Session, config: &AppConfig) -> Result<()> {
    let is_loaded = config.enabled && config.collection == Collection::FrontendApps;
    if !is_loaded || sql::sites::count(db, config.team_id).await? < MAX_ON_PAGES {
        return Ok(());
    }
    let detail = format!("a team can have at most {MAX_ON_PAGES} frontend apps enabled: disable one first");
    Err(Error::refused("too_many_frontend_apps", detail))
}

/// The organization is locked: nobody else adds one at the same time.
pub(super) async fn room_for_app(db: &mut Session, organization: OrganizationId) -> Result<()> {
    if sql::apps::count_own(db, organization).await? < MAX_APPS {
        return Ok(());
    }
    let detail = format!("an organization can have at most {MAX_APPS} apps: delete one first");
    Err(Error::refused("too_many_apps", detail))
}

pub(super) async fn room_for_config(db: &mut Session, organization: OrganizationId) -> Result<()> {
    if sql::configs::count(db, organization).await? < MAX_CONFIGS {
        return Ok(());
    }
    let detail = format!("an organization can have at most {MAX_CONFIGS} app configurations: delete one first");
    Err(Error::refused("too_many_configs", detail))
}
