//! Trying what a run would need of an export's destination.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use exports::Exports;
use service::access::ChangeExports;
use service::{ExportId, Service};

use super::connection_test::ConnectionTest;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::page_again;
use crate::state::Console;
use crate::visitor::Id;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/exports/{export}/test/",
        get(ask).post(test),
    )
}

#[derive(Template)]
#[template(path = "organization/exports/test.html")]
struct TestPage {
    frame: Frame,
    alerts: Vec<String>,
    name: String,
    kind: &'static str,
    path: String,
    connection_test: Option<ConnectionTest>,
    curl: AsCurl,
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeExports>,
    Id(id): Id<ExportId>,
) -> Result<Response, Failure> {
    test_page(&service, &access, id, None, &Problems::default()).await
}

async fn test(
    State(service): State<Service>,
    State(exports): State<Exports>,
    access: OrganizationAccess<ChangeExports>,
    Id(id): Id<ExportId>,
) -> Result<Response, Failure> {
    match exports.test(&access.caller, id).await {
        Ok(steps) => {
            let connection_test = Some(ConnectionTest::new(&steps));
            test_page(&service, &access, id, connection_test, &Problems::default()).await
        }
        Err(error) => test_page(&service, &access, id, None, &Problems::try_from(error)?).await,
    }
}

async fn test_page(
    service: &Service,
    access: &OrganizationAccess<ChangeExports>,
    id: ExportId,
    connection_test: Option<ConnectionTest>,
    problems: &Problems,
) -> Result<Response, Failure> {
    let export = service.batch_export(&access.caller, id).await?.export;
    let below = format!("exports/{id}/");
    let api = access.api(&format!("batch_exports/{id}/test/"));
    let shown = TestPage {
        frame: Frame::new(access, Section::Exports)
            .below()
            .through(&below, export.name.to_string()),
        alerts: problems.besides(&[]),
        name: export.name.to_string(),
        kind: export.kind.title(),
        path: access.path(&below),
        connection_test,
        curl: AsCurl::new(service, [Call::post::<ChangeExports>("Test the export", api)]),
    };
    Ok(page_again(problems, &shown))
}
