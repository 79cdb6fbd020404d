//! The end of an organization, with everything that goes with it shown first.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::{DeleteOrganization, ReadDomains, ReadExports, ReadInvites, ReadTeams};
use service::{Service, Window};

use super::confirm::{ConfirmPage, is_confirmed, typed_name};
use super::frame::{Frame, Section};
use super::{OrganizationAccess, apps};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::Sent;

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/delete/", get(ask).post(delete))
}

#[derive(Deserialize)]
struct ConfirmForm {
    confirmation: String,
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<DeleteOrganization>,
) -> Result<Response, Failure> {
    confirm_page(&service, &access, &Problems::default()).await
}

async fn delete(
    State(service): State<Service>,
    access: OrganizationAccess<DeleteOrganization>,
    Sent(ConfirmForm { confirmation }): Sent<ConfirmForm>,
) -> Result<Response, Failure> {
    let deleted = match is_confirmed(access.organization.name.as_str(), &confirmation) {
        Ok(()) => {
            service
                .delete_organization(&access.caller, &service::no_precondition)
                .await
        }
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) => Ok(go_to("/organizations/")),
        Err(error) => confirm_page(&service, &access, &Problems::try_from(error)?).await,
    }
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<DeleteOrganization>,
    problems: &Problems,
) -> Result<Response, Failure> {
    let name = access.organization.name.as_str();
    let call = Call::delete::<DeleteOrganization>("Delete the organization", access.api(""));
    let shown = ConfirmPage {
        frame: Frame::new(access, Section::Settings).below(),
        alerts: problems.besides(&["confirmation"]),
        heading: format!("Delete {name}?"),
        text: "This can't be undone. Everyone loses access immediately. This will also delete:".to_owned(),
        losses: losses(service, access).await?,
        typed: Some(typed_name(name, problems)),
        button: "Delete organization",
        back: access.path("settings/"),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}

/// What is there, counted. What there is none of is not named.
async fn losses(service: &Service, access: &OrganizationAccess<DeleteOrganization>) -> Result<Vec<String>, Failure> {
    // The counts come with every page, and of the pages nothing is needed.
    let window = Window::new(Some(1), None);
    let teams = service.teams(&access.also::<ReadTeams>(service).await?, window).await?;
    let invites = service
        .invites(&access.also::<ReadInvites>(service).await?, window)
        .await?;
    let domains = service
        .domains(&access.also::<ReadDomains>(service).await?, window)
        .await?;
    let exports = service
        .batch_exports(&access.also::<ReadExports>(service).await?, window)
        .await?;
    let apps = apps::seen(service, access, window).await?;
    let counts = [
        (access.organization.member_count, "membership"),
        (teams.count, "team"),
        (invites.count, "pending invite"),
        (domains.count, "domain"),
        (exports.count, "batch export"),
        (apps.count, "pipeline app"),
    ];
    let there = counts.into_iter().filter(|(count, _)| *count > 0);
    let mut losses: Vec<String> = there.map(|(count, what)| show::counted(count, what)).collect();
    losses.push("the access of all API keys to it".to_owned());
    Ok(losses)
}
