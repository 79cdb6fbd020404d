//! The end of a team's use of an app.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use service::Service;
use service::access::ChangeApps;

use super::collection::AtConfig;
use super::frame::frame_below;
use super::teams::{name_of, teams};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::confirm::ConfirmPage;
use crate::page::{go_to, page_again};
use crate::state::Console;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/{app}/configurations/{config}/delete/",
        get(ask).post(delete),
    )
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtConfig,
) -> Result<Response, Failure> {
    confirm_page(&service, &access, at, &Problems::default()).await
}

async fn delete(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeApps>,
    at: AtConfig,
) -> Result<Response, Failure> {
    let (collection, app) = (at.at.collection(), at.at.app);
    let deleted = service.delete_app_config(&access.caller, collection, app, at.config, &service::no_precondition);
    match deleted.await {
        Ok(()) => Ok(go_to(
            &access.path(&format!("{}?done=configuration-deleted", at.at.path())),
        )),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(&service).await?;
            confirm_page(&service, &access, at, &problems).await
        }
    }
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtConfig,
    problems: &Problems,
) -> Result<Response, Failure> {
    let (collection, id) = (at.at.collection(), at.at.app);
    let app = service.app(&access.caller, collection, id).await?;
    let config = service.app_config(&access.caller, collection, id, at.config).await?;
    let team = name_of(config.team_id, &teams(service, access).await?);
    let call = Call::delete::<ChangeApps>("Delete configuration", access.api(&at.api()));
    let losses = [
        "its settings, including secrets",
        "the app's stored data and queued jobs for this team",
        "its logs",
    ];
    let shown = ConfirmPage {
        frame: frame_below(access, at.at, app.name.to_string()),
        alerts: problems.besides(&[]),
        heading: format!("Delete the configuration for {team}?"),
        text: format!(
            "{} will stop running for {team}. This can't be undone. This will also delete:",
            app.name
        ),
        losses: losses.map(str::to_owned).into(),
        typed: None,
        button: "Delete configuration",
        back: access.path(&at.path()),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}
