//! What is shown of apps, their code and their configurations.

use apps::catalogue::Kind;
use apps::{CatalogueEntry, Upgrade};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use service::pipeline::{App, AppConfig, AppWithFiles, Difference, FieldChange, Files, PluginType, VersionSeen};
use uuid::Uuid;

use crate::reply::View;
use crate::user::Stamp;

/// A pipeline app.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineItem")]
#[schemars(extend("examples" = [{
    "id": 7, "plugin_type": "source", "name": "Tell the chat", "description": "Posts each order to the chat", "url": null,
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
    /// The hosts that its code says it reaches, and no others; null: it does not say. An app for all organizations that does not say reaches none.
    hosts: Option<&'a [String]>,
    /// Which code it has, counted from 1; 0 is none.
    version: i64,
    created_at: Stamp,
    updated_at: Stamp,
}

/// An app and its files.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineItemWithSource")]
#[schemars(extend("examples" = [{
    "id": 7, "plugin_type": "source", "name": "Tell the chat", "description": "Posts each order to the chat", "url": null,
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

/// An app that has other code now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "UpgradedPipelineItem")]
#[schemars(extend("examples" = [{
    "id": 7, "plugin_type": "source", "name": "Tell the chat", "description": "Posts each order to the chat", "url": null,
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
    /// In a preview: the checksum of the files that would be taken. Send it with the upgrade, and no others are.
    sha256: Option<String>,
    changes: ChangesView,
}

/// What the new code offers and asks for, against the one before.
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
    /// What is said of each of these fields, before and after.
    field_changes: Vec<FieldChangeView>,
    /// Hosts that it can reach; `*` is any. For a configuration, `config.url` is the host that its own value names.
    added_hosts: Vec<String>,
    removed_hosts: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineFieldChange")]
struct FieldChangeView {
    key: String,
    /// As `config_schema` describes it; null: it was not there.
    #[schemars(extend("type" = ["object", "null"]))]
    before: Value,
    /// Null: it is gone.
    #[schemars(extend("type" = ["object", "null"]))]
    after: Value,
}

/// One state of an app's code.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineItemVersion")]
pub(crate) struct VersionView {
    version: i64,
    tag: Option<String>,
    /// SHA-256 over all files, to pin the app to: `#sha256=` behind its URL.
    sha256: Option<String>,
    is_current: bool,
    files: Vec<String>,
    capabilities: Value,
    created_at: Stamp,
}

/// An app that can be installed: send its `url` and `plugin_type` `repository`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "CatalogueEntry")]
pub(crate) struct CatalogueView {
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

/// One team's use of an app.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PipelineConfig")]
pub(crate) struct ConfigView<'a> {
    id: i64,
    /// The app.
    plugin: i64,
    team_id: i64,
    enabled: bool,
    order: i64,
    /// What the app is told. Secrets are left out.
    config: &'a Map<String, Value>,
    /// The hosts that the app is limited to for this team; null: not limited beyond what the app declares.
    allowed_hosts: Option<&'a [String]>,
    /// The latest thing that went wrong; null when all is well.
    error: Option<&'a str>,
    /// Everything that came in before this time was handed over.
    delivered_until: Stamp,
    /// When a page loads it: what stands in the address of a frontend app.
    web_token: &'a str,
    /// The version of the app that it was approved with, and runs.
    version: i64,
    /// The version that the app has by now. Configurations of the app's own organization always run it; others once they take it.
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

impl View for CatalogueView {
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

impl From<&CatalogueEntry> for CatalogueView {
    fn from(entry: &CatalogueEntry) -> Self {
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
