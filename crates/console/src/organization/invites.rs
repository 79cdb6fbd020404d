//! Invites that wait to be accepted: the list, sending one again, and taking one back.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use service::access::{Permission, ReadInvites, WriteInvites};
use service::invites::{Fresh, Invite};
use service::{Error, InviteId, Level, Service, Time};

use super::OrganizationAccess;
use super::frame::{Frame, Section};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::page::{go_to, page, page_again, with_next};
use crate::paging::{PageNumber, Pages};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, InQuery};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/invites/", get(list))
        .route("/organizations/{organization}/invites/{invite}/resend/", post(resend))
        .route("/organizations/{organization}/invites/{invite}/revoke/", post(revoke))
}

#[derive(Template)]
#[template(path = "organization/invites.html")]
struct InvitesPage {
    frame: Frame,
    alerts: Vec<String>,
    invites: Vec<Row>,
    pages: Pages,
    sends_mail: bool,
    curl: AsCurl,
}

struct Row {
    id: InviteId,
    email: String,
    first_name: String,
    level: &'static str,
    sender: String,
    sent: String,
    expires: String,
    expires_exactly: String,
    is_expired: bool,
    /// Why delivery failed, if it did.
    mail_problem: Option<String>,
    may_revoke: bool,
    may_resend: bool,
}

impl Row {
    fn new<P>(invite: &Invite, access: &OrganizationAccess<P>, now: Time) -> Self {
        let you = access.caller.user;
        let is_sender = invite.created_by.as_ref().is_some_and(|user| user.id == you);
        Self {
            id: invite.id,
            email: invite.target_email.clone(),
            first_name: invite.first_name.clone(),
            level: show::level(invite.level),
            sender: invite
                .created_by
                .as_ref()
                .map_or_else(|| "a former member".to_owned(), service::users::User::called),
            sent: show::ago(invite.updated_at, now),
            expires: show::until(invite.expires_at, now),
            expires_exactly: show::exactly(invite.expires_at),
            is_expired: invite.is_expired(now),
            mail_problem: invite.emailing_error.as_deref().map(show::sentence),
            may_revoke: is_sender || access.caller.level >= Level::Admin,
            may_resend: access.caller.level >= invite.level,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct InvitesQuery {
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadInvites>,
    InQuery(asked): InQuery<InvitesQuery>,
) -> Result<Response, Failure> {
    invites_page(&service, &access, &asked, &Problems::default()).await
}

async fn invites_page<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    asked: &InvitesQuery,
    problems: &Problems,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    let reader = access.also::<ReadInvites>(service).await?;
    let invites = service.invites(&reader, place.window()).await?;
    let now = service.clock().now();
    let rows = invites.items.iter().map(|invite| Row::new(invite, access, now));
    let shown = InvitesPage {
        frame: Frame::new(access, Section::Invites).noting(&asked.done),
        alerts: problems.besides(&[]),
        invites: rows.collect(),
        pages: Pages::new(&access.path("invites/"), &[], place, invites.count),
        sends_mail: service.instance().sends_mail,
        curl: AsCurl::new(service, calls(access, invites.items.first())),
    };
    Ok(page_again(problems, &shown))
}

/// The buttons stand beside each invite; the commands name the first as the example.
fn calls<P: Permission>(access: &OrganizationAccess<P>, example: Option<&Invite>) -> Vec<Call> {
    let mut calls = vec![Call::get::<ReadInvites>("List the invites", access.api("invites/"))];
    if let Some(invite) = example {
        let api = access.api(&format!("invites/{}/", invite.id));
        calls.push(Call::post::<WriteInvites>(
            "Resend the first one",
            format!("{api}resend/"),
        ));
        calls.push(Call::delete::<WriteInvites>("Revoke the first one", api));
    }
    calls
}

/// An invite's one sight of its link.
#[derive(Template)]
#[template(path = "organization/invites_created.html")]
pub(super) struct CreatedPage {
    frame: Frame,
    heading: String,
    text: &'static str,
    links: Vec<Link>,
    curl: AsCurl,
}

struct Link {
    email: String,
    url: String,
    expires: String,
}

impl CreatedPage {
    pub(super) fn new(
        service: &Service,
        access: &OrganizationAccess<WriteInvites>,
        fresh: &[Fresh],
        heading: String,
        is_mailed: bool,
        call: Call,
    ) -> Self {
        let instance = service.instance();
        let links = fresh.iter().map(|Fresh { invite, token, .. }| Link {
            email: invite.target_email.clone(),
            url: Service::invite_link(&instance.site_url, token),
            expires: show::day(invite.expires_at),
        });
        let text = if is_mailed && instance.sends_mail {
            "Each person gets an email with their link. The links are also shown here, only once. Each link works only for \
             its recipient."
        } else {
            "No email is sent: share each link yourself. They are shown only once. Each link works only for its recipient."
        };
        Self {
            frame: Frame::new(access, Section::Invites).below(),
            heading,
            text,
            links: links.collect(),
            curl: AsCurl::new(service, [call]),
        }
    }
}

async fn resend(
    State(service): State<Service>,
    access: OrganizationAccess<WriteInvites>,
    Id(id): Id<InviteId>,
) -> Result<Response, Failure> {
    match service.resend_invite(&access.caller, id).await {
        Ok(fresh) => {
            let call = Call::post::<WriteInvites>("Resend the invite", access.api(&format!("invites/{id}/resend/")));
            let heading = format!("New link for {}", fresh.invite.target_email);
            Ok(page(&CreatedPage::new(
                &service,
                &access,
                &[fresh],
                heading,
                true,
                call,
            )))
        }
        // The button has no page of its own to come back to.
        Err(Error::ReauthenticationNeeded) => Ok(go_to(&with_next("/login/confirm/", &access.path("invites/")))),
        Err(error) => refused(&service, &access, error).await,
    }
}

async fn revoke(
    State(service): State<Service>,
    access: OrganizationAccess<WriteInvites>,
    Id(id): Id<InviteId>,
) -> Result<Response, Failure> {
    match service
        .delete_invite(&access.caller, id, &service::no_precondition)
        .await
    {
        Ok(()) => Ok(go_to(&access.path("invites/?done=revoked"))),
        Err(error) => refused(&service, &access, error).await,
    }
}

async fn refused(
    service: &Service,
    access: &OrganizationAccess<WriteInvites>,
    error: Error,
) -> Result<Response, Failure> {
    let problems = Problems::try_from(error)?;
    invites_page(service, access, &InvitesQuery::default(), &problems).await
}
