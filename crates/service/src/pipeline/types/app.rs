//! An app: what it is, and what is said of it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::task::SCHEDULED;
use crate::activity::Recorded;
use crate::clock::Time;
use crate::db::Permit;
use crate::db::columns::{parse_by_name, read_as_text};
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

parse_by_name!(PluginType);
read_as_text!(Collection, PluginType);

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct App {
    pub id: AppId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    #[serde(skip)]
    pub organization_name: String,
    #[serde(skip)]
    #[sqlx(try_from = "String")]
    pub collection: Collection,
    #[sqlx(try_from = "String")]
    pub plugin_type: PluginType,
    pub name: AppName,
    pub description: String,
    pub url: Option<String>,
    /// Encrypted. A change of it is recorded; what it is, is not.
    pub(crate) private_token: Option<Vec<u8>>,
    pub icon: Option<String>,
    #[sqlx(json)]
    pub config_schema: Value,
    pub tag: Option<String>,
    #[serde(skip)]
    pub latest_tag: Option<String>,
    pub is_global: bool,
    #[sqlx(json)]
    pub capabilities: Value,
    #[sqlx(json)]
    pub metrics: Value,
    #[sqlx(json)]
    pub public_jobs: Value,
    /// The hosts that its code says it reaches; none: it does not say.
    #[sqlx(json(nullable))]
    pub hosts: Option<Vec<String>>,
    /// What somebody wrote by hand: code does not change it.
    #[serde(skip)]
    #[sqlx(json)]
    pub overrides: Vec<Derived>,
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

impl Derived {
    /// Whether it decides how the code is run, rather than how the app is shown.
    pub(in super::super) const fn is_run(self) -> bool {
        match self {
            Self::Name | Self::Description | Self::Icon => false,
            Self::ConfigSchema | Self::Capabilities | Self::Metrics | Self::PublicJobs => true,
        }
    }
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
        SCHEDULED.into_iter().filter(listed).collect()
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

pub(in super::super) fn empty_object() -> Value {
    Value::Object(Map::new())
}
