//! What is below an export: its runs, their logs, its backfills.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::access::{ChangeExports, ReadExports};
use service::batch_exports::{
    Backfill, BackfillRequest, BackfillStatus, LogEntry, LogFilter, LogLevel, RunFilter, RunStatus,
};
use service::{BackfillId, ExportId, RunId, Service, Time};
use uuid::Uuid;

use crate::batch_exports::{Nothing, TAG};
use crate::export_views::RunView;
use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::query::Query;
use crate::http::reply::{Created, Reply, View};
use crate::http::routing::{Routes, get, post};
use crate::user::Stamp;

macro_rules! export {
    ($rest:literal) => {
        concat!("/api/organizations/{organization_id}/batch_exports/{id}/", $rest)
    };
}

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            export!("runs/"),
            get(
                list,
                operation("batch_export_runs_list", TAG, "List runs, newest first"),
            ),
        )
        .route(
            export!("runs/{run_id}/"),
            get(retrieve, operation("batch_export_runs_retrieve", TAG, "Retrieve a run")),
        )
        .route(
            export!("runs/{run_id}/retry/"),
            post(
                retry,
                operation("batch_export_runs_retry", TAG, "Re-run a run's interval"),
            ),
        )
        .route(
            export!("runs/{run_id}/cancel/"),
            post(cancel, operation("batch_export_runs_cancel", TAG, "Cancel a run")),
        )
        .route(
            export!("runs/{run_id}/logs/"),
            get(
                run_logs,
                operation(
                    "batch_export_runs_logs_list",
                    TAG,
                    "List a run's log entries, newest first",
                ),
            ),
        )
        .route(
            export!("logs/"),
            get(
                logs,
                operation(
                    "batch_exports_logs_list",
                    TAG,
                    "List log entries of all runs, newest first",
                ),
            ),
        )
        .merge(backfill_routes())
}

fn backfill_routes() -> Routes {
    Routes::new()
        .route(
            export!("backfills/"),
            get(
                backfills,
                operation("batch_export_backfills_list", TAG, "List backfills, newest first"),
            )
            .post(
                create_backfill,
                operation(
                    "batch_export_backfills_create",
                    TAG,
                    "Start a backfill; like `backfill/`, but returns the backfill",
                ),
            ),
        )
        .route(
            export!("backfills/{backfill_id}/"),
            get(
                backfill,
                operation(
                    "batch_export_backfills_retrieve",
                    TAG,
                    "Retrieve a backfill and its progress",
                ),
            ),
        )
        .route(
            export!("backfills/{backfill_id}/cancel/"),
            post(
                cancel_backfill,
                operation(
                    "batch_export_backfills_cancel",
                    TAG,
                    "Cancel a backfill and its unfinished runs",
                ),
            ),
        )
}

#[derive(Debug, Deserialize, JsonSchema)]
struct RunQuery {
    /// Only runs with this status.
    status: Option<RunStatus>,
    /// Only intervals that end after this time.
    after: Option<Time>,
    /// Only intervals that start before this time.
    before: Option<Time>,
    /// Only runs of this backfill.
    backfill: Option<BackfillId>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct LogQuery {
    /// Only entries of this level.
    level: Option<LogLevel>,
    /// Only entries that contain this text.
    #[schemars(length(max = 200))]
    search: Option<String>,
    /// Only entries from this time on.
    after: Option<Time>,
    /// Only entries before this time.
    before: Option<Time>,
}

async fn list(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadExports>,
    paging: Paging,
    Query(query): Query<RunQuery>,
    Id(export): Id<ExportId>,
) -> Result<Listed<RunView<'static>>, Problem> {
    let page = service.runs(&caller, export, &query.into(), paging.window).await?;
    Ok(paging.reply(page.map(RunView::from)).await)
}

async fn retrieve(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadExports>,
    Id(export): Id<ExportId>,
    Id(run): Id<RunId>,
) -> Result<Reply<RunView<'static>>, Problem> {
    let run = service.run(&caller, export, run).await?;
    Ok(Reply::new(&RunView::from(&run)))
}

async fn retry(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(export): Id<ExportId>,
    Id(run): Id<RunId>,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Reply<RunView<'static>>, Problem> {
    let run = service.retry_run(&caller, export, run).await?;
    Ok(Reply::new(&RunView::from(&run)))
}

async fn cancel(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(export): Id<ExportId>,
    Id(run): Id<RunId>,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Reply<RunView<'static>>, Problem> {
    let run = service.cancel_run(&caller, export, run).await?;
    Ok(Reply::new(&RunView::from(&run)))
}

async fn run_logs(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadExports>,
    paging: Paging,
    Query(query): Query<LogQuery>,
    Id(export): Id<ExportId>,
    Id(run): Id<RunId>,
) -> Result<Listed<LogView>, Problem> {
    service.run(&caller, export, run).await?;
    let filter = LogFilter {
        run: Some(run),
        ..query.into()
    };
    let page = service.export_logs(&caller, export, &filter, paging.window).await?;
    Ok(paging.reply(page.map(|entry| LogView::new(export, entry))).await)
}

async fn logs(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadExports>,
    paging: Paging,
    Query(query): Query<LogQuery>,
    Id(export): Id<ExportId>,
) -> Result<Listed<LogView>, Problem> {
    let page = service
        .export_logs(&caller, export, &query.into(), paging.window)
        .await?;
    Ok(paging.reply(page.map(|entry| LogView::new(export, entry))).await)
}

async fn backfills(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadExports>,
    paging: Paging,
    Id(export): Id<ExportId>,
) -> Result<Listed<BackfillView>, Problem> {
    let page = service.backfills(&caller, export, paging.window).await?;
    Ok(paging.reply(page.map(BackfillView::from)).await)
}

async fn create_backfill(
    State(exports): State<exports::Exports>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(export): Id<ExportId>,
    Body(request): Body<BackfillRequest>,
) -> Result<Created<BackfillView>, Problem> {
    let (_, backfill) = exports.backfill(&caller, export, &request).await?;
    let location = format!(
        "/api/organizations/{}/batch_exports/{export}/backfills/{}/",
        caller.organization, backfill.id
    );
    Ok(Created::new(&BackfillView::from(&backfill)).at(location))
}

async fn backfill(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadExports>,
    Id(export): Id<ExportId>,
    Id(backfill): Id<BackfillId>,
) -> Result<Reply<BackfillView>, Problem> {
    let backfill = service.backfill(&caller, export, backfill).await?;
    Ok(Reply::new(&BackfillView::from(&backfill)))
}

async fn cancel_backfill(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(export): Id<ExportId>,
    Id(backfill): Id<BackfillId>,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Reply<BackfillView>, Problem> {
    let backfill = service.cancel_backfill(&caller, export, backfill).await?;
    Ok(Reply::new(&BackfillView::from(&backfill)))
}

/// A log entry of a run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportLogEntry")]
pub(crate) struct LogView {
    /// The export.
    log_source_id: Uuid,
    /// The run.
    instance_id: Option<Uuid>,
    timestamp: Stamp,
    level: LogLevel,
    message: String,
}

/// Runs for past intervals.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportBackfill")]
pub(crate) struct BackfillView {
    id: Uuid,
    batch_export: Uuid,
    start_at: Stamp,
    end_at: Stamp,
    status: BackfillStatus,
    /// Whether delivered intervals are exported again.
    resend: bool,
    progress: ProgressView,
    created_at: Stamp,
    finished_at: Option<Stamp>,
    last_updated_at: Stamp,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportBackfillProgress")]
struct ProgressView {
    total_runs: i64,
    /// Including runs that were already delivered.
    finished_runs: i64,
    /// From 0 to 1.
    progress: f64,
}

impl View for LogView {
    type Doc = Self;
}

impl View for BackfillView {
    type Doc = Self;
}

impl LogView {
    fn new(export: ExportId, entry: &LogEntry) -> Self {
        Self {
            log_source_id: export.0,
            instance_id: entry.run.map(|run| run.0),
            timestamp: Stamp(entry.created_at),
            level: entry.level,
            message: entry.message.clone(),
        }
    }
}

impl From<&Backfill> for BackfillView {
    fn from(backfill: &Backfill) -> Self {
        Self {
            id: backfill.id.0,
            batch_export: backfill.batch_export.0,
            start_at: Stamp(backfill.start_at),
            end_at: Stamp(backfill.end_at),
            status: backfill.status,
            resend: backfill.is_resend,
            progress: ProgressView {
                total_runs: backfill.total_runs,
                finished_runs: backfill.finished_runs,
                progress: backfill.progress(),
            },
            created_at: Stamp(backfill.created_at),
            finished_at: backfill.finished_at.map(Stamp),
            last_updated_at: Stamp(backfill.updated_at),
        }
    }
}

impl From<RunQuery> for RunFilter {
    fn from(query: RunQuery) -> Self {
        Self {
            status: query.status,
            after: query.after,
            before: query.before,
            backfill: query.backfill,
        }
    }
}

impl From<LogQuery> for LogFilter {
    fn from(query: LogQuery) -> Self {
        Self {
            run: None,
            level: query.level,
            search: query.search.filter(|text| !text.is_empty()),
            after: query.after,
            before: query.before,
        }
    }
}
