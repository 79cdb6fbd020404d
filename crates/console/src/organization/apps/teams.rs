//! The teams that use apps.

use service::access::{Permission, ReadTeams};
use service::{Service, TeamId, Window};

use crate::failure::Failure;
use crate::organization::OrganizationAccess;

/// The teams to choose from, oldest first, by what they are called.
pub(super) async fn teams<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
) -> Result<Vec<(TeamId, String)>, Failure> {
    let reader = access.also::<ReadTeams>(service).await?;
    let window = Window::new(Some(Window::MAX_LIMIT), None);
    let teams = service.teams(&reader, window).await?.items;
    Ok(teams.into_iter().map(|team| (team.id, team.name.to_string())).collect())
}

pub(super) fn name_of(team: TeamId, teams: &[(TeamId, String)]) -> String {
    let found = teams.iter().find(|(id, _)| *id == team);
    found.map_or_else(|| format!("Team {team}"), |(_, name)| name.clone())
}
