//! Configurations of apps, and what is logged while they run.

use apps::{FileChange, different_files, unified};
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::access::{ChangeApps, ReadApps};
use service::pipeline::{
    AppConfig, AppLog, AppLogFilter, AppLogLevel, AppLogSource, ConfigPatch, ConfigUpgrade, NewConfig, ReachedHost,
};
use service::{AppConfigId, AppId, Service, Time};
use tokio::task::spawn_blocking;

use super::collections::In;
use super::views::{ChangesView, ConfigView};
use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::query::Query;
use crate::http::reply::{Created, NoContent, Reply, View};
use crate::user::Stamp;

macro_rules! routes {
    ($in:ty, $name:literal) => {
        Routes::new()
            .route(
                below!($name, "{id}/configs/"),
                get(
                    configs::list::<$in>,
                    operation(
                        concat!($name, "_configs_list"),
                        TAG,
                        "List configurations, oldest first",
                    ),
                )
                .post(
                    configs::create::<$in>,
                    operation(
                        concat!($name, "_configs_create"),
                        TAG,
                        "Create a configuration of an app for a team",
                    ),
                ),
            )
            .route(
                below!($name, "{id}/configs/{config_id}/"),
                get(
                    configs::retrieve::<$in>,
                    operation(concat!($name, "_configs_retrieve"), TAG, "Retrieve a configuration"),
                )
                .patch(
                    configs::update::<$in>,
                    operation(
                        concat!($name, "_configs_partial_update"),
                        TAG,
                        "Update, enable or disable a configuration",
                    ),
                )
                .delete(
                    configs::destroy::<$in>,
                    operation(concat!($name, "_configs_destroy"), TAG, "Delete a configuration"),
                ),
            )
            .route(
                below!($name, "{id}/configs/{config_id}/hosts/"),
                get(
                    configs::hosts::<$in>,
                    operation(
                        concat!($name, "_configs_hosts_list"),
                        TAG,
                        "List the hosts that the app reached or tried to reach, by name",
                    ),
                ),
            )
            .route(
                below!($name, "{id}/configs/{config_id}/upgrade/"),
                get(
                    configs::preview_upgrade::<$in>,
                    operation(
                        concat!($name, "_configs_upgrade_retrieve"),
                        TAG,
                        "Compare a configuration's version with the app's latest version",
                    ),
                )
                .post(
                    configs::upgrade::<$in>,
                    operation(
                        concat!($name, "_configs_upgrade_create"),
                        TAG,
                        "Upgrade a configuration to the app's latest version",
                    ),
                ),
            )
            .route(
                below!($name, "{id}/configs/{config_id}/logs/"),
                get(
                    configs::logs::<$in>,
                    operation(
                        concat!($name, "_configs_logs_list"),
                        TAG,
                        "List a configuration's log entries, newest first",
                    ),
                ),
            )
    };
}
pub(super) use routes;

pub(super) async fn list<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(app): Id<AppId>,
    paging: Paging,
) -> Result<Listed<ConfigView<'static>>, Problem> {
    let page = service.app_configs(&caller, C::COLLECTION, app, paging.window).await?;
    Ok(paging.reply(page.map(ConfigView::from)).await)
}

pub(super) async fn create<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(app): Id<AppId>,
    Body(new): Body<NewConfig>,
) -> Result<Created<ConfigView<'static>>, Problem> {
    let config = service.create_app_config(&caller, C::COLLECTION, app, &new).await?;
    let location = format!(
        "/api/organizations/{}/{}/{app}/configs/{}/",
        config.organization_id,
        C::COLLECTION,
        config.id
    );
    Ok(Created::new(&ConfigView::from(&config)).at(location))
}

pub(super) async fn retrieve<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(app): Id<AppId>,
    Id(id): Id<AppConfigId>,
) -> Result<Reply<ConfigView<'static>>, Problem> {
    let config = service.app_config(&caller, C::COLLECTION, app, id).await?;
    Ok(Reply::new(&ConfigView::from(&config)))
}

pub(super) async fn update<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(app): Id<AppId>,
    Id(id): Id<AppConfigId>,
    if_match: IfMatch,
    Body(patch): Body<ConfigPatch>,
) -> Result<Reply<ConfigView<'static>>, Problem> {
    let precondition = |config: &AppConfig| if_match.fits(&ConfigView::from(config));
    let config = service
        .update_app_config(&caller, C::COLLECTION, app, id, &patch, &precondition)
        .await?;
    Ok(Reply::new(&ConfigView::from(&config)))
}

pub(super) async fn destroy<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(app): Id<AppId>,
    Id(id): Id<AppConfigId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let precondition = |config: &AppConfig| if_match.fits(&ConfigView::from(config));
    service
        .delete_app_config(&caller, C::COLLECTION, app, id, &precondition)
        .await?;
    Ok(NoContent)
}

pub(super) async fn preview_upgrade<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(app): Id<AppId>,
    Id(id): Id<AppConfigId>,
) -> Result<Reply<ConfigUpgradeView>, Problem> {
    let upgrade = service.preview_config_upgrade(&caller, C::COLLECTION, app, id).await?;
    // Comparing files would keep others from their turns.
    let compared = spawn_blocking(move || {
        let files = different_files(&upgrade.files_before, &upgrade.files_after);
        ConfigUpgradeView::new(&upgrade, &files)
    });
    let view = compared.await.map_err(|_| Problem::Panicked)?;
    Ok(Reply::new(&view))
}

pub(super) async fn upgrade<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeApps>,
    Id(app): Id<AppId>,
    Id(id): Id<AppConfigId>,
    Body(consent): Body<Consent>,
) -> Result<Reply<ConfigView<'static>>, Problem> {
    let config = service
        .upgrade_app_config(&caller, C::COLLECTION, app, id, consent.version)
        .await?;
    Ok(Reply::new(&ConfigView::from(&config)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "version": 2 }]))]
pub(super) struct Consent {
    /// The `latest_version` that you reviewed. If the app has a different version, nothing changes: 409
    /// `version_changed`.
    version: i64,
}

/// What the app's latest version would change for a configuration.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineConfigUpgrade")]
pub(super) struct ConfigUpgradeView {
    /// The version that the configuration runs.
    version: i64,
    /// The version that it would run after the upgrade.
    latest_version: i64,
    changes: ChangesView,
    /// The files that differ between the versions.
    files: Vec<FileChangeView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineFileChange")]
struct FileChangeView {
    name: String,
    #[schemars(extend("enum" = ["added", "changed", "deleted"]))]
    action: &'static str,
    /// A unified diff; null for files that are too long to compare, and after 40 files.
    diff: Option<String>,
}

impl View for ConfigUpgradeView {
    type Doc = Self;
}

impl ConfigUpgradeView {
    fn new(upgrade: &ConfigUpgrade, files: &[FileChange]) -> Self {
        let differences = files.iter().zip(unified(files));
        Self {
            version: upgrade.config.version,
            latest_version: upgrade.latest.version,
            changes: ChangesView::from(&upgrade.difference),
            files: differences
                .map(|(change, diff)| FileChangeView::new(change, diff))
                .collect(),
        }
    }
}

impl FileChangeView {
    fn new(change: &FileChange, diff: Option<String>) -> Self {
        Self {
            name: change.name.clone(),
            action: match (&change.before, &change.after) {
                (None, _) => "added",
                (_, None) => "deleted",
                _ => "changed",
            },
            diff,
        }
    }
}

pub(super) async fn logs<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(app): Id<AppId>,
    Id(id): Id<AppConfigId>,
    paging: Paging,
    Query(query): Query<LogQuery>,
) -> Result<Listed<LogView>, Problem> {
    let page = service
        .app_logs(&caller, C::COLLECTION, app, id, &query.into(), paging.window)
        .await?;
    Ok(paging.reply(page.map(LogView::from)).await)
}

pub(super) async fn hosts<C: In>(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadApps>,
    Id(app): Id<AppId>,
    Id(id): Id<AppConfigId>,
    paging: Paging,
) -> Result<Listed<ReachedHostView>, Problem> {
    let page = service
        .reached_hosts(&caller, C::COLLECTION, app, id, paging.window)
        .await?;
    Ok(paging.reply(page.map(ReachedHostView::from)).await)
}

/// A host that the app sent or tried to send requests to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineReachedHost")]
pub(super) struct ReachedHostView {
    host: String,
    /// False if the latest request was blocked.
    is_allowed: bool,
    first_at: Stamp,
    last_at: Stamp,
}

impl View for ReachedHostView {
    type Doc = Self;
}

impl From<&ReachedHost> for ReachedHostView {
    fn from(reached: &ReachedHost) -> Self {
        Self {
            host: reached.host.clone(),
            is_allowed: reached.is_allowed,
            first_at: Stamp(reached.first_at),
            last_at: Stamp(reached.last_at),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct LogQuery {
    /// Only entries of this level.
    level: Option<AppLogLevel>,
    /// Only entries that contain this text, case-insensitive.
    #[schemars(length(max = 200))]
    search: Option<String>,
    /// Only entries at or after this time.
    after: Option<Time>,
    /// Only entries before this time.
    before: Option<Time>,
}

impl From<LogQuery> for AppLogFilter {
    fn from(query: LogQuery) -> Self {
        Self {
            level: query.level,
            search: query.search.filter(|text| !text.is_empty()),
            after: query.after,
            before: query.before,
        }
    }
}

/// A log entry of an app.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineLogEntry")]
pub(super) struct LogView {
    timestamp: Stamp,
    /// `CONSOLE` for the app, `SYSTEM` for this server.
    source: AppLogSource,
    level: AppLogLevel,
    message: String,
}

impl View for LogView {
    type Doc = Self;
}

impl From<&AppLog> for LogView {
    fn from(entry: &AppLog) -> Self {
        Self {
            timestamp: Stamp(entry.created_at),
            source: entry.source,
            level: entry.level,
            message: entry.message.clone(),
        }
    }
}
