use boxed::boxed;

use super::{NewTeam, TOKEN_PREFIX, Team, TeamPatch, TeamToken, sql};
use crate::access::{Caller, ChangeTeams, ReadTeams};
use crate::activity::Entry;
use crate::cache::{CacheKey, Load};
use crate::error::{Error, Result};
use crate::id::{OrganizationId, TeamId};
use crate::limits::Action;
use crate::organizations;
use crate::page::{Page, Window};
use crate::text::Name;
use crate::transaction::WriteTx;
use crate::{Precondition, Service};

/// Lists have all of them, and whoever sees an organization sees its teams.
const MAX_TEAMS: i64 = 200;

impl Service {
    /// Oldest first: the first is the one that exports go to unless told otherwise.
    #[boxed]
    pub async fn teams(&self, caller: &Caller<ReadTeams>, window: Window) -> Result<Page<Team>> {
        let mut teams = sql::of_organization(&mut self.core.store.read().await?, caller.organization).await?;
        teams.retain(|team| caller.may_see_team(team.id));
        Ok(Page::cut(teams, window))
    }

    #[boxed]
    pub async fn team(&self, caller: &Caller<ReadTeams>, id: TeamId) -> Result<Team> {
        let team = sql::find(&mut self.core.store.read().await?, caller.organization, id).await?;
        team.filter(|team| caller.may_see_team(team.id))
            .ok_or(Error::NotFound("team"))
    }

    /// The team that this token lets events in to. A token that is gone lets in nothing from the next request on.
    #[boxed]
    pub async fn team_by_token(&self, token: &str) -> Result<Option<TeamToken>> {
        let seen = self.core.store.version(false).await;
        let load = || -> Load<'_, TeamToken> {
            Box::pin(async {
                let found = sql::by_token(&mut self.core.store.read().await?, token).await?;
                // Only what exists is remembered, or made-up tokens would push it out.
                found.ok_or(Error::NotFound("team"))
            })
        };
        let key = CacheKey::Team(auth::key::hash(token));
        match self.get_or_load(seen, key, load).await {
            Ok(found) => Ok(Some(*found)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Any team, for the command line.
    #[boxed]
    pub async fn team_by_id(&self, id: TeamId) -> Result<Option<TeamToken>> {
        sql::by_id(&mut self.core.store.read().await?, id).await
    }

    /// The oldest team of an organization, for the command line.
    #[boxed]
    pub async fn first_team(&self, organization: OrganizationId) -> Result<Option<Team>> {
        let teams = sql::of_organization(&mut self.core.store.read().await?, organization).await?;
        Ok(teams.into_iter().next())
    }

    #[boxed]
    pub async fn create_team(&self, caller: &Caller<ChangeTeams>, new: &NewTeam) -> Result<Team> {
        let timezone = new.timezone.as_ref().map(super::Timezone::known).transpose()?;
        let mut db = self.write().await?;
        organizations::sql::lock(&mut db, caller.organization).await?;
        room_for_team(&mut db, caller.organization).await?;
        self.count_created(&mut db, caller, Action::Team).await?;
        let mut team = fresh(&db, caller.organization, new.name.clone());
        team.timezone = timezone.unwrap_or(team.timezone);
        sql::insert(&mut db, &mut team).await?;
        db.commit(&caller.actor, &[Entry::created(&team)]).await?;
        Ok(team)
    }

    #[boxed]
    pub async fn update_team(
        &self,
        caller: &Caller<ChangeTeams>,
        id: TeamId,
        patch: &TeamPatch,
        precondition: Precondition<'_, Team>,
    ) -> Result<Team> {
        let timezone = patch.timezone.as_ref().map(super::Timezone::known).transpose()?;
        let mut db = self.write().await?;
        let before = lock(&mut db, caller, id, precondition).await?;
        let mut team = before.clone();
        team.name = patch.name.clone().unwrap_or(team.name);
        team.timezone = timezone.unwrap_or(team.timezone);
        let Some(entry) = Entry::updated(&before, &team) else {
            return Ok(before);
        };
        team.updated_at = db.now;
        sql::save(&mut db, &team).await?;
        db.commit(&caller.actor, &[entry]).await?;
        Ok(team)
    }

    /// The last team stays: what belongs to an organization belongs to one of its teams.
    #[boxed]
    pub async fn delete_team(
        &self,
        caller: &Caller<ChangeTeams>,
        id: TeamId,
        precondition: Precondition<'_, Team>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        let team = lock(&mut db, caller, id, precondition).await?;
        if sql::of_organization(&mut db, caller.organization).await?.len() == 1 {
            return Err(Error::refused(
                "last_team",
                "An organization must have at least one team. Create another one first.",
            ));
        }
        if !caller.actor.request.is_dry_run {
            sql::delete(&mut db, &team).await?;
        }
        db.commit(&caller.actor, &[Entry::deleted(&team)]).await
    }
}

/// The organization is locked: nobody else adds one at the same time.
async fn room_for_team(db: &mut WriteTx, organization: OrganizationId) -> Result<()> {
    if sql::count(db, organization).await? < MAX_TEAMS {
        return Ok(());
    }
    let detail = format!("An organization can have at most {MAX_TEAMS} teams. Delete one first.");
    Err(Error::refused("too_many_teams", detail))
}

/// Locks the organization, which is what keeps its teams from changing, too.
async fn lock(
    db: &mut WriteTx,
    caller: &Caller<ChangeTeams>,
    id: TeamId,
    precondition: Precondition<'_, Team>,
) -> Result<Team> {
    organizations::sql::lock(db, caller.organization).await?;
    let team = sql::find(db, caller.organization, id)
        .await?
        .ok_or(Error::NotFound("team"))?;
    if !precondition(&team) {
        return Err(Error::Stale("team"));
    }
    Ok(team)
}

/// A team that is not stored yet.
pub(crate) fn fresh(db: &WriteTx, organization_id: OrganizationId, name: Name) -> Team {
    Team {
        id: TeamId(0),
        uuid: db.uuid(),
        organization_id,
        name,
        api_token: auth::key::new_token(TOKEN_PREFIX, db.random.bytes()),
        timezone: "UTC".to_owned(),
        created_at: db.now,
        updated_at: db.now,
    }
}

/// The one that was asked for, else the organization's oldest that the caller may see.
pub(crate) async fn choose<P>(db: &mut WriteTx, caller: &Caller<P>, wanted: Option<TeamId>) -> Result<TeamId> {
    let all = sql::of_organization(db, caller.organization).await?;
    let mut seen = all.iter().map(|team| team.id).filter(|&team| caller.may_see_team(team));
    let found = seen.find(|&team| wanted.is_none_or(|wanted| wanted == team));
    found.ok_or_else(|| Error::invalid("team_id", "does_not_exist", "Team not found in this organization."))
}
