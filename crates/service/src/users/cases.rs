use boxed::boxed;
use serde_json::Map;
use sqlx::types::Json;
use uuid::Uuid;

use super::{NewUser, RELEASED_DOMAIN, User, UserPatch, UserStatus, sql};
use crate::access::{Actor, Request};
use crate::activity::Entry;
use crate::error::{Error, Result};
use crate::id::{UserId, UserUuid};
use crate::page::{Page, Window};
use crate::sessions::SignedIn;
use crate::text::{Email, given_name};
use crate::transaction::WriteTx;
use crate::{Precondition, Service, keys, members, second_factor, sessions, sign_in};

impl Service {
    #[boxed]
    pub async fn create_user(&self, actor: &Actor, new: &NewUser) -> Result<User> {
        let hash = self.hash_of_new(new, None).await?;
        let mut db = self.write().await?;
        let user = insert(&mut db, new, hash).await?;
        db.commit(actor, &[Entry::created(&user)]).await?;
        Ok(user)
    }

    /// Your account.
    #[boxed]
    pub async fn user(&self, id: UserId) -> Result<User> {
        sql::by_ids(&mut self.core.store.read().await?, &[id])
            .await?
            .pop()
            .ok_or(Error::NotFound("user"))
    }

    /// What a user can do to get in, and where they are.
    #[boxed]
    pub async fn standing(&self, id: UserId) -> Result<UserStatus> {
        sql::standing(&mut self.core.store.read().await?, id)
            .await?
            .ok_or(Error::NotFound("user"))
    }

    #[boxed]
    pub async fn update_user(
        &self,
        person: &SignedIn,
        patch: &UserPatch,
        precondition: Precondition<'_, (User, UserStatus)>,
    ) -> Result<(User, UserStatus)> {
        person.acts_for_themselves()?;
        let mut db = self.write().await?;
        sql::lock(&mut db, person.user).await?;
        let (before, standing) = account(&mut db, person.user).await?;
        let seen = (before.clone(), standing);
        if !precondition(&seen) {
            return Err(Error::Stale("account"));
        }
        let mut user = seen.0;
        if patch.first_name.is_some() {
            user.first_name = given_name("first_name", patch.first_name.as_deref())?;
        }
        if let Some(last_name) = patch.last_name.as_deref().map(str::trim) {
            user.last_name = match last_name {
                "" => String::new(),
                text => given_name("last_name", Some(text))?,
            };
        }
        sql::save(&mut db, &user).await?;
        if let Some(organization) = patch.current_organization
            && !sql::set_current(&mut db, user.id, organization).await?
        {
            let detail = "you are not a member of this organization";
            return Err(Error::invalid("current_organization", "does_not_exist", detail));
        }
        let after = account(&mut db, person.user).await?;
        let entries: Vec<Entry> = Entry::updated(&before, &user).into_iter().collect();
        db.commit(&person.actor, &entries).await?;
        Ok(after)
    }

    #[boxed]
    pub async fn users(&self, window: Window) -> Result<Page<User>> {
        sql::page(&mut self.core.store.read().await?, window).await
    }

    #[boxed]
    pub async fn user_by_email(&self, email: &Email) -> Result<User> {
        sql::by_email(&mut self.core.store.read().await?, email)
            .await?
            .ok_or(Error::NotFound("user"))
    }

    /// Brings the keys of all addresses into today's form. Versions before did not bring a domain with letters beyond ASCII
    /// into the form that DNS knows.
    #[boxed]
    pub async fn renew_address_keys(&self) -> Result<()> {
        // Every start asks, and hardly any has to write.
        let found = sql::keys_beyond_ascii(&mut self.core.store.read().await?).await?;
        if found.iter().all(|(_, email, key)| email.key() == *key) {
            return Ok(());
        }
        let mut db = self.write().await?;
        for (id, email, key) in sql::keys_beyond_ascii(&mut db).await? {
            if email.key() != key && !sql::set_key(&mut db, id, &email.key()).await? {
                tracing::warn!(user = %id, "another account has the same email; this one cannot be found by it");
            }
        }
        db.commit_unrecorded().await
    }

    /// Sets another password, for someone who has lost theirs. Ends all their sessions.
    #[boxed]
    pub async fn set_password(&self, actor: &Actor, email: &Email, password: &str) -> Result<User> {
        let user = self.user_by_email(email).await?;
        let hash = self.hash_password(password, &user.about(), None, None).await?;
        let mut db = self.write().await?;
        sql::set_password(&mut db, user.id, &hash).await?;
        sessions::sql::delete_of_user(&mut db, user.id).await?;
        sign_in::sql::delete_pending(&mut db, user.id).await?;
        sign_in::unlock(&mut db, email, None).await?;
        db.commit(actor, &[Entry::happened(&user, "password_changed")]).await?;
        Ok(user)
    }
}

async fn account(db: &mut WriteTx, id: UserId) -> Result<(User, UserStatus)> {
    let user = sql::by_ids(db, &[id]).await?.pop().ok_or(Error::BadCredential)?;
    let standing = sql::standing(db, id).await?.ok_or(Error::BadCredential)?;
    Ok((user, standing))
}

/// Makes an account inside a larger use case, with the hash of [`Service::hash_of_new`].
pub(crate) async fn insert(db: &mut WriteTx, new: &NewUser, password_hash: Option<String>) -> Result<User> {
    let uuid = UserUuid(db.uuid());
    let distinct_id = auth::key::new_token("", db.random.bytes());
    let row = sql::Row {
        uuid,
        distinct_id: distinct_id.clone(),
        first_name: &new.first_name,
        last_name: &new.last_name,
        email: &new.email,
        is_email_verified: new.is_email_verified,
        password_hash,
    };
    let id = sql::insert(db, &row).await?;
    Ok(User {
        id,
        uuid,
        distinct_id,
        first_name: new.first_name.clone(),
        last_name: new.last_name.clone(),
        email: new.email.to_string(),
        is_email_verified: new.is_email_verified,
        hedgehog_config: Json(Map::new()),
    })
}

/// The first proof that an address belongs to whoever comes. Somebody else may have made the account in their name, so
/// everything that could let that somebody in again goes: password, second factor, keys, sessions, recovery codes.
pub(crate) async fn prove_address(db: &mut WriteTx, user: &User) -> Result<Vec<Entry>> {
    if user.is_email_verified {
        return Ok(Vec::new());
    }
    // Whoever goes on with what they proved before waits, and finds it gone.
    sql::lock(db, user.id).await?;
    sql::verify_email(db, user.id).await?;
    sql::forget_password(db, user.id).await?;
    second_factor::remove(db, user.id).await?;
    let mut entries = keys::forget_all(db, user.id).await?;
    sessions::sql::delete_of_user(db, user.id).await?;
    sign_in::sql::delete_pending(db, user.id).await?;
    sign_in::sql::delete_all_recovery_codes(db, user.id).await?;
    entries.push(Entry::happened(user, "email_verified"));
    Ok(entries)
}

/// An address that no mail server knows.
pub(crate) fn placeholder(id: Uuid) -> Result<Email> {
    Email::new(&format!("{id}@{RELEASED_DOMAIN}")).map_err(|_| Error::NotFound("user"))
}

/// Takes the address from an account that never proved it, for whoever does. The account stays, with everything in it, under
/// a name that no mail server knows.
pub(crate) async fn release_address(db: &mut WriteTx, user: &User, request: &Request) -> Result<Entry> {
    sql::set_email(db, user, &placeholder(user.uuid.0)?).await?;
    sign_in::sql::delete_pending(db, user.id).await?;
    let of_others = members::address_released(db, user).await?;
    // Recorded without a user in the logs of their organizations: one whose log is full must not keep the real person out, and it
    // is not told who that is.
    db.record(&Actor::nobody(request.clone()), &of_others).await?;
    Ok(Entry::happened(user, "address_released"))
}
