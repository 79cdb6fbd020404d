//! Pipeline apps: what they are, the code they have, and how teams use them.
//!
//! An app belongs to an organization and to the collection it was made in. Its code comes in versions, of which one is
//! current. A configuration is one team's use of an app; while it is on, the app is run for that team.

mod cases;
mod configs;
mod history;
mod hosts;
mod limits;
mod lists;
mod logs;
mod pins;
mod rules;
pub mod schema;
mod sites;
mod sql;
mod storage;
mod targets;
mod tasks;
mod uses;
mod versions;
mod work;

pub(crate) use cases::not_in_use;
pub use cases::source_changed;
pub use configs::{AppConfig, ConfigPatch, NewConfig};
pub use hosts::{AllowedHosts, ReachedHost};
pub use logs::{AppLog, AppLogFilter, Level as AppLogLevel, Source as AppLogSource};
pub use pins::ConfigUpgrade;
pub use rules::{Difference, FieldChange};
pub use sites::{Script, SiteApp};
pub use tasks::{AppTask, TaskKind};
pub use uses::{AppUse, AppsSeen, UseCount};
pub use versions::{Fetched, Offers, Package, Version, VersionName, VersionSeen, check_source};
pub use work::{AppJob, Cursor, DueAfter, DueApp, MOST_FAILURES, Runnable, Step, Stop};

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::activity::Recorded;
use crate::clock::Time;
use crate::db::Permit;
use crate::id::{AppId, OrganizationId};
use crate::text::Line;

/// Source files by name.
pub type Files = BTreeMap<String, String>;

/// What people call an app.
pub type AppName = Line<200>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Collection {
    Destinations,
    FrontendApps,
    ImportApps,
}

impl Collection {
    pub const ALL: [Self; 3] = [Self::Destinations, Self::FrontendApps, Self::ImportApps];

    /// As it stands in paths.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Destinations => "pipeline_destinations",
            Self::FrontendApps => "pipeline_frontend_apps",
            Self::ImportApps => "pipeline_import_apps",
        }
    }

    /// What the activity log calls its items.
    pub const fn scope(self) -> &'static str {
        match self {
            Self::Destinations => "PipelineDestination",
            Self::FrontendApps => "PipelineFrontendApp",
            Self::ImportApps => "PipelineImportApp",
        }
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Collection {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or(())
    }
}

/// Where an app's code comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PluginType {
    Local,
    Custom,
    Repository,
    Source,
    Inline,
}

impl PluginType {
    const ALL: [Self; 5] = [Self::Local, Self::Custom, Self::Repository, Self::Source, Self::Inline];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Custom => "custom",
            Self::Repository => "repository",
            Self::Source => "source",
            Self::Inline => "inline",
        }
    }

    /// Whether its code is fetched from another server.
    pub const fn is_remote(self) -> bool {
        matches!(self, Self::Custom | Self::Repository)
    }
}

impl FromStr for PluginType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|one| one.as_str() == text).ok_or(())
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct App {
    pub id: AppId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    #[serde(skip)]
    pub organization_name: String,
    #[serde(skip)]
    pub collection: Collection,
    pub plugin_type: PluginType,
    pub name: AppName,
    pub description: String,
    pub url: Option<String>,
    /// Encrypted. A change of it is recorded; what it is, is not.
    pub(crate) private_token: Option<Vec<u8>>,
    pub icon: Option<String>,
    pub config_schema: Value,
    pub tag: Option<String>,
    #[serde(skip)]
    pub latest_tag: Option<String>,
    pub is_global: bool,
    pub capabilities: Value,
    pub metrics: Value,
    pub public_jobs: Value,
    /// The hosts that its code says it reaches; none: it does not say.
    pub hosts: Option<Vec<String>>,
    /// What somebody wrote by hand: code does not change it.
    #[serde(skip)]
    pub written: Vec<Derived>,
    /// Which code it has; 0 is none.
    pub version: i64,
    #[serde(skip)]
    pub next_check_at: Option<Time>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// What is read from an app's code, unless somebody wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Derived {
    Name,
    Description,
    Icon,
    ConfigSchema,
    Capabilities,
    Metrics,
    PublicJobs,
}

/// An app and the files it consists of.
#[derive(Debug)]
pub struct AppWithFiles {
    pub app: App,
    pub files: Files,
    /// For as long as the files are in memory. None where something else limits how many are.
    pub turn: Option<Permit>,
}

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
#[schemars(extend("examples" = [{ "name": "Tell the chat", "description": "Posts each order to the chat" }]))]
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

impl App {
    pub(crate) fn token_place(&self) -> String {
        format!("pipeline_app/{}/private_token", self.id)
    }

    /// Whether it is handed the events that come in.
    pub fn takes_events(&self) -> bool {
        ["onEvent", "composeWebhook"]
            .iter()
            .any(|name| self.has("methods", name))
    }

    /// Whatever else is listed there is no time to run something.
    pub fn scheduled_tasks(&self) -> Vec<&'static str> {
        let listed = |name: &&str| self.has("scheduled_tasks", name);
        tasks::SCHEDULED.into_iter().filter(listed).collect()
    }

    fn has(&self, list: &str, name: &str) -> bool {
        let names = self.capabilities.get(list).and_then(Value::as_array);
        names.into_iter().flatten().any(|one| one == name)
    }
}

impl Recorded for App {
    const SCOPE: &'static str = "PipelineApp";

    fn scope(&self) -> &'static str {
        self.collection.scope()
    }

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}

fn empty_object() -> Value {
    Value::Object(Map::new())
}
