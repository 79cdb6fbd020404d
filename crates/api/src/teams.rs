use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use service::access::{ChangeTeams, ReadTeams};
use service::teams::{NewTeam, Team, TeamPatch};
use service::{Service, TeamId};
use uuid::Uuid;

use crate::http::access::Allowed;
use crate::http::body::Body;
use crate::http::conditional::IfMatch;
use crate::http::error::Problem;
use crate::http::operation::operation;
use crate::http::page::{Listed, Paging};
use crate::http::path::Id;
use crate::http::reply::{Created, NoContent, Reply, View};
use crate::http::routing::{Routes, get};
use crate::user::Stamp;

const TAG: &str = "Teams";

pub(crate) fn routes() -> Routes {
    Routes::new()
        .route(
            "/api/organizations/{organization_id}/teams/",
            get(
                list,
                operation("teams_list", TAG, "List the teams of an organization, oldest first"),
            )
            .post(create, operation("teams_create", TAG, "Create a team")),
        )
        .route(
            "/api/organizations/{organization_id}/teams/{id}/",
            get(retrieve, operation("teams_retrieve", TAG, "Retrieve a team"))
                .patch(update, operation("teams_partial_update", TAG, "Update a team"))
                .delete(
                    destroy,
                    operation("teams_destroy", TAG, "Delete a team; the last one cannot be deleted"),
                ),
        )
}

async fn list(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadTeams>,
    paging: Paging,
) -> Result<Listed<TeamView>, Problem> {
    let page = service.teams(&caller, paging.window).await?;
    Ok(paging.reply(page.map(TeamView::from)).await)
}

async fn create(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeTeams>,
    Body(new): Body<NewTeam>,
) -> Result<Created<TeamView>, Problem> {
    let team = service.create_team(&caller, &new).await?;
    let location = format!("/api/organizations/{}/teams/{}/", team.organization_id, team.id);
    Ok(Created::new(&TeamView::from(&team)).at(location))
}

async fn retrieve(
    State(service): State<Service>,
    Allowed(caller): Allowed<ReadTeams>,
    Id(id): Id<TeamId>,
) -> Result<Reply<TeamView>, Problem> {
    let team = service.team(&caller, id).await?;
    Ok(Reply::new(&TeamView::from(&team)))
}

async fn update(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeTeams>,
    Id(id): Id<TeamId>,
    if_match: IfMatch,
    Body(patch): Body<TeamPatch>,
) -> Result<Reply<TeamView>, Problem> {
    let precondition = |team: &Team| if_match.fits(&TeamView::from(team));
    let team = service.update_team(&caller, id, &patch, &precondition).await?;
    Ok(Reply::new(&TeamView::from(&team)))
}

async fn destroy(
    State(service): State<Service>,
    Allowed(caller): Allowed<ChangeTeams>,
    Id(id): Id<TeamId>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let precondition = |team: &Team| if_match.fits(&TeamView::from(team));
    service.delete_team(&caller, id, &precondition).await?;
    Ok(NoContent)
}

/// A team of an organization.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Team")]
#[schemars(extend("examples" = [{
    "id": 1, "uuid": "01a1dd53-efb7-7ca7-ad85-3211db872bca", "organization": "01a1dd53-efb7-7ca7-95d8-a71aa68b4369",
    "name": "Default project", "api_token": "hgp_nf8lyrSwwbVVY8FqNsoGSr0kM5VwOE9C8nR3zL65veJ", "timezone": "UTC",
    "created_at": "2026-11-15T09:30:00.000000Z", "updated_at": "2026-11-15T09:30:00.000000Z"
}]))]
pub(crate) struct TeamView {
    id: i64,
    uuid: Uuid,
    organization: Uuid,
    name: String,
    /// The API token that clients send with events for this team.
    api_token: String,
    timezone: String,
    created_at: Stamp,
    updated_at: Stamp,
}

impl View for TeamView {
    type Doc = Self;
}

impl From<&Team> for TeamView {
    fn from(team: &Team) -> Self {
        Self {
            id: team.id.0,
            uuid: team.uuid,
            organization: team.organization_id.0,
            name: team.name.to_string(),
            api_token: team.api_token.clone(),
            timezone: team.timezone.clone(),
            created_at: Stamp(team.created_at),
            updated_at: Stamp(team.updated_at),
        }
    }
}
