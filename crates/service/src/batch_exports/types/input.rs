//! What clients send to create and change exports.

use hogql::Model;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ExportName;
use crate::batch_exports::destination::{self, Destination, Kind};
use crate::batch_exports::interval::Interval;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::TeamId;

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
        let (kind, config) = self.whole()?;
        destination::read(kind, &config)
    }

    /// The same, before its keys are checked.
    pub(in super::super) fn whole(&self) -> Result<(Kind, Map<String, Value>)> {
        let missing = || Error::invalid("destination__type", "required", "This field is required.");
        let kind = self.named_kind()?.ok_or_else(missing)?;
        let given = self.config.clone().unwrap_or_default();
        Ok((kind, destination::merge(Map::new(), given)))
    }

    pub(in super::super) fn named_kind(&self) -> Result<Option<Kind>> {
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
