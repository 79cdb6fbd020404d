//! What is shown of batch exports, their runs and their tests.

use exports::{Preview, Step, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use service::BackfillId;
use service::batch_exports::{ExportSeen, Interval, Run, RunStatus};
use uuid::Uuid;

use crate::http::reply::View;
use crate::user::Stamp;

/// A batch export.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExport")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-8219-0522c793c6d2", "team_id": 1, "name": "Events to the warehouse", "model": "events",
    "destination": { "type": "NoOp", "config": {} }, "interval": "hour", "paused": false,
    "created_at": "2026-11-15T09:30:00.000000Z", "last_updated_at": "2026-11-15T09:30:00.000000Z",
    "last_paused_at": null, "start_at": null, "end_at": null, "latest_runs": [], "hogql_query": null, "schema": null
}]))]
pub(crate) struct ExportView<'a> {
    id: Uuid,
    team_id: i64,
    name: &'a str,
    #[schemars(extend("enum" = ["events", "persons"]))]
    model: &'static str,
    destination: DestinationView<'a>,
    interval: Interval,
    paused: bool,
    created_at: Stamp,
    last_updated_at: Stamp,
    last_paused_at: Option<Stamp>,
    /// No runs are scheduled before this time.
    start_at: Option<Stamp>,
    /// No runs are scheduled after this time.
    end_at: Option<Stamp>,
    /// The ten most recent runs.
    latest_runs: Vec<RunView<'a>>,
    hogql_query: Option<&'a str>,
    /// What the query selects: `fields` with `expression` and `alias`, `values`, and the parsed query.
    schema: Option<Map<String, Value>>,
}

/// The destination of an export, without secrets.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportDestination")]
struct DestinationView<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    config: &'a Map<String, Value>,
}

/// A batch export, and the backfill that was started.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BackfilledBatchExport")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-8219-0522c793c6d2", "team_id": 1, "name": "Events to the warehouse", "model": "events",
    "destination": { "type": "NoOp", "config": {} }, "interval": "hour", "paused": false,
    "created_at": "2026-11-15T09:30:00.000000Z", "last_updated_at": "2026-11-15T09:30:00.000000Z",
    "last_paused_at": null, "start_at": null, "end_at": null, "latest_runs": [], "hogql_query": null, "schema": null,
    "backfill_id": "01a1dd54-0a3c-7d11-9a57-2f2b6f0c4c1e"
}]))]
pub(crate) struct BackfilledView<'a> {
    #[serde(flatten)]
    export: ExportView<'a>,
    backfill_id: Uuid,
}

/// A run: one interval of a batch export.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportRun")]
pub(crate) struct RunView<'a> {
    id: Uuid,
    status: RunStatus,
    /// Rows that the destination has acknowledged.
    records_completed: Option<i32>,
    latest_error: Option<&'a str>,
    data_interval_start: Stamp,
    data_interval_end: Stamp,
    cursor: Option<&'a str>,
    created_at: Stamp,
    finished_at: Option<Stamp>,
    last_updated_at: Stamp,
    records_total_count: Option<i32>,
    /// Rows sent to the destination, acknowledged or not. Most destinations commit all rows at the end.
    records_read: Option<i32>,
    /// The bytes of `records_completed`, as they were sent.
    bytes_exported: Option<i64>,
    batch_export: Uuid,
    /// The backfill that the run belongs to, if any.
    backfill: Option<Uuid>,
}

/// The steps, in order.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DestinationTest")]
pub(crate) struct TestView {
    /// Whether all steps passed.
    is_ok: bool,
    steps: Vec<StepView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DestinationTestStep")]
struct StepView {
    name: &'static str,
    description: String,
    result: ResultView,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DestinationTestResult")]
struct ResultView {
    #[schemars(extend("enum" = ["Passed", "Failed", "Skipped"]))]
    status: &'static str,
    /// The result, and how to fix it.
    message: String,
}

/// A preview of an export's first rows.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportPreview")]
pub(crate) struct PreviewView {
    columns: Vec<ColumnView>,
    rows: Vec<Map<String, Value>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportColumn")]
struct ColumnView {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl View for ExportView<'_> {
    type Doc = ExportView<'static>;
}

impl View for BackfilledView<'_> {
    type Doc = BackfilledView<'static>;
}

impl View for RunView<'_> {
    type Doc = RunView<'static>;
}

impl View for TestView {
    type Doc = Self;
}

impl View for PreviewView {
    type Doc = Self;
}

impl<'a> From<&'a ExportSeen> for ExportView<'a> {
    fn from(seen: &'a ExportSeen) -> Self {
        let export = &seen.export;
        Self {
            id: export.id.0,
            team_id: export.team_id.0,
            name: export.name.as_str(),
            model: export.model.name(),
            destination: DestinationView {
                kind: export.kind.name(),
                config: &export.config,
            },
            interval: export.interval,
            paused: export.paused,
            created_at: Stamp(export.created_at),
            last_updated_at: Stamp(export.updated_at),
            last_paused_at: export.last_paused_at.map(Stamp),
            start_at: export.start_at.map(Stamp),
            end_at: export.end_at.map(Stamp),
            latest_runs: seen.latest_runs.iter().map(RunView::from).collect(),
            hogql_query: export.hogql_query.as_deref(),
            schema: export.schema(),
        }
    }
}

impl<'a> BackfilledView<'a> {
    pub(crate) fn new(seen: &'a ExportSeen, backfill: BackfillId) -> Self {
        Self {
            export: ExportView::from(seen),
            backfill_id: backfill.0,
        }
    }
}

/// The interface says 32 bits; what is beyond is cut to the largest.
fn count(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl<'a> From<&'a Run> for RunView<'a> {
    fn from(run: &'a Run) -> Self {
        Self {
            id: run.id.0,
            status: run.status,
            records_completed: run.records_completed.map(count),
            latest_error: run.latest_error.as_deref(),
            data_interval_start: Stamp(run.data_interval_start),
            data_interval_end: Stamp(run.data_interval_end),
            cursor: None,
            created_at: Stamp(run.created_at),
            finished_at: run.finished_at.map(Stamp),
            last_updated_at: Stamp(run.updated_at),
            records_total_count: run.records_total_count.map(count),
            records_read: run.records_read.map(count),
            bytes_exported: run.bytes_exported,
            batch_export: run.batch_export.0,
            backfill: run.backfill.map(|id| id.0),
        }
    }
}

impl From<Vec<Step>> for TestView {
    fn from(steps: Vec<Step>) -> Self {
        let view = |step: Step| StepView {
            name: step.name,
            description: step.description,
            result: ResultView {
                status: match step.verdict {
                    Verdict::Passed => "Passed",
                    Verdict::Failed => "Failed",
                    Verdict::Skipped => "Skipped",
                },
                message: step.message,
            },
        };
        Self {
            is_ok: steps.iter().all(|step| step.verdict == Verdict::Passed),
            steps: steps.into_iter().map(view).collect(),
        }
    }
}

impl From<Preview> for PreviewView {
    fn from(preview: Preview) -> Self {
        let columns = preview.columns.into_iter().map(|column| ColumnView {
            name: column.name,
            kind: column.kind,
        });
        Self {
            columns: columns.collect(),
            rows: preview.rows,
        }
    }
}
