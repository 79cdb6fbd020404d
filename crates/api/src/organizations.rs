use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use service::Service;
use service::access::{ChangeOrganization, CreateOrganization, DeleteOrganization, ReadOrganization};
use service::organizations::{FEATURES, Feature, NewOrganization, OrganizationPatch, Seen};
use uuid::Uuid;

use crate::http::access::{Allowed, Principal};
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::reply::{Created, NoContent, Reply, View};
use crate::http::routing::{Routes, get};
use crate::teams::TeamView;
use crate::user::Stamp;

const TAG: &str = "Organizations";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/organizations/",
            get(
                list,
                operation("organizations_list", TAG, "List your organizations, newest first"),
            )
            .post(
                create,
                operation(
                    "organizations_create",
                    TAG,
                    "Create an organization with you as its owner",
                ),
            ),
        )
        .route(
            "/api/organizations/{id}/",
            get(
                retrieve,
                operation("organizations_retrieve", TAG, "Retrieve an organization"),
            )
            .patch(
                update,
                operation("organizations_partial_update", TAG, "Update an organization"),
            )
            .delete(
                destroy,
                operation(
                    "organizations_destroy",
                    TAG,
                    "Delete an organization and everything in it",
                ),
            ),
        )
}

async fn list(
    State(service): State<Service>,
    Principal(principal): Principal<ReadOrganization>,
    paging: Paging,
) -> Result<Listed<OrganizationView>, Problem> {
    let page = service.organizations(&principal, paging.window).await?;
    Ok(paging.reply(page.map(OrganizationView::from)).await)
}

async fn create(
    State(service): State<Service>,
    Principal(principal): Principal<CreateOrganization>,
    Body(new): Body<NewOrganization>,
) -> Result<Created<OrganizationView>, Problem> {
    let seen = service.create_organization(&principal, &new).await?;
    let location = format!("/api/organizations/{}/", seen.organization.id);
    Ok(Created::new(&OrganizationView::from(&seen)).at(location))
}

async fn retrieve(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadOrganization>,
) -> Result<Reply<OrganizationView>, Problem> {
    let seen = service.organization(&caller).await?;
    Ok(Reply::new(&OrganizationView::from(&*seen)))
}

async fn update(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeOrganization>,
    if_match: IfMatch,
    Body(patch): Body<OrganizationPatch>,
) -> Result<Reply<OrganizationView>, Problem> {
    let precondition = |seen: &Seen| if_match.fits(&OrganizationView::from(seen));
    let seen = service.update_organization(&caller, &patch, &precondition).await?;
    Ok(Reply::new(&OrganizationView::from(&seen)))
}

async fn destroy(
    State(service): State<Service>,
    Allowed(caller): Allowed<DeleteOrganization>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let precondition = |seen: &Seen| if_match.fits(&OrganizationView::from(seen));
    service.delete_organization(&caller, &precondition).await?;
    Ok(NoContent)
}

/// An organization.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Organization")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-95d8-a71aa68b4369", "name": "Acme", "slug": "acme",
    "created_at": "2026-11-15T09:30:00.000000Z", "updated_at": "2026-11-15T09:30:00.000000Z",
    "membership_level": 15, "plugins_access_level": 9, "teams": [],
    "available_product_features": [{ "key": "audit_logs", "name": "Activity log" }],
    "is_member_join_email_enabled": true, "metadata": "{}", "customer_id": null, "enforce_2fa": false,
    "member_count": "1"
}]))]
pub(crate) struct OrganizationView {
    id: Uuid,
    name: String,
    /// Created from the name; does not change when the name changes.
    slug: String,
    created_at: Stamp,
    updated_at: Stamp,
    /// Your role: 1 member, 8 administrator, 15 owner.
    membership_level: i16,
    /// Access to pipeline apps: 0 none, 3 configure, 6 install, 9 root.
    plugins_access_level: i16,
    teams: Vec<TeamView>,
    available_product_features: &'static [Feature],
    is_member_join_email_enabled: bool,
    /// A JSON object as a string.
    metadata: String,
    customer_id: Option<String>,
    enforce_2fa: bool,
    /// A decimal number as a string.
    member_count: String,
}

impl View for OrganizationView {
    type Doc = Self;
}

impl From<&Seen> for OrganizationView {
    fn from(
        Seen {
            organization,
            level,
            teams,
        }: &Seen,
    ) -> Self {
        Self {
            id: organization.id.0,
            name: organization.name.to_string(),
            slug: organization.slug.clone(),
            created_at: Stamp(organization.created_at),
            updated_at: Stamp(organization.updated_at),
            membership_level: i16::from(*level),
            plugins_access_level: organization.plugins_access_level,
            teams: teams.iter().map(TeamView::from).collect(),
            available_product_features: &FEATURES,
            is_member_join_email_enabled: organization.is_member_join_email_enabled,
            metadata: organization.metadata.clone(),
            customer_id: organization.customer_id.clone(),
            enforce_2fa: organization.enforce_2fa,
            member_count: organization.member_count.to_string(),
        }
    }
}
