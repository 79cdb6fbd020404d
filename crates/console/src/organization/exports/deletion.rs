//! The end of an export, with what goes with it shown first.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use service::access::{ChangeExports, ReadExports};
use service::batch_exports::RunFilter;
use service::{ExportId, Service, Window};

use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::confirm::ConfirmPage;
use crate::organization::frame::{Frame, Section};
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::Id;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/exports/{export}/delete/",
        get(ask).post(delete),
    )
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeExports>,
    Id(id): Id<ExportId>,
) -> Result<Response, Failure> {
    confirm_page(&service, &access, id, &Problems::default()).await
}

async fn delete(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeExports>,
    Id(id): Id<ExportId>,
) -> Result<Response, Failure> {
    match service
        .delete_batch_export(&access.caller, id, &service::no_precondition)
        .await
    {
        Ok(()) => Ok(go_to(&access.path("exports/?done=export-deleted"))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(&service).await?;
            confirm_page(&service, &access, id, &problems).await
        }
    }
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeExports>,
    id: ExportId,
    problems: &Problems,
) -> Result<Response, Failure> {
    let export = service.batch_export(&access.caller, id).await?.export;
    let below = format!("exports/{id}/");
    let call = Call::delete::<ChangeExports>("Delete the export", access.api(&format!("batch_exports/{id}/")));
    let shown = ConfirmPage {
        frame: Frame::new(access, Section::Exports)
            .below()
            .through(&below, export.name.to_string()),
        alerts: problems.besides(&[]),
        heading: format!("Delete export {}?", export.name),
        text: "This can't be undone. What was delivered stays at the destination. This will also delete:".to_owned(),
        losses: losses(service, access, id).await?,
        typed: None,
        button: "Delete export",
        back: access.path(&below),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}

async fn losses(
    service: &Service,
    access: &OrganizationAccess<ChangeExports>,
    id: ExportId,
) -> Result<Vec<String>, Failure> {
    let reader = access.also::<ReadExports>(service).await?;
    // The count comes with every page, and of the page nothing is needed.
    let runs = service
        .runs(&reader, id, &RunFilter::default(), Window::new(Some(1), None))
        .await?;
    let mut losses = vec!["its settings, including secrets".to_owned()];
    if runs.count > 0 {
        let counted = show::counted(runs.count, "run");
        losses.push(format!("the history of {counted}, including logs and backfills"));
    }
    Ok(losses)
}
