use axum::extract::State;
use exports::Exports;
use schemars::JsonSchema;
use serde::Deserialize;
use service::access::{ChangeExports, ReadExports};
use service::batch_exports::{BackfillRequest, BatchExport, DestinationInput, ExportPatch, ExportSeen, NewExport};
use service::{ExportId, Service};

use crate::export_views::{BackfilledView, ExportView, PreviewView, TestView};
use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::reply::{Created, NoContent, Reply};
use crate::http::routing::{Routes, get, post};

pub(crate) const TAG: &str = "Batch exports";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/organizations/{organization_id}/batch_exports/",
            get(
                list,
                operation("batch_exports_list", TAG, "List batch exports, newest first"),
            )
            .post(create, operation("batch_exports_create", TAG, "Create a batch export")),
        )
        .route(
            "/api/organizations/{organization_id}/batch_exports/test/",
            post(
                test_new,
                operation(
                    "batch_exports_test_destination",
                    TAG,
                    "Test a destination, step by step, before creating an export",
                ),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/batch_exports/{id}/",
            get(
                retrieve,
                operation("batch_exports_retrieve", TAG, "Retrieve a batch export"),
            )
            .patch(
                update,
                operation("batch_exports_partial_update", TAG, "Update a batch export"),
            )
            .delete(
                destroy,
                operation("batch_exports_destroy", TAG, "Delete a batch export and its runs"),
            ),
        )
        .merge(actions())
}

fn actions() -> Routes {
    Routes::new()
        .route(
            "/api/organizations/{organization_id}/batch_exports/{id}/pause/",
            post(
                pause,
                operation("batch_exports_pause_create", TAG, "Pause a batch export"),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/batch_exports/{id}/unpause/",
            post(
                unpause,
                operation("batch_exports_unpause_create", TAG, "Unpause a batch export"),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/batch_exports/{id}/backfill/",
            post(
                backfill,
                operation(
                    "batch_exports_backfill_create",
                    TAG,
                    "Start a backfill of past or missed intervals",
                ),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/batch_exports/{id}/test/",
            post(
                test,
                operation(
                    "batch_exports_test",
                    TAG,
                    "Test a batch export's destination, step by step",
                ),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/batch_exports/{id}/preview/",
            get(
                preview,
                operation(
                    "batch_exports_preview",
                    TAG,
                    "Preview the first rows as they would be delivered",
                ),
            ),
        )
}

async fn list(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadExports>,
    paging: Paging,
) -> Result<Listed<ExportView<'static>>, Problem> {
    let page = service.batch_exports(&caller, paging.window).await?;
    Ok(paging.reply(page.map(ExportView::from)).await)
}

async fn create(
    State(exports): State<Exports>,
    Allowed(caller): Allowed<ChangeExports>,
    Body(new): Body<NewExport>,
) -> Result<Created<ExportView<'static>>, Problem> {
    let seen = exports.create(&caller, &new).await?;
    let location = at(&seen.export, "");
    Ok(Created::new(&ExportView::from(&seen)).at(location))
}

async fn retrieve(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadExports>,
    Id(id): Id<ExportId>,
) -> Result<Reply<ExportView<'static>>, Problem> {
    let seen = service.batch_export(&caller, id).await?;
    Ok(Reply::new(&ExportView::from(&seen)))
}

async fn update(
    State(exports): State<Exports>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(id): Id<ExportId>,
    if_match: IfMatch,
    Body(patch): Body<ExportPatch>,
) -> Result<Reply<ExportView<'static>>, Problem> {
    let precondition = |seen: &ExportSeen| if_match.fits(&ExportView::from(seen));
    let seen = exports.update(&caller, id, &patch, &precondition).await?;
    Ok(Reply::new(&ExportView::from(&seen)))
}

async fn destroy(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(id): Id<ExportId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let precondition = |seen: &ExportSeen| if_match.fits(&ExportView::from(seen));
    service.delete_batch_export(&caller, id, &precondition).await?;
    Ok(NoContent)
}

async fn pause(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(id): Id<ExportId>,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Reply<ExportView<'static>>, Problem> {
    let seen = service.pause_batch_export(&caller, id).await?;
    Ok(Reply::new(&ExportView::from(&seen)))
}

async fn unpause(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(id): Id<ExportId>,
    Body(request): Body<Unpause>,
) -> Result<Reply<ExportView<'static>>, Problem> {
    let seen = service
        .unpause_batch_export(&caller, id, request.backfill.unwrap_or(false))
        .await?;
    Ok(Reply::new(&ExportView::from(&seen)))
}

async fn backfill(
    State(exports): State<Exports>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(id): Id<ExportId>,
    Body(request): Body<BackfillRequest>,
) -> Result<Reply<BackfilledView<'static>>, Problem> {
    let (seen, backfill) = exports.backfill(&caller, id, &request).await?;
    let location = at(&seen.export, &format!("backfills/{}/", backfill.id));
    Ok(Reply::new(&BackfilledView::new(&seen, backfill.id)).at(location))
}

async fn test(
    State(exports): State<Exports>,
    Allowed(caller): Allowed<ChangeExports>,
    Id(id): Id<ExportId>,
) -> Result<Reply<TestView>, Problem> {
    let steps = exports.test(&caller, id).await?;
    Ok(Reply::new(&TestView::from(steps)))
}

async fn test_new(
    State(exports): State<Exports>,
    Allowed(caller): Allowed<ChangeExports>,
    Body(wanted): Body<TestRequest>,
) -> Result<Reply<TestView>, Problem> {
    let steps = exports.test_destination(&caller, &wanted.destination.read()?).await?;
    Ok(Reply::new(&TestView::from(steps)))
}

async fn preview(
    State(exports): State<Exports>,
    Allowed(caller): Allowed<ReadExports>,
    Id(id): Id<ExportId>,
) -> Result<Reply<PreviewView>, Problem> {
    let preview = exports.preview(&caller, id).await?;
    Ok(Reply::new(&PreviewView::from(preview)))
}

fn at(export: &BatchExport, rest: &str) -> String {
    format!(
        "/api/organizations/{}/batch_exports/{}/{rest}",
        export.organization_id, export.id
    )
}

/// The request body is ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{}]))]
pub(crate) struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "backfill": true }]))]
struct Unpause {
    /// Whether to backfill the intervals missed while paused.
    backfill: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "destination": { "type": "NoOp", "config": {} } }]))]
struct TestRequest {
    #[schemars(extend("required" = ["type"]))]
    destination: DestinationInput,
}
