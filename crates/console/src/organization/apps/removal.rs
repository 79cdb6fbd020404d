//! The end of an app, with everything that goes with it.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::{ChangeApps, ReadApps};
use service::pipeline::App;
use service::{Service, Window};

use super::collection::AtApp;
use super::frame::frame_below;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::confirm::{ConfirmPage, is_confirmed, typed_name};
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::Sent;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/apps/{collection}/{app}/delete/",
        get(ask).post(delete),
    )
}

#[derive(Deserialize)]
struct ConfirmForm {
    confirmation: String,
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeApps>,
    at: AtApp,
) -> Result<Response, Failure> {
    let app = service.app(&access.caller, at.collection(), at.app).await?;
    confirm_page(&service, &access, at, &app, &Problems::default()).await
}

async fn delete(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeApps>,
    at: AtApp,
    Sent(ConfirmForm { confirmation }): Sent<ConfirmForm>,
) -> Result<Response, Failure> {
    // The rest may be large, and is not kept while the deletion waits for others.
    let name = service.app(&access.caller, at.collection(), at.app).await?.name;
    let deleted = match is_confirmed(name.as_str(), &confirmation) {
        Ok(()) => {
            service
                .delete_app(&access.caller, at.collection(), at.app, &service::no_precondition)
                .await
        }
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) => Ok(go_to(
            &access.path(&format!("{}?done=app-deleted", at.collection.path())),
        )),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(&service).await?;
            let app = service.app(&access.caller, at.collection(), at.app).await?;
            confirm_page(&service, &access, at, &app, &problems).await
        }
    }
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeApps>,
    at: AtApp,
    app: &App,
    problems: &Problems,
) -> Result<Response, Failure> {
    let call = Call::delete::<ChangeApps>("Delete app", access.api(&at.api()));
    let shown = ConfirmPage {
        frame: frame_below(access, at, app.name.to_string()),
        alerts: problems.besides(&["confirmation"]),
        heading: format!("Delete {}?", app.name),
        text: "This can't be undone. This will also delete:".to_owned(),
        losses: losses(service, access, at).await?,
        typed: Some(typed_name(app.name.as_str(), problems)),
        button: "Delete app",
        back: access.path(&at.path()),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}

async fn losses(service: &Service, access: &OrganizationAccess<ChangeApps>, at: AtApp) -> Result<Vec<String>, Failure> {
    let reader = access.also::<ReadApps>(service).await?;
    let one = Window::new(Some(1), None);
    let configs = service.app_uses(&reader, at.collection(), at.app, one).await?.count;
    let mut losses = vec!["its code and all saved versions".to_owned()];
    if configs > 0 {
        losses.push(format!(
            "{}, including secrets and logs",
            show::counted(configs, "configuration")
        ));
        losses.push("the app's stored data and queued jobs".to_owned());
    }
    Ok(losses)
}
