use boxed::boxed;

use super::{APPS_LEVELS, InstanceOrganizationPatch, NewOperator, Operator, sql};
use crate::access::Caller;
use crate::activity::Entry;
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId, UserUuid};
use crate::organizations::{self, Organization};
use crate::page::{Page, Window};
use crate::sessions::SignedIn;
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::{self, User};
use crate::{Precondition, Service};

impl Service {
    /// Proves that a person who has signed in is an operator.
    #[boxed]
    pub async fn operator(&self, person: &SignedIn) -> Result<Operator> {
        if !sql::is_operator(&mut self.core.store.read().await?, person.user).await? {
            return Err(not_an_operator());
        }
        person.acts_for_the_instance()?;
        Ok(Operator {
            actor: person.actor.clone(),
            person: Some(person.clone()),
        })
    }

    #[boxed]
    pub async fn is_operator(&self, user: UserId) -> Result<bool> {
        sql::is_operator(&mut self.core.store.read().await?, user).await
    }

    /// In the order of their accounts.
    #[boxed]
    pub async fn operators(&self, _: &Operator, window: Window) -> Result<Page<User>> {
        sql::page(&mut self.core.store.read().await?, window).await
    }

    #[boxed]
    pub async fn add_operator(&self, by: &Operator, new: &NewOperator) -> Result<User> {
        let email = Email::new(&new.email).map_err(|invalid| Error::invalid("email", invalid.code, invalid.detail))?;
        // A right that outlasts an open browser which somebody found.
        if let Some(person) = &by.person {
            person.expect_recent_proof(self.core.clock.now())?;
        }
        let mut db = self.write().await?;
        let known = lock(&mut db, by).await?;
        let user = users::sql::by_email(&mut db, &email).await?;
        let user = user.ok_or_else(|| Error::invalid("email", "does_not_exist", "no user has this email"))?;
        if by.person.is_some() && !user.is_email_verified {
            let detail = "this email is not verified: let them sign in with SSO or reset their password first, or \
                          use hedgerow operators add on the server";
            return Err(Error::invalid("email", "unverified", detail));
        }
        if known.iter().any(|one| one.id == user.id) {
            return Ok(user);
        }
        sql::save(&mut db, user.uuid, true).await?;
        db.commit(&by.actor, &[Entry::happened(&user, "operator_added")])
            .await?;
        Ok(user)
    }

    /// The last one stays: there would be nobody left to name another.
    #[boxed]
    pub async fn remove_operator(&self, by: &Operator, uuid: UserUuid) -> Result<()> {
        let mut db = self.write().await?;
        let known = lock(&mut db, by).await?;
        let Some(user) = known.iter().find(|one| one.uuid == uuid) else {
            return Err(Error::NotFound("operator"));
        };
        if known.len() == 1 {
            let detail = "This is the last operator of the instance. Add another one first.";
            return Err(Error::refused("last_operator", detail));
        }
        sql::save(&mut db, uuid, false).await?;
        db.commit(&by.actor, &[Entry::happened(user, "operator_removed")]).await
    }

    /// Every organization of the instance, newest first.
    #[boxed]
    pub async fn instance_organizations(&self, _: &Operator, window: Window) -> Result<Page<Organization>> {
        self.all_organizations(window).await
    }

    #[boxed]
    pub async fn update_instance_organization(
        &self,
        by: &Operator,
        id: OrganizationId,
        patch: &InstanceOrganizationPatch,
        precondition: Precondition<'_, Organization>,
    ) -> Result<Organization> {
        let level = patch.plugins_access_level;
        if level.is_some_and(|level| !APPS_LEVELS.contains(&level)) {
            let detail = "Must be 0 (none), 3 (configure), 6 (install) or 9 (root).";
            return Err(Error::invalid("plugins_access_level", "invalid_choice", detail));
        }
        let mut db = self.write().await?;
        let before = organizations::sql::lock(&mut db, id).await?;
        lock(&mut db, by).await?;
        if !precondition(&before) {
            return Err(Error::Stale("organization"));
        }
        let mut organization = before.clone();
        organization.plugins_access_level = level.unwrap_or(before.plugins_access_level);
        let Some(entry) = Entry::updated(&before, &organization) else {
            return Ok(before);
        };
        organization.updated_at = db.now;
        organizations::sql::save_apps_level(&mut db, &organization).await?;
        db.commit(&by.actor, &[entry]).await?;
        Ok(organization)
    }
}

/// The first user of an instance runs it.
pub(crate) async fn bootstrap(db: &mut WriteTx, user: &User) -> Result<Entry> {
    sql::save(db, user.uuid, true).await?;
    Ok(Entry::happened(user, "operator_added"))
}

/// Whoever has left every organization has left the instance, too, unless nobody else runs it.
pub(crate) async fn forget(db: &mut WriteTx, user: &User) -> Result<Option<Entry>> {
    if !sql::is_operator(db, user.id).await? || sql::belongs_anywhere(db, user.id).await? {
        return Ok(None);
    }
    if sql::lock_all(db).await?.len() == 1 {
        return Ok(None);
    }
    sql::save(db, user.uuid, false).await?;
    Ok(Some(Entry::happened(user, "operator_removed")))
}

/// Whether the caller may publish something for all organizations. A credential that is limited to some of them, such as a
/// session that one organization's identity provider vouched for, cannot speak for all.
pub(crate) async fn may_publish<P>(db: &mut Session, caller: &Caller<P>) -> Result<()> {
    if !sql::is_operator(db, caller.user).await? {
        return Err(Error::Forbidden(
            "Only operators of this instance can publish an app for all organizations. Ask an operator for access."
                .to_owned(),
        ));
    }
    if !caller.restrictions.organizations.is_empty() || !caller.restrictions.teams.is_empty() {
        return Err(Error::Forbidden(
            "Publishing an app for all organizations requires an API key without organization restrictions, or \
             signing in with a password."
                .to_owned(),
        ));
    }
    Ok(())
}

/// The operators there are; whoever acts must still be one of them.
async fn lock(db: &mut WriteTx, by: &Operator) -> Result<Vec<User>> {
    let known = sql::lock_all(db).await?;
    match by.user() {
        Some(user) if !known.iter().any(|one| one.id == user) => Err(not_an_operator()),
        _ => Ok(known),
    }
}

fn not_an_operator() -> Error {
    Error::Forbidden("only operators of this instance can do this".to_owned())
}
