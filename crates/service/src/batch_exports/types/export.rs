//! A batch export: what goes where, how often, and how far it has got.

use hogql::Model;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Run;
use crate::Instance;
use crate::activity::Recorded;
use crate::batch_exports::destination::{self, Destination, Kind};
use crate::batch_exports::interval::Interval;
use crate::cache::{Weigh, rows_of};
use crate::clock::Time;
use crate::error::Result;
use crate::id::{ExportId, OrganizationId, TeamId};
use crate::text::Line;

/// What people call an export.
pub type ExportName = Line<200>;

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct BatchExport {
    pub id: ExportId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    pub team_id: TeamId,
    pub name: ExportName,
    #[sqlx(try_from = "ModelColumn")]
    pub model: Model,
    #[sqlx(rename = "frequency", try_from = "String")]
    pub interval: Interval,
    #[serde(rename = "destination_type")]
    #[sqlx(try_from = "String")]
    pub kind: Kind,
    /// What may be shown of it.
    #[serde(rename = "destination_config")]
    #[sqlx(json)]
    pub config: Map<String, Value>,
    /// The rest, encrypted. A change of it is recorded; what it is, is not.
    #[serde(rename = "destination_secrets")]
    pub(crate) secrets: Option<Vec<u8>>,
    pub paused: bool,
    pub last_paused_at: Option<Time>,
    pub start_at: Option<Time>,
    pub end_at: Option<Time>,
    pub hogql_query: Option<String>,
    /// Runs exist for everything before this that the schedule covers; the next begins here.
    #[serde(skip)]
    pub scheduled_until: Time,
    /// When the next run is made; none while paused, and after the end.
    #[serde(skip)]
    pub next_run_at: Option<Time>,
    /// Runs that failed for good, one after the other.
    #[serde(skip)]
    pub failures: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// What the table says of the model.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
struct ModelColumn(String);

impl TryFrom<ModelColumn> for Model {
    type Error = String;

    fn try_from(ModelColumn(name): ModelColumn) -> Result<Self, String> {
        let mut models = [Self::Events, Self::Persons].into_iter();
        let known = models.find(|model| model.name() == name);
        known.ok_or_else(|| format!("{name:?} is an unknown Model"))
    }
}

/// An export with its newest runs.
#[derive(Debug, Clone)]
pub struct ExportSeen {
    pub export: BatchExport,
    pub latest_runs: Vec<Run>,
}

impl Weigh for ExportSeen {
    fn rows(&self) -> usize {
        let errors = self
            .latest_runs
            .iter()
            .map(|run| rows_of(run.latest_error.as_ref().map_or(0, String::len)));
        let config: usize = self
            .export
            .config
            .iter()
            .map(|(key, value)| key.len() + memory_of(value))
            .sum();
        rows_of(self.export.bytes() + config) + errors.sum::<usize>()
    }
}

/// What a value takes in memory, about: a list of empty texts takes many times what it takes as text.
fn memory_of(value: &Value) -> usize {
    let inside: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 2 * memory_of(item)).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| 2 * (key.len() + memory_of(value)))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inside
}

/// Which exports are listed, and in what order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ExportSelection {
    /// Newest first.
    All,
    /// Those that fail or are paused, and that fail first.
    NeedsAttention,
}

impl BatchExport {
    /// What its long texts take.
    pub(crate) fn bytes(&self) -> usize {
        let config = serde_json::to_vec(&self.config).map_or(0, |json| json.len());
        let secrets = self.secrets.as_ref().map_or(0, Vec::len);
        config + secrets + self.hogql_query.as_ref().map_or(0, String::len)
    }

    /// The whole destination, secrets included.
    pub fn destination(&self, instance: &Instance) -> Result<Destination> {
        destination::read(self.kind, &self.whole_config(instance)?)
    }

    pub(in super::super) fn whole_config(&self, instance: &Instance) -> Result<Map<String, Value>> {
        Ok(destination::merge(self.config.clone(), self.open_secrets(instance)?))
    }

    pub(in super::super) fn open_secrets(&self, instance: &Instance) -> Result<Map<String, Value>> {
        let Some(encrypted) = &self.secrets else {
            return Ok(Map::new());
        };
        let plain = instance.encryptor.decrypt(&self.secret_place(), encrypted)?;
        Ok(serde_json::from_slice(&plain).unwrap_or_default())
    }

    pub(in super::super) fn secret_place(&self) -> String {
        format!("batch_export/{}/secrets", self.id)
    }

    /// What it selects, if it has a query of its own.
    pub fn query(&self) -> Option<hogql::Query> {
        hogql::parse(self.hogql_query.as_deref()?).ok()
    }

    /// What its query selects, as clients see it.
    pub fn schema(&self) -> Option<Map<String, Value>> {
        match self.query()?.schema_json() {
            Value::Object(schema) => Some(schema),
            _ => None,
        }
    }

    /// Names of events from the configuration: only these, and none of those.
    pub fn event_names(&self, key: &str) -> Vec<String> {
        let names = self.config.get(key).and_then(Value::as_array);
        let texts = names.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }
}

impl Recorded for BatchExport {
    const SCOPE: &'static str = "BatchExport";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn team(&self) -> Option<TeamId> {
        Some(self.team_id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}
