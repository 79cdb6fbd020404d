use std::collections::BTreeMap;

use boxed::boxed;
use chrono::Datelike;
use sqlx::types::Json;

use super::usage::Noted;
use super::{Fresh, Key, KeyPatch, NewKey, sql};
use crate::activity::Entry;
use crate::clock::whole_microseconds;
use crate::db::Session;
use crate::error::{Error, Result};
use crate::id::{KeyId, OrganizationId, TeamId, UserId};
use crate::limits::{self, Action, Subject};
use crate::page::{Page, Window};
use crate::scope::Scope;
use crate::sessions::{SignedIn, expect_still_signed_in};
use crate::transaction::WriteTx;
use crate::{Precondition, Service};

/// More than anybody needs, few enough to look through.
const MAX_KEYS: i64 = 100;

/// Keys are managed by the person, never by another key: each use case here takes a [`SignedIn`].
impl Service {
    /// Newest first.
    #[boxed]
    pub async fn keys(&self, person: &SignedIn, window: Window) -> Result<Page<Key>> {
        person.acts_for_themselves()?;
        sql::page(&mut self.core.store.read().await?, person.user, window).await
    }

    #[boxed]
    pub async fn key(&self, person: &SignedIn, id: KeyId) -> Result<Key> {
        person.acts_for_themselves()?;
        sql::find(&mut self.core.store.read().await?, person.user, id)
            .await?
            .ok_or(Error::NotFound("key"))
    }

    /// A key may read itself, and nothing else about keys.
    #[boxed]
    pub async fn own_key(&self, secret: &str) -> Result<Key> {
        let found = sql::by_secret(&mut self.core.store.read().await?, &auth::key::hash(secret)).await?;
        found
            .filter(|key| key.expires_at.is_none_or(|end| end > self.core.clock.now()))
            .ok_or(Error::BadCredential)
    }

    #[boxed]
    pub async fn create_key(&self, person: &SignedIn, new: &NewKey) -> Result<Fresh> {
        person.is_fully_proven()?;
        person.expect_recent_proof(self.core.clock.now())?;
        let secret = auth::key::new_key(self.core.random.bytes());
        let new = &within_reach(person, new)?;
        let mut db = self.write().await?;
        expect_still_signed_in(&mut db, person).await?;
        self.count_key(&mut db, person).await?;
        let fresh = insert(&mut db, person.user, new, secret, person.provider_of.is_some()).await?;
        db.commit(&person.actor, &[Entry::created(&fresh.key)]).await?;
        Ok(fresh)
    }

    #[boxed]
    pub async fn update_key(
        &self,
        person: &SignedIn,
        id: KeyId,
        patch: &KeyPatch,
        precondition: Precondition<'_, Key>,
    ) -> Result<Key> {
        person.is_fully_proven()?;
        let mut db = self.write().await?;
        let before = lock(&mut db, person, id, precondition).await?;
        let mut key = before.clone();
        key.change(patch);
        refuse_wider(person, &key)?;
        if key.reaches_further_than(&before) {
            person.expect_recent_proof(db.now)?;
        }
        key.check(&mut db, Some(&before)).await?;
        let Some(entry) = Entry::updated(&before, &key) else {
            return Ok(before);
        };
        key.updated_at = db.now;
        sql::save(&mut db, &key).await?;
        db.commit(&person.actor, &[entry]).await?;
        Ok(key)
    }

    /// Gives the key another secret. The old one stops working immediately.
    #[boxed]
    pub async fn roll_key(&self, person: &SignedIn, id: KeyId) -> Result<Fresh> {
        person.is_fully_proven()?;
        person.expect_recent_proof(self.core.clock.now())?;
        let secret = auth::key::new_key(self.core.random.bytes());
        let mut db = self.write().await?;
        expect_still_signed_in(&mut db, person).await?;
        let mut key = sql::lock(&mut db, person.user, id).await?;
        refuse_wider(person, &key)?;
        self.count_key(&mut db, person).await?;
        key.mask_value = auth::key::mask(&secret);
        key.is_from_idp_session = person.provider_of.is_some();
        key.last_rolled_at = Some(db.now);
        key.updated_at = db.now;
        sql::set_secret(&mut db, &key, &auth::key::hash(&secret)).await?;
        db.commit(&person.actor, &[Entry::happened(&key, "rolled")]).await?;
        Ok(Fresh { key, secret })
    }

    #[boxed]
    pub async fn delete_key(&self, person: &SignedIn, id: KeyId, precondition: Precondition<'_, Key>) -> Result<()> {
        person.acts_for_themselves()?;
        let mut db = self.write().await?;
        let key = lock(&mut db, person, id, precondition).await?;
        sql::delete(&mut db, &key).await?;
        db.commit(&person.actor, &[Entry::deleted(&key)]).await
    }
}

impl Service {
    /// Writes down what was noted since the last call, and tells how many keys that were.
    #[boxed]
    pub async fn flush_key_use(&self) -> Result<usize> {
        // Always in the same order, so that two replicas do not wait for each other.
        let noted: BTreeMap<KeyId, Noted> = self.core.key_use.take().into_iter().collect();
        if noted.is_empty() {
            return Ok(0);
        }
        let mut db = self.write().await?;
        for (key, Noted { used_at, scopes }) in &noted {
            if let Some(used_at) = used_at {
                sql::touch(&mut db, *key, *used_at).await?;
            }
            if !scopes.is_empty() {
                sql::add_used_scopes(&mut db, *key, scopes).await?;
            }
        }
        db.commit_unrecorded().await?;
        Ok(noted.len())
    }

    async fn count_key(&self, db: &mut WriteTx, person: &SignedIn) -> Result<()> {
        // Whoever has the machine may create as many as they like.
        if person.session.is_none() {
            return Ok(());
        }
        let subjects = [Subject::User(person.user)];
        limits::take(db, self.core.instance.hourly_limits, Action::ApiKey, 1, &subjects).await
    }
}

/// Nor does a session change or renew a key that reaches further than itself.
fn refuse_wider(person: &SignedIn, key: &Key) -> Result<()> {
    match person.authenticated_by {
        Some(organization) if *key.scoped_organizations != [organization] => Err(Error::Forbidden(
            "you signed in through one organization, and this key would have access to others: sign in with your password"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// A key reaches no further than the session it is made in.
fn within_reach(person: &SignedIn, new: &NewKey) -> Result<NewKey> {
    let Some(organization) = person.authenticated_by else {
        return Ok(new.clone());
    };
    let wanted = new.scoped_organizations.as_deref().unwrap_or_default();
    if wanted.iter().any(|wanted| *wanted != organization) {
        let detail = "you signed in through one organization, so the key can only have access to that one";
        return Err(Error::invalid("scoped_organizations", "invalid_input", detail));
    }
    Ok(NewKey {
        scoped_organizations: Some(vec![organization]),
        ..new.clone()
    })
}

async fn lock(db: &mut WriteTx, person: &SignedIn, id: KeyId, precondition: Precondition<'_, Key>) -> Result<Key> {
    let key = sql::lock(db, person.user, id).await?;
    if !precondition(&key) {
        return Err(Error::Stale("key"));
    }
    Ok(key)
}

/// Makes a key inside a larger use case.
pub(crate) async fn insert(
    db: &mut WriteTx,
    user: UserId,
    new: &NewKey,
    secret: String,
    is_from_idp_session: bool,
) -> Result<Fresh> {
    if sql::count(db, user).await? >= MAX_KEYS {
        let detail = format!("you already have {MAX_KEYS} keys: delete one first");
        return Err(Error::refused("too_many_keys", detail));
    }
    let key = Key {
        id: KeyId(db.uuid()),
        user_id: user,
        label: new.label.clone(),
        mask_value: auth::key::mask(&secret),
        scopes: Json(new.scopes.clone()),
        scoped_organizations: Json(new.scoped_organizations.clone().unwrap_or_default()),
        scoped_teams: Json(new.scoped_teams.clone().unwrap_or_default()),
        created_at: db.now,
        updated_at: db.now,
        last_used_at: None,
        used_scopes: Json(Vec::new()),
        last_rolled_at: None,
        expires_at: new.expires_at.map(whole_microseconds),
        is_from_idp_session,
    };
    key.check(db, None).await?;
    sql::insert(db, &key, &auth::key::hash(&secret)).await?;
    Ok(Fresh { key, secret })
}

/// Whether a list of what a key is limited to allows what it did not before; empty means all.
fn is_wider<T: PartialEq>(list: &[T], before: &[T]) -> bool {
    !before.is_empty() && (list.is_empty() || list.iter().any(|item| !before.contains(item)))
}

impl Key {
    /// Whether it can do more than before, in more places, or for longer.
    fn reaches_further_than(&self, before: &Self) -> bool {
        let is_covered = |scope: &Scope| before.scopes.iter().any(|held| held.covers(*scope));
        let lasts_longer = match (self.expires_at, before.expires_at) {
            (Some(end), Some(earlier)) => end > earlier,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        lasts_longer
            || !self.scopes.iter().all(is_covered)
            || is_wider(&self.scoped_organizations, &before.scoped_organizations)
            || is_wider(&self.scoped_teams, &before.scoped_teams)
    }

    fn change(&mut self, patch: &KeyPatch) {
        let KeyPatch {
            label,
            scopes,
            scoped_organizations,
            scoped_teams,
            expires_at,
        } = patch.clone();
        self.label = label.unwrap_or_else(|| self.label.clone());
        self.scopes = scopes.map_or_else(|| self.scopes.clone(), Json);
        self.scoped_organizations = scoped_organizations.map_or_else(|| self.scoped_organizations.clone(), Json);
        self.scoped_teams = scoped_teams.map_or_else(|| self.scoped_teams.clone(), Json);
        self.expires_at = expires_at.map_or(self.expires_at, |end| end.map(whole_microseconds));
    }

    /// A key is limited to what its user can reach, and to a time that is still to come.
    ///
    /// What stays as it was before is not judged again: a label can be changed when the rest is out of date.
    async fn check(&self, db: &mut WriteTx, before: Option<&Self>) -> Result<()> {
        let is_new_end = before.is_none_or(|before| before.expires_at != self.expires_at);
        if is_new_end && self.expires_at.is_some_and(|end| end <= db.now) {
            return Err(Error::invalid(
                "expires_at",
                "invalid_input",
                "use a time in the future",
            ));
        }
        if self.expires_at.is_some_and(|end| end.year() > 9999) {
            let detail = "Must be before the year 10000, or null.";
            return Err(Error::invalid("expires_at", "invalid_input", detail));
        }
        let known = before
            .map(|before| before.scoped_organizations.as_slice())
            .unwrap_or_default();
        let new: Vec<_> = self
            .scoped_organizations
            .iter()
            .copied()
            .filter(|id| !known.contains(id))
            .collect();
        check_organizations(db, self.user_id, &new).await?;
        let known = before.map(|before| before.scoped_teams.as_slice()).unwrap_or_default();
        let new: Vec<_> = self
            .scoped_teams
            .iter()
            .copied()
            .filter(|id| !known.contains(id))
            .collect();
        check_teams(db, self.user_id, &new).await
    }
}

async fn check_organizations(db: &mut Session, user: UserId, organizations: &[OrganizationId]) -> Result<()> {
    for organization in organizations {
        if !sql::is_member(db, user, *organization).await? {
            let detail = format!("you are not a member of organization {organization}");
            return Err(Error::invalid("scoped_organizations", "does_not_exist", detail));
        }
    }
    Ok(())
}

async fn check_teams(db: &mut Session, user: UserId, teams: &[TeamId]) -> Result<()> {
    for team in teams {
        if sql::team_of_user(db, user, *team).await?.is_none() {
            let detail = format!("None of your organizations has the team {team}.");
            return Err(Error::invalid("scoped_teams", "does_not_exist", detail));
        }
    }
    Ok(())
}

/// Deletes all keys of somebody, for whoever made them may have been another.
pub(crate) async fn forget_all(db: &mut WriteTx, user: UserId) -> Result<Vec<Entry>> {
    let keys = sql::page(db, user, Window::ALL).await?.items;
    for key in &keys {
        sql::delete(db, key).await?;
    }
    Ok(keys.iter().map(Entry::deleted).collect())
}

/// Deletes those keys of somebody for an organization whose secrets its identity provider could know.
pub(crate) async fn forget_vouched(db: &mut WriteTx, user: UserId, organization: OrganizationId) -> Result<Vec<Entry>> {
    let mut keys = sql::lock_of_user(db, user).await?;
    keys.retain(|key| key.is_from_idp_session && *key.scoped_organizations == [organization]);
    for key in &keys {
        sql::delete(db, key).await?;
    }
    Ok(keys.iter().map(Entry::deleted).collect())
}

/// A user has left: keys limited to that organization alone go, others lose it from their list.
pub(crate) async fn forget_organization(
    db: &mut WriteTx,
    user: UserId,
    organization: OrganizationId,
) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for before in sql::lock_of_user(db, user).await? {
        if !before.scoped_organizations.contains(&organization) {
            continue;
        }
        let mut key = before.clone();
        key.scoped_organizations.retain(|&id| id != organization);
        if key.scoped_organizations.is_empty() {
            sql::delete(db, &key).await?;
            entries.push(Entry::deleted(&key));
        } else {
            key.updated_at = db.now;
            sql::save(db, &key).await?;
            entries.extend(Entry::updated(&before, &key));
        }
    }
    Ok(entries)
}
