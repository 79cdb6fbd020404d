use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Serialize;
use service::access::{ReadInvites, WriteInvites};
use service::invites::{Fresh, Invite, NewInvite};
use service::{InviteId, Level, Service, Time};
use uuid::Uuid;

use crate::http::access::Allowed;
use crate::http::body::{Body, OneOrMany};
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::reply::{Created, NoContent, Reply, View};
use crate::http::routing::{Routes, delete, get, post};
use crate::http::state::Api;
use crate::user::{Stamp, UserView};

const TAG: &str = "Invites";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/organizations/{organization_id}/invites/",
            get(list, operation("invites_list", TAG, "List invites, newest first"))
                .post(create, operation("invites_create", TAG, "Create an invite")),
        )
        .route(
            "/api/organizations/{organization_id}/invites/bulk/",
            post(
                bulk,
                operation("invites_bulk", TAG, "Create several invites, all or none"),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/invites/{id}/",
            delete(destroy, operation("invites_destroy", TAG, "Revoke an invite")),
        )
        .route(
            "/api/organizations/{organization_id}/invites/{id}/resend/",
            post(
                resend,
                operation("invites_resend", TAG, "Resend an invite with a new link and expiration"),
            ),
        )
}

async fn list(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadInvites>,
    paging: Paging,
) -> Result<Listed<InviteView<'static>>, Problem> {
    let page = service.invites(&caller, paging.window).await?;
    let now = service.clock().now();
    Ok(paging.reply(page.map(|invite| InviteView::new(invite, now))).await)
}

async fn create(
    State(service): State<Service>,
    Allowed(caller): Allowed<WriteInvites>,
    base: Base,
    Body(new): Body<NewInvite>,
) -> Result<Created<InviteView<'static>>, Problem> {
    let made = service.create_invite(&caller, &new).await?;
    let now = service.clock().now();
    let location = format!("/api/organizations/{}/invites/{}/", caller.organization, made.invite.id);
    Ok(Created::new(&base.fresh(&made, now))
        .kept_as(&InviteView::new(&made.invite, now))
        .at(location))
}

async fn bulk(
    State(service): State<Service>,
    Allowed(caller): Allowed<WriteInvites>,
    base: Base,
    new: OneOrMany<NewInvite>,
) -> Result<Reply<BulkView<'static>>, Problem> {
    let made = match new {
        OneOrMany::One(new) => vec![service.create_invite(&caller, &new).await?],
        OneOrMany::Many(new) => service.create_invites(&caller, &new).await?,
    };
    let now = service.clock().now();
    let shown = made.iter().map(|fresh| base.fresh(fresh, now)).collect();
    let kept = made.iter().map(|fresh| InviteView::new(&fresh.invite, now)).collect();
    Ok(Reply::new(&BulkView::of(shown)).kept_as(&BulkView::of(kept)))
}

async fn resend(
    State(service): State<Service>,
    Allowed(caller): Allowed<WriteInvites>,
    base: Base,
    Id(id): Id<InviteId>,
) -> Result<Reply<InviteView<'static>>, Problem> {
    let fresh = service.resend_invite(&caller, id).await?;
    let now = service.clock().now();
    Ok(Reply::new(&base.fresh(&fresh, now)).kept_as(&InviteView::new(&fresh.invite, now)))
}

async fn destroy(
    State(service): State<Service>,
    Allowed(caller): Allowed<WriteInvites>,
    Id(id): Id<InviteId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let now = service.clock().now();
    let precondition = |invite: &Invite| if_match.fits(&InviteView::new(invite, now));
    service.delete_invite(&caller, id, &precondition).await?;
    Ok(NoContent)
}

/// Where links begin.
struct Base(String);

impl FromRequestParts<Api> for Base {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        Ok(Self(api.settings.base_url(parts)))
    }
}

impl aide::OperationInput for Base {}

impl Base {
    fn fresh<'a>(&self, Fresh { invite, token, .. }: &'a Fresh, now: Time) -> InviteView<'a> {
        InviteView {
            invite_link: Some(Service::invite_link(&self.0, token)),
            ..InviteView::new(invite, now)
        }
    }
}

/// An invite to join an organization.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OrganizationInvite")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-8219-0522c793c6d2", "target_email": "ann@example.com", "first_name": "Ann",
    "emailing_attempt_made": false, "emailing_error": null, "level": 1, "is_expired": false, "created_by": null,
    "created_at": "2026-11-15T09:30:00.000000Z", "updated_at": "2026-11-15T09:30:00.000000Z",
    "expires_at": "2026-11-18T09:30:00.000000Z", "message": "", "invite_link": null
}]))]
pub(crate) struct InviteView<'a> {
    id: Uuid,
    #[schemars(email)]
    target_email: &'a str,
    first_name: &'a str,
    /// Whether sending an email was attempted.
    emailing_attempt_made: bool,
    /// Why the email was not delivered, if it was not.
    emailing_error: Option<&'a str>,
    level: Level,
    is_expired: bool,
    created_by: Option<UserView<'a>>,
    created_at: Stamp,
    updated_at: Stamp,
    expires_at: Stamp,
    message: &'a str,
    /// The link to accept it: only in the response that creates or resends it, otherwise null.
    invite_link: Option<String>,
}

impl View for InviteView<'_> {
    type Doc = InviteView<'static>;
}

impl<'a> InviteView<'a> {
    fn new(invite: &'a Invite, now: Time) -> Self {
        Self {
            id: invite.id.0,
            target_email: &invite.target_email,
            first_name: &invite.first_name,
            emailing_attempt_made: invite.emailing_attempt_made,
            emailing_error: invite.emailing_error.as_deref(),
            level: invite.level,
            is_expired: invite.is_expired(now),
            created_by: invite.created_by.as_ref().map(UserView::from),
            created_at: Stamp(invite.created_at),
            updated_at: Stamp(invite.updated_at),
            expires_at: Stamp(invite.expires_at),
            message: &invite.message,
            invite_link: None,
        }
    }
}

/// The first of the created invites, and all of them in the order of the request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrganizationInvites")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-8219-0522c793c6d2", "target_email": "ann@example.com", "first_name": "Ann",
    "emailing_attempt_made": false, "emailing_error": null, "level": 1, "is_expired": false, "created_by": null,
    "created_at": "2026-11-15T09:30:00.000000Z", "updated_at": "2026-11-15T09:30:00.000000Z",
    "expires_at": "2026-11-18T09:30:00.000000Z", "message": "", "invite_link": null,
    "count": 1, "results": [{
    "id": "01a1dd53-efb7-7ca7-8219-0522c793c6d2", "target_email": "ann@example.com", "first_name": "Ann",
    "emailing_attempt_made": false, "emailing_error": null, "level": 1, "is_expired": false, "created_by": null,
    "created_at": "2026-11-15T09:30:00.000000Z", "updated_at": "2026-11-15T09:30:00.000000Z",
    "expires_at": "2026-11-18T09:30:00.000000Z", "message": "", "invite_link": null
    }]
}]))]
pub(crate) struct BulkView<'a> {
    #[serde(flatten)]
    first: InviteView<'a>,
    count: usize,
    results: Vec<InviteView<'a>>,
}

impl View for BulkView<'_> {
    type Doc = BulkView<'static>;
}

impl<'a> BulkView<'a> {
    fn of(results: Vec<InviteView<'a>>) -> Self {
        Self {
            first: results[0].clone(),
            count: results.len(),
            results,
        }
    }
}
