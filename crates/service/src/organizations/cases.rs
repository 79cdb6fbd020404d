use std::collections::HashMap;
use std::sync::Arc;

use boxed::boxed;

use super::creators::Tenant;
use super::sql::Membership;
use super::{NewOrganization, Organization, OrganizationPatch, Seen, creation, sql};
use crate::access::{
    Actor, Caller, ChangeOrganization, CreateOrganization, DeleteOrganization, Principal, ReadOrganization,
};
use crate::activity::Entry;
use crate::cache::{CacheKey, Load};
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId};
use crate::page::{Page, Window};
use crate::teams::{self, Team};
use crate::transaction::WriteTx;
use crate::users::{Person, User};
use crate::{Precondition, Service, pipeline, sso};

impl Service {
    /// The organizations the caller belongs to and the key reaches, newest first.
    #[boxed]
    pub async fn organizations(
        &self,
        principal: &Principal<ReadOrganization>,
        window: Window,
    ) -> Result<Arc<Page<Seen>>> {
        let load = || -> Load<'_, Page<Seen>> { Box::pin(self.load_all(principal, window)) };
        if principal.lacks_second_factor || principal.restrictions.are_any() {
            return Ok(Arc::new(load().await?));
        }
        let key = CacheKey::Organizations(principal.user, window);
        self.get_or_load(principal.seen, key, load).await
    }

    async fn load_all(&self, principal: &Principal<ReadOrganization>, window: Window) -> Result<Page<Seen>> {
        let mut db = self.core.store.read().await?;
        let page = if principal.lacks_second_factor {
            let all = sql::page(&mut db, principal.user, Window::ALL).await?.items;
            let reached = |item: &Membership| {
                !item.organization.enforce_2fa && principal.restrictions.reaches(item.organization.id)
            };
            Page::cut(all.into_iter().filter(reached).collect(), window)
        } else if principal.restrictions.organizations.is_empty() {
            sql::page(&mut db, principal.user, window).await?
        } else {
            sql::page_among(&mut db, principal.user, &principal.restrictions.organizations, window).await?
        };
        let ids: Vec<OrganizationId> = page.items.iter().map(|item| item.organization.id).collect();
        let mut teams: HashMap<OrganizationId, Vec<Team>> = HashMap::new();
        for team in teams::sql::of_organizations(&mut db, &ids).await? {
            if principal.may_see_team(team.id) {
                teams.entry(team.organization_id).or_default().push(team);
            }
        }
        let seen = |Membership { organization, level }| {
            let teams = teams.remove(&organization.id).unwrap_or_default();
            Seen {
                organization,
                level,
                teams,
            }
        };
        Ok(Page {
            count: page.count,
            items: page.items.into_iter().map(seen).collect(),
        })
    }

    #[boxed]
    pub async fn organization(&self, caller: &Caller<ReadOrganization>) -> Result<Arc<Seen>> {
        let key = CacheKey::Organization(caller.organization, caller.user);
        let load = || -> Load<'_, Seen> { Box::pin(self.load(caller.user, caller.organization)) };
        let seen = self.get_or_load(caller.seen, key, load).await?;
        if caller.restrictions.teams.is_empty() {
            return Ok(seen);
        }
        let mut seen = Seen::clone(&seen);
        seen.teams.retain(|team| caller.may_see_team(team.id));
        Ok(Arc::new(seen))
    }

    async fn load(&self, user: UserId, organization: OrganizationId) -> Result<Seen> {
        let mut db = self.core.store.read().await?;
        let found = sql::find(&mut db, user, organization).await?;
        let Membership { organization, level } = found.ok_or(Error::NotFound("organization"))?;
        let teams = teams::sql::of_organization(&mut db, organization.id).await?;
        Ok(Seen {
            organization,
            level,
            teams,
        })
    }

    /// Makes an organization with one team, owned by the caller.
    #[boxed]
    pub async fn create_organization(
        &self,
        principal: &Principal<CreateOrganization>,
        new: &NewOrganization,
    ) -> Result<Seen> {
        if !principal.restrictions.organizations.is_empty() {
            let detail = "This API key is restricted to specific organizations and cannot create new ones.";
            return Err(Error::Forbidden(detail.to_owned()));
        }
        if let Err(limit) = self.core.organization_creation.count(principal.user)
            && !principal.is_operator
        {
            return Err(limit);
        }
        let mut db = self.write().await?;
        // Operators create organizations for others: theirs are not counted.
        let created_by = (!principal.is_operator).then_some(principal.user);
        let (seen, entries) = creation::create(&mut db, new, &principal.person, created_by, true).await?;
        db.commit(&principal.actor, &entries).await?;
        Ok(seen)
    }

    /// The same for whoever runs the machine.
    #[boxed]
    pub async fn create_organization_for(&self, actor: &Actor, new: &NewOrganization, owner: &User) -> Result<Seen> {
        let created_by = (!self.is_operator(owner.id).await?).then_some(owner.id);
        let mut db = self.write().await?;
        let (seen, entries) = creation::create(&mut db, new, &Person::from(owner), created_by, false).await?;
        db.commit(actor, &entries).await?;
        Ok(seen)
    }

    #[boxed]
    pub async fn update_organization(
        &self,
        caller: &Caller<ChangeOrganization>,
        patch: &OrganizationPatch,
        precondition: Precondition<'_, Seen>,
    ) -> Result<Seen> {
        let mut db = self.write().await?;
        let organization = sql::lock(&mut db, caller.organization).await?;
        let before = see(&mut db, caller, organization, precondition).await?;
        let mut seen = before.clone();
        seen.organization.change(patch);
        let Some(entry) = Entry::updated(&before.organization, &seen.organization) else {
            return Ok(before);
        };
        seen.organization.updated_at = db.now;
        sql::save(&mut db, &seen.organization).await?;
        db.commit(&caller.actor, &[entry]).await?;
        Ok(seen)
    }

    /// Deletes the organization and everything below it, in one transaction.
    #[boxed]
    pub async fn delete_organization(
        &self,
        caller: &Caller<DeleteOrganization>,
        precondition: Precondition<'_, Seen>,
    ) -> Result<()> {
        let mut db = self.write().await?;
        let organization = sql::lock_to_delete(&mut db, caller.organization).await?;
        let seen = see(&mut db, caller, organization, precondition).await?;
        pipeline::not_in_use(&mut db, caller.organization).await?;
        if !caller.actor.request.is_dry_run {
            sso::forget_organization(&mut db, caller.organization).await?;
            teams::sql::record_deletion_of_all(&mut db, caller.organization).await?;
            sql::delete(&mut db, caller.organization).await?;
        }
        db.commit(&caller.actor, &[Entry::deleted(&seen.organization)]).await
    }

    /// Whose work that of an organization is.
    #[boxed]
    pub async fn tenant(&self, organization: OrganizationId) -> Result<Tenant> {
        if let Some(tenant) = self.core.creators.known(organization) {
            return Ok(tenant);
        }
        let mut db = self.core.store.read().await?;
        self.core.creators.tenant(&mut db, organization).await
    }

    /// Every organization of the instance.
    #[boxed]
    pub async fn all_organizations(&self, window: Window) -> Result<Page<Organization>> {
        sql::all(&mut self.core.store.read().await?, window).await
    }
}

/// Makes sure that an organization, which is locked, is what the caller last saw.
async fn see<P>(
    db: &mut WriteTx,
    caller: &Caller<P>,
    organization: Organization,
    precondition: Precondition<'_, Seen>,
) -> Result<Seen> {
    let mut teams = teams::sql::of_organization(db, organization.id).await?;
    teams.retain(|team| caller.may_see_team(team.id));
    let seen = Seen {
        organization,
        level: caller.level,
        teams,
    };
    if !precondition(&seen) {
        return Err(Error::Stale("organization"));
    }
    Ok(seen)
}
