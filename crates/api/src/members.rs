use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::access::{ChangeMembers, ReadMembers, RemoveMembers};
use service::members::{Member, MemberFilter, MemberPatch, MemberRef};
use service::{Level, Service};
use uuid::Uuid;

use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::query::Query;
use crate::http::reply::{NoContent, Reply, View};
use crate::http::routing::{Routes, get, patch};
use crate::user::{Stamp, UserView};

const TAG: &str = "Members";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/organizations/{organization_id}/members/",
            get(
                list,
                operation("members_list", TAG, "List the members of an organization, newest first"),
            ),
        )
        .route(
            "/api/organizations/{organization_id}/members/{user__uuid}/",
            patch(
                update,
                operation("members_partial_update", TAG, "Update a member's role"),
            )
            .delete(
                destroy,
                operation("members_destroy", TAG, "Remove a member, or leave the organization"),
            ),
        )
}

#[derive(Debug, Deserialize, JsonSchema)]
struct FilterQuery {
    /// Only the member with exactly this email.
    #[schemars(length(max = 254))]
    email: Option<String>,
    /// Only members whose name or email contains this.
    #[schemars(length(max = 200))]
    search: Option<String>,
}

async fn list(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadMembers>,
    paging: Paging,
    Query(FilterQuery { email, search }): Query<FilterQuery>,
) -> Result<Listed<MemberView<'static>>, Problem> {
    let filter = MemberFilter { email, search };
    let page = service.members(&caller, &filter, paging.window).await?;
    Ok(paging.reply(page.map(MemberView::from)).await)
}

async fn update(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeMembers>,
    Id(member): Id<MemberRef>,
    if_match: IfMatch,
    Body(patch): Body<MemberPatch>,
) -> Result<Reply<MemberView<'static>>, Problem> {
    let precondition = |member: &Member| if_match.fits(&MemberView::from(member));
    let member = service.update_member(&caller, member, &patch, &precondition).await?;
    Ok(Reply::new(&MemberView::from(&member)))
}

async fn destroy(
    State(service): State<Service>,
    Allowed(caller): Allowed<RemoveMembers>,
    Id(member): Id<MemberRef>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let precondition = |member: &Member| if_match.fits(&MemberView::from(member));
    service.delete_member(&caller, member, &precondition).await?;
    Ok(NoContent)
}

/// A member of an organization.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrganizationMember")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-8219-0522c793c6d2", "user": {
        "id": 1, "uuid": "01a1dd53-efb7-7ca7-9d85-3211db872bca", "distinct_id": "8nR3zL65veJ", "first_name": "Olga",
        "last_name": "Owner", "email": "olga@example.com", "is_email_verified": false, "hedgehog_config": {}
    },
    "level": 15, "joined_at": "2026-11-15T09:30:00.000000Z", "updated_at": "2026-11-15T09:30:00.000000Z",
    "is_2fa_enabled": false, "has_social_auth": false
}]))]
pub(crate) struct MemberView<'a> {
    id: Uuid,
    user: UserView<'a>,
    level: Level,
    joined_at: Stamp,
    updated_at: Stamp,
    is_2fa_enabled: bool,
    has_social_auth: bool,
}

impl View for MemberView<'_> {
    type Doc = MemberView<'static>;
}

impl<'a> From<&'a Member> for MemberView<'a> {
    fn from(member: &'a Member) -> Self {
        Self {
            id: member.id.0,
            user: UserView::from(&member.user),
            level: member.level,
            joined_at: Stamp(member.joined_at),
            updated_at: Stamp(member.updated_at),
            is_2fa_enabled: member.is_2fa_enabled,
            has_social_auth: member.has_social_auth,
        }
    }
}
