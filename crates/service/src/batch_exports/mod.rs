//! Batch exports: what goes where, how often, and how far it has got.
//!
//! An export covers time without gaps: [`BatchExport::scheduled_until`] moves on from boundary to boundary, and each step
//! makes one run. Backfills make runs for what no run has covered yet. A run is one interval of one export, and there is
//! never a second one of it.

mod backfills;
mod cases;
mod coverage;
pub mod destination;
mod interval;
mod limits;
mod logs;
mod pausing;
mod retention;
mod rules;
mod runs;
mod schedule;
mod sql;
mod work;

pub use backfills::{Backfill, BackfillPlan, BackfillStatus, BackfillWish};
pub use coverage::{Coverage, Covered};
pub use interval::{Interval, Span};
pub use logs::{Level as LogLevel, LogEntry, LogFilter};
pub use runs::{Run, RunFilter, RunStatus};
pub use schedule::Scheduled;
pub use work::{Choice, Job, Outcome, Progress};

use hogql::Model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Instance;
use crate::activity::Recorded;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::{ExportId, OrganizationId, TeamId};
use crate::text::Line;
use destination::{Destination, Kind};

/// What people call an export.
pub type ExportName = Line<200>;

#[derive(Debug, Clone, Serialize)]
pub struct BatchExport {
    pub id: ExportId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    pub team_id: TeamId,
    pub name: ExportName,
    pub model: Model,
    pub interval: Interval,
    #[serde(rename = "destination_type")]
    pub kind: Kind,
    /// What may be shown of it.
    #[serde(rename = "destination_config")]
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

/// An export with its newest runs.
#[derive(Debug, Clone)]
pub struct ExportSeen {
    pub export: BatchExport,
    pub latest_runs: Vec<Run>,
}

/// The destination, as clients send it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct DestinationInput {
    /// One of `S3`, `GCS`, `AzureBlob`, `File`, `HTTP`, `Postgres`, `Redshift`, `Snowflake`, `BigQuery`, `Databricks`,
    /// `ClickHouse`, `NoOp`; case-insensitive.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The destination's configuration. Secrets are encrypted and never returned; omit them in an update to keep them.
    pub config: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ModelInput {
    Events,
    Persons,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{
    "name": "Events to the warehouse", "interval": "hour", "destination": { "type": "NoOp", "config": {} }
}]))]
pub struct NewExport {
    /// A human-readable name.
    pub name: ExportName,
    /// The destination.
    #[schemars(extend("required" = ["type"]))]
    pub destination: DestinationInput,
    /// The frequency, aligned to UTC; weeks start on Monday.
    pub interval: Interval,
    /// The team whose data is exported. Defaults to the organization's oldest team.
    pub team_id: Option<TeamId>,
    #[serde(flatten)]
    pub rest: ExportRest,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "name": "Events to the warehouse", "interval": "day" }]))]
pub struct ExportPatch {
    /// A human-readable name.
    pub name: Option<ExportName>,
    /// The destination. Its configuration is merged with the existing one; null removes a key.
    pub destination: Option<DestinationInput>,
    /// The frequency, aligned to UTC; weeks start on Monday.
    pub interval: Option<Interval>,
    #[serde(flatten)]
    pub rest: ExportRest,
}

/// The optional fields of a batch export.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ExportRest {
    /// The data to export. Defaults to events.
    pub model: Option<ModelInput>,
    pub paused: Option<bool>,
    /// When it was last paused. Set automatically.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(extend("x-nullable" = true))]
    pub last_paused_at: Option<Option<Time>>,
    /// No runs before this time.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(extend("x-nullable" = true))]
    pub start_at: Option<Option<Time>>,
    /// No runs after this time.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(extend("x-nullable" = true))]
    pub end_at: Option<Option<Time>>,
    /// One SELECT over `events` or `persons`: columns, property paths, functions, WHERE. Null for all columns.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(length(max = 20_000), extend("x-nullable" = true))]
    pub hogql_query: Option<Option<String>>,
}

impl BatchExport {
    /// The whole destination, secrets included.
    pub fn destination(&self, instance: &Instance) -> Result<Destination> {
        destination::read(self.kind, &self.whole_config(instance)?)
    }

    fn whole_config(&self, instance: &Instance) -> Result<Map<String, Value>> {
        Ok(destination::merge(self.config.clone(), self.open_secrets(instance)?))
    }

    fn open_secrets(&self, instance: &Instance) -> Result<Map<String, Value>> {
        let Some(encrypted) = &self.secrets else {
            return Ok(Map::new());
        };
        let plain = instance.encryptor.decrypt(&self.secret_place(), encrypted)?;
        Ok(serde_json::from_slice(&plain).unwrap_or_default())
    }

    fn secret_place(&self) -> String {
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

impl From<ModelInput> for Model {
    fn from(input: ModelInput) -> Self {
        match input {
            ModelInput::Events => Self::Events,
            ModelInput::Persons => Self::Persons,
        }
    }
}

impl DestinationInput {
    /// A whole one, with nothing there to merge it with.
    pub fn read(&self) -> Result<Destination> {
        let given = self.config.clone().unwrap_or_default();
        destination::read(self.kind()?, &destination::merge(Map::new(), given))
    }

    fn kind(&self) -> Result<Kind> {
        let missing = || Error::invalid("destination__type", "required", "This field is required.");
        self.named_kind()?.ok_or_else(missing)
    }

    fn named_kind(&self) -> Result<Option<Kind>> {
        let Some(name) = &self.kind else { return Ok(None) };
        let known = || {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            Error::invalid(
                "destination__type",
                "invalid_choice",
                format!("Must be one of {}.", names.join(", ")),
            )
        };
        Kind::named(name).map(Some).ok_or_else(known)
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
