//! What concerns the whole instance, for its operators.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use service::operators::{InstanceOrganizationPatch, NewOperator};
use service::organizations::Organization;
use service::{OrganizationId, Service, UserUuid};
use uuid::Uuid;

use crate::http::access::Operator;
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::reply::{Created, NoContent, Reply, View};
use crate::http::routing::{Routes, delete, get, patch};
use crate::user::{Stamp, UserView};

const TAG: &str = "Instance";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/instance/operators/",
            get(
                operators,
                operation("instance_operators_list", TAG, "List the operators of this instance"),
            )
            .post(
                add_operator,
                operation("instance_operators_create", TAG, "Add an operator"),
            ),
        )
        .route(
            "/api/instance/operators/{user__uuid}/",
            delete(
                remove_operator,
                operation("instance_operators_destroy", TAG, "Remove an operator"),
            ),
        )
        .route(
            "/api/instance/organizations/",
            get(
                organizations,
                operation(
                    "instance_organizations_list",
                    TAG,
                    "List all organizations of this instance, newest first",
                ),
            ),
        )
        .route(
            "/api/instance/organizations/{id}/",
            patch(
                update_organization,
                operation(
                    "instance_organizations_partial_update",
                    TAG,
                    "Update an organization's access to pipeline apps",
                ),
            ),
        )
}

async fn operators(
    State(service): State<Service>,
    Operator(operator): Operator,
    paging: Paging,
) -> Result<Listed<UserView<'static>>, Problem> {
    let page = service.operators(&operator, paging.window).await?;
    Ok(paging.reply(page.map(UserView::from)).await)
}

async fn add_operator(
    State(service): State<Service>,
    Operator(operator): Operator,
    Body(new): Body<NewOperator>,
) -> Result<Created<UserView<'static>>, Problem> {
    let user = service.add_operator(&operator, &new).await?;
    let location = format!("/api/instance/operators/{}/", user.uuid);
    Ok(Created::new(&UserView::from(&user)).at(location))
}

async fn remove_operator(
    State(service): State<Service>,
    Operator(operator): Operator,
    Id(user): Id<UserUuid>,
) -> Result<NoContent, Problem> {
    service.remove_operator(&operator, user).await?;
    Ok(NoContent)
}

async fn organizations(
    State(service): State<Service>,
    Operator(operator): Operator,
    paging: Paging,
) -> Result<Listed<InstanceOrganizationView>, Problem> {
    let page = service.instance_organizations(&operator, paging.window).await?;
    Ok(paging.reply(page.map(InstanceOrganizationView::from)).await)
}

async fn update_organization(
    State(service): State<Service>,
    Operator(operator): Operator,
    Id(id): Id<OrganizationId>,
    if_match: IfMatch,
    Body(patch): Body<InstanceOrganizationPatch>,
) -> Result<Reply<InstanceOrganizationView>, Problem> {
    let precondition = |organization: &Organization| if_match.fits(&InstanceOrganizationView::from(organization));
    let organization = service
        .update_instance_organization(&operator, id, &patch, &precondition)
        .await?;
    Ok(Reply::new(&InstanceOrganizationView::from(&organization)))
}

/// An organization, as operators of the instance see it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "InstanceOrganization")]
#[schemars(extend("examples" = [{
    "id": "01a1dd53-efb7-7ca7-95d8-a71aa68b4369", "name": "Acme", "slug": "acme", "plugins_access_level": 9,
    "member_count": "1", "created_at": "2026-11-15T09:30:00.000000Z", "updated_at": "2026-11-15T09:30:00.000000Z"
}]))]
struct InstanceOrganizationView {
    id: Uuid,
    name: String,
    slug: String,
    /// Its members' access to pipeline apps: 0 none, 3 configure, 6 install, 9 root.
    plugins_access_level: i16,
    /// A decimal number as a string.
    member_count: String,
    created_at: Stamp,
    updated_at: Stamp,
}

impl View for InstanceOrganizationView {
    type Doc = Self;
}

impl From<&Organization> for InstanceOrganizationView {
    fn from(organization: &Organization) -> Self {
        Self {
            id: organization.id.0,
            name: organization.name.to_string(),
            slug: organization.slug.clone(),
            plugins_access_level: organization.plugins_access_level,
            member_count: organization.member_count.to_string(),
            created_at: Stamp(organization.created_at),
            updated_at: Stamp(organization.updated_at),
        }
    }
}
