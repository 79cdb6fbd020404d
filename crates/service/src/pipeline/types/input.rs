//! What clients send to create and change apps and configurations.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{AppName, Files, PluginType};
use crate::id::TeamId;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "plugin_type": "local" }]))]
pub struct NewApp {
    /// Where the code comes from: `source` and `inline` include it, `local` is a folder on the server, `custom` and
    /// `repository` are fetched from GitHub, GitLab or npm.
    pub plugin_type: PluginType,
    /// The URL of the code: the page of a repository or a package, or `file:` and a folder. A `private_token` in its query
    /// is encrypted and never returned.
    #[schemars(length(max = 800), extend("x-nullable" = true))]
    pub url: Option<String>,
    /// The app's source files by name, for apps that include their code.
    #[schemars(extend("x-nullable" = true))]
    pub source: Option<Files>,
    #[serde(flatten)]
    pub rest: AppFields,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "name": "Notify chat", "description": "Posts each order to the chat" }]))]
pub struct AppPatch {
    /// Where the code comes from.
    pub plugin_type: Option<PluginType>,
    #[serde(flatten)]
    pub rest: AppFields,
}

/// The optional fields of an app. Null resets a field to the value from the app's code.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct AppFields {
    /// The app's name.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(extend("x-nullable" = true))]
    pub name: Option<Option<AppName>>,
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(length(max = 2000), extend("x-nullable" = true))]
    pub description: Option<Option<String>>,
    /// The URL of an icon.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(length(max = 800), extend("x-nullable" = true))]
    pub icon: Option<Option<String>>,
    /// The fields of a configuration, as a list.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(with = "Option<Value>", extend("type" = ["array", "object", "null"], "x-nullable" = true))]
    pub config_schema: Option<Value>,
    /// The tag, branch or commit of the code.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(length(max = 200), extend("x-nullable" = true))]
    pub tag: Option<Option<String>>,
    /// Whether all organizations on this server can use it.
    pub is_global: Option<bool>,
    /// The app's methods, jobs and scheduled tasks.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(with = "Option<Map<String, Value>>", extend("x-nullable" = true))]
    pub capabilities: Option<Value>,
    /// The app's metrics and how each is aggregated.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(with = "Option<Map<String, Value>>", extend("x-nullable" = true))]
    pub metrics: Option<Value>,
    /// The jobs that users can start, and their parameters.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(with = "Option<Map<String, Value>>", extend("x-nullable" = true))]
    pub public_jobs: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "enabled": true, "config": { "url": "https://example.com/hook" } }]))]
pub struct NewConfig {
    /// The team whose events it gets. Defaults to the organization's oldest team.
    pub team_id: Option<TeamId>,
    /// The version of the app that you reviewed. If the app has a different version, nothing is created: 409
    /// `version_changed`.
    pub version: Option<i64>,
    #[serde(flatten)]
    pub rest: ConfigPatch,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "enabled": false }]))]
pub struct ConfigPatch {
    /// Whether the app is enabled for the team. It gets the events received from then on.
    pub enabled: Option<bool>,
    /// The position among the team's apps.
    pub order: Option<i64>,
    /// The app's configuration values, as in its `config_schema`. Merged with the existing ones; null removes a key.
    /// Secrets are encrypted and never returned; omit them in an update to keep them.
    pub config: Option<Map<String, Value>>,
    /// The hosts that the app can reach for this team: names such as `api.example.com`, `*.example.com`, or
    /// `config.url` for the host in that field of the configuration. Null removes the limit; the limit that the app
    /// declares always applies.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(extend("x-nullable" = true))]
    pub allowed_hosts: Option<Option<Vec<String>>>,
}
