//! What is shown of apps, their code and their configurations.

use apps::catalog::Kind;
use apps::{CatalogEntry, Upgrade};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use service::pipeline::{App, AppConfig, AppWithFiles, Difference, FieldChange, Files, PluginType, VersionSeen};
use uuid::Uuid;

use crate::http::reply::View;
use crate::user::Stamp;

/// A pipeline app.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineItem")]
#[schemars(extend("examples" = [{
    "id": 7, "plugin_type": "source", "name": "Notify chat", "description": "Posts each order to the chat", "url": null,
    "icon": null, "config_schema": [{ "key": "url", "name": "Where to", "type": "string", "required": true }], "tag": null,
    "latest_tag": null, "is_global": false, "organization_id": "01a1dd53-efb7-7ca7-95d8-a71aa68b4369",
    "organization_name": "Acme", "capabilities": { "methods": ["onEvent"], "jobs": [], "scheduled_tasks": [] },
    "metrics": {}, "public_jobs": {}, "hosts": ["config.url"], "version": 1, "created_at": "2026-11-15T09:30:00.000000Z",
    "updated_at": "2026-11-15T09:30:00.000000Z"
}]))]
pub(crate) struct AppView<'a> {
    id: i64,
    plugin_type: PluginType,
    name: &'a str,
    description: &'a str,
    url: Option<&'a str>,
    icon: Option<&'a str>,
    config_schema: &'a Value,
    tag: Option<&'a str>,
    latest_tag: Option<&'a str>,
    is_global: bool,
    organization_id: Uuid,
    organization_name: &'a str,
    capabilities: &'a Value,
    metrics: &'a Value,
    public_jobs: &'a Value,
    /// The only hosts that the app can reach, as its code declares; null if it declares none. A global app that
    /// declares none cannot reach any host.
    hosts: Option<&'a [String]>,
    /// The version of its code, starting at 1; 0 if it has no code.
    version: i64,
    created_at: Stamp,
    updated_at: Stamp,
}

/// An app and its source files.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineItemWithSource")]
#[schemars(extend("examples" = [{
    "id": 7, "plugin_type": "source", "name": "Notify chat", "description": "Posts each order to the chat", "url": null,
    "icon": null, "config_schema": [{ "key": "url", "name": "Where to", "type": "string", "required": true }], "tag": null,
    "latest_tag": null, "is_global": false, "organization_id": "01a1dd53-efb7-7ca7-95d8-a71aa68b4369",
    "organization_name": "Acme", "capabilities": { "methods": ["onEvent"], "jobs": [], "scheduled_tasks": [] },
    "metrics": {}, "public_jobs": {}, "hosts": ["config.url"], "version": 1, "created_at": "2026-11-15T09:30:00.000000Z",
    "updated_at": "2026-11-15T09:30:00.000000Z",
    "source": { "index.ts": "export function onEvent(event) { console.log(event.event) }" }
}]))]
pub(crate) struct SourceView<'a> {
    #[serde(flatten)]
    app: AppView<'a>,
    /// Files by name.
    source: &'a Files,
}

/// An upgraded app.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "UpgradedPipelineItem")]
#[schemars(extend("examples" = [{
    "id": 7, "plugin_type": "source", "name": "Notify chat", "description": "Posts each order to the chat", "url": null,
    "icon": null, "config_schema": [{ "key": "url", "name": "Where to", "type": "string", "required": true }], "tag": null,
    "latest_tag": null, "is_global": false, "organization_id": "01a1dd53-efb7-7ca7-95d8-a71aa68b4369",
    "organization_name": "Acme", "capabilities": { "methods": ["onEvent"], "jobs": [], "scheduled_tasks": [] },
    "metrics": {}, "public_jobs": {}, "hosts": ["config.url"], "version": 1, "created_at": "2026-11-15T09:30:00.000000Z",
    "updated_at": "2026-11-15T09:30:00.000000Z", "sha256": null,
    "changes": {
        "added_capabilities": ["methods.onEvent"], "removed_capabilities": [], "added_fields": ["url"],
        "removed_fields": [], "changed_fields": [],
        "field_changes": [{ "key": "url", "before": null, "after": { "key": "url", "type": "string" } }],
        "added_hosts": ["config.url"], "removed_hosts": []
    }
}]))]
pub(crate) struct UpgradeView<'a> {
    #[serde(flatten)]
    app: AppView<'a>,
    /// In a preview, the checksum of the new files. Send it with the upgrade to accept only these files.
    sha256: Option<String>,
    changes: ChangesView,
}

/// The changes between the new code and the previous version.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineItemChanges")]
pub(super) struct ChangesView {
    /// Such as `methods.onEvent`.
    added_capabilities: Vec<String>,
    removed_capabilities: Vec<String>,
    /// Keys of the configuration.
    added_fields: Vec<String>,
    removed_fields: Vec<String>,
    changed_fields: Vec<String>,
    /// The definition of each of these fields, before and after.
    field_changes: Vec<FieldChangeView>,
    /// Hosts that it can reach; `*` is any host. For a configuration, `config.url` is the host in that value.
    added_hosts: Vec<String>,
    removed_hosts: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineFieldChange")]
struct FieldChangeView {
    key: String,
    /// As in `config_schema`; null if it did not exist.
    #[schemars(extend("type" = ["object", "null"]))]
    before: Value,
    /// Null if it was removed.
    #[schemars(extend("type" = ["object", "null"]))]
    after: Value,
}

/// A version of an app's code.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineItemVersion")]
pub(crate) struct VersionView {
    version: i64,
    tag: Option<String>,
    /// The SHA-256 checksum of all files. Pin the app to it with `#sha256=` at the end of its URL.
    sha256: Option<String>,
    is_current: bool,
    files: Vec<String>,
    capabilities: Value,
    created_at: Stamp,
}

/// An app that can be installed: send its `url` and `plugin_type` `repository`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "CatalogEntry")]
pub(crate) struct CatalogView {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) description: String,
    verified: bool,
    maintainer: String,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["data_in", "data_out", "ingestion_filtering", "site"]))]
    kind: &'static str,
    #[serde(rename = "imageLink")]
    pub(super) image_link: Option<String>,
}

/// The configuration of an app for a team.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineConfig")]
pub(crate) struct ConfigView<'a> {
    id: i64,
    /// The app.
    plugin: i64,
    team_id: i64,
    enabled: bool,
    order: i64,
    /// The app's configuration values, without secrets.
    config: &'a Map<String, Value>,
    /// The hosts that the app can reach for this team; null for no limit beyond what the app declares.
    allowed_hosts: Option<&'a [String]>,
    /// The latest error; null if there is none.
    error: Option<&'a str>,
    /// Events received before this time have been processed.
    delivered_until: Stamp,
    /// The token in the URL from which pages load a frontend app.
    web_token: &'a str,
    /// The approved version of the app, which the configuration runs.
    version: i64,
    /// The app's latest version. Configurations in the app's own organization always run it; others run it once they
    /// upgrade.
    latest_version: i64,
    created_at: Stamp,
    updated_at: Stamp,
}

impl View for AppView<'_> {
    type Doc = AppView<'static>;
}

impl View for SourceView<'_> {
    type Doc = SourceView<'static>;
}

impl View for UpgradeView<'_> {
    type Doc = UpgradeView<'static>;
}

impl View for VersionView {
    type Doc = Self;
}

impl View for CatalogView {
    type Doc = Self;
}

impl View for ConfigView<'_> {
    type Doc = ConfigView<'static>;
}

impl<'a> From<&'a App> for AppView<'a> {
    fn from(app: &'a App) -> Self {
        Self {
            id: app.id.0,
            plugin_type: app.plugin_type,
            name: app.name.as_str(),
            description: &app.description,
            url: app.url.as_deref(),
            icon: app.icon.as_deref(),
            config_schema: &app.config_schema,
            tag: app.tag.as_deref(),
            latest_tag: app.latest_tag.as_deref(),
            is_global: app.is_global,
            organization_id: app.organization_id.0,
            organization_name: &app.organization_name,
            capabilities: &app.capabilities,
            metrics: &app.metrics,
            public_jobs: &app.public_jobs,
            hosts: app.hosts.as_deref(),
            version: app.version,
            created_at: Stamp(app.created_at),
            updated_at: Stamp(app.updated_at),
        }
    }
}

impl<'a> From<&'a AppWithFiles> for SourceView<'a> {
    fn from(found: &'a AppWithFiles) -> Self {
        Self {
            app: AppView::from(&found.app),
            source: &found.files,
        }
    }
}

impl<'a> UpgradeView<'a> {
    pub(super) fn new(app: &'a App, difference: &Difference) -> Self {
        Self {
            app: AppView::from(app),
            sha256: None,
            changes: ChangesView::from(difference),
        }
    }

    /// What an upgrade would make of an app; none: nothing.
    pub(super) fn preview(app: &'a App, upgrade: Option<Upgrade>) -> Self {
        let (sha256, difference) = upgrade.map(|upgrade| (upgrade.sha256, upgrade.difference)).unzip();
        Self {
            sha256,
            ..Self::new(app, &difference.unwrap_or_default())
        }
    }
}

impl From<&Difference> for ChangesView {
    fn from(difference: &Difference) -> Self {
        let Difference {
            added_capabilities,
            removed_capabilities,
            added_fields,
            removed_fields,
            changed_fields,
            field_changes,
            added_hosts,
            removed_hosts,
        } = difference.clone();
        Self {
            added_capabilities,
            removed_capabilities,
            added_fields,
            removed_fields,
            changed_fields,
            field_changes: field_changes.into_iter().map(FieldChangeView::from).collect(),
            added_hosts,
            removed_hosts,
        }
    }
}

impl From<FieldChange> for FieldChangeView {
    fn from(FieldChange { key, before, after }: FieldChange) -> Self {
        Self { key, before, after }
    }
}

impl From<&VersionSeen> for VersionView {
    fn from(version: &VersionSeen) -> Self {
        Self {
            version: version.name.number,
            tag: version.name.tag.clone(),
            sha256: version.name.sha256.clone(),
            is_current: version.is_current,
            files: version.files.clone(),
            capabilities: version.capabilities.clone(),
            created_at: Stamp(version.name.created_at),
        }
    }
}

impl From<&CatalogEntry> for CatalogView {
    fn from(entry: &CatalogEntry) -> Self {
        Self {
            name: entry.name.clone(),
            url: entry.url.clone(),
            description: entry.description.clone(),
            verified: entry.verified,
            maintainer: entry.maintainer.clone(),
            kind: match entry.r#type {
                Kind::DataIn => "data_in",
                Kind::DataOut => "data_out",
                Kind::IngestionFiltering => "ingestion_filtering",
                Kind::Site => "site",
            },
            image_link: entry.image_link.clone(),
        }
    }
}

impl<'a> From<&'a AppConfig> for ConfigView<'a> {
    fn from(config: &'a AppConfig) -> Self {
        Self {
            id: config.id.0,
            plugin: config.app_id.0,
            team_id: config.team_id.0,
            enabled: config.enabled,
            order: config.order,
            config: &config.config,
            allowed_hosts: config.allowed_hosts.as_deref(),
            error: config.latest_error.as_deref(),
            delivered_until: Stamp(config.delivered_until),
            web_token: &config.web_token,
            version: config.version,
            latest_version: config.latest_version,
            created_at: Stamp(config.created_at),
            updated_at: Stamp(config.updated_at),
        }
    }
}
