//! Pausing an export, and letting it go on.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use serde::Deserialize;
use service::access::ChangeExports;
use service::{ExportId, Service};

use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::page::go_to;
use crate::state::Console;
use crate::visitor::{Id, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/exports/{export}/pause/", post(pause))
        .route("/organizations/{organization}/exports/{export}/unpause/", post(unpause))
}

async fn pause(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeExports>,
    Id(export): Id<ExportId>,
) -> Result<Response, Failure> {
    service.pause_batch_export(&access.caller, export).await?;
    Ok(go_to(&access.path(&format!("exports/{export}/?done=paused"))))
}

#[derive(Deserialize)]
struct UnpauseForm {
    /// Whether what passed in the meantime is delivered, too. Boxes that are not ticked send nothing.
    also_backfill: Option<String>,
}

async fn unpause(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeExports>,
    Id(export): Id<ExportId>,
    Sent(form): Sent<UnpauseForm>,
) -> Result<Response, Failure> {
    let also_backfill = form.also_backfill.is_some();
    service
        .unpause_batch_export(&access.caller, export, also_backfill)
        .await?;
    let done = if also_backfill {
        "unpaused-with-backfill"
    } else {
        "unpaused"
    };
    Ok(go_to(&access.path(&format!("exports/{export}/?done={done}"))))
}
