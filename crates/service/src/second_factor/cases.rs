use auth::totp::{self, Secret};
use boxed::boxed;

use super::{Confirmed, SetUp, sql};
use crate::access::Actor;
use crate::activity::Entry;
use crate::error::{Error, Result};
use crate::id::UserId;
use crate::sessions::{self, SignedIn, expect_still_signed_in};
use crate::sign_in::{Tried, count_attempt, uncount_attempt};
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::{self, User};
use crate::{Instance, Service};

const ISSUER: &str = "Hedgerow";

impl Service {
    /// Makes a secret for a new authenticator. It counts for nothing until a first code confirms it.
    #[boxed]
    pub async fn begin_second_factor(&self, person: &SignedIn) -> Result<SetUp> {
        person.acts_for_themselves()?;
        person.expect_recent_proof(self.core.clock.now())?;
        let mut db = self.write().await?;
        let user = oneself(&mut db, person).await?;
        let secret = Secret::new(db.random.bytes());
        let encrypted = db.encrypt(&self.core.instance.encryptor, &place(user.id), secret.as_bytes());
        if !sql::put_secret(&mut db, user.id, &encrypted).await? {
            let detail = "two-factor authentication is already on: turn it off first to set it up again";
            return Err(Error::refused("already_set_up", detail));
        }
        db.commit(&person.actor, &[Entry::happened(&user, "second_factor_begun")])
            .await?;
        let uri = totp::provisioning_uri(&secret, &user.email, ISSUER);
        Ok(SetUp {
            secret: secret.base32(),
            qr_svg: totp::qr_svg(&uri).unwrap_or_default(),
            uri,
        })
    }

    /// The first code: from now on one is asked for at every sign-in with a password.
    #[boxed]
    pub async fn confirm_second_factor(&self, person: &SignedIn, code: &str) -> Result<Confirmed> {
        person.acts_for_themselves()?;
        self.core.attempts.count(&person.actor.request)?;
        let mut db = self.write().await?;
        let user = oneself(&mut db, person).await?;
        if sql::is_set_up(&mut db, user.id).await? {
            let detail = "two-factor authentication is already on";
            return Err(Error::refused("already_set_up", detail));
        }
        count_attempt(&mut db, &Tried::inside(&address(&user)?)).await?;
        if !accept_code(&mut db, &self.core.instance, user.id, code).await? {
            db.commit_unrecorded().await?;
            return Err(wrong_code());
        }
        uncount_attempt(&mut db, &Tried::inside(&address(&user)?)).await?;
        sql::confirm(&mut db, user.id).await?;
        let backup_codes = replace_backup_codes(&mut db, user.id).await?;
        let session = match person.session {
            Some(session) => {
                sessions::sql::delete_others(&mut db, user.id, Some(session)).await?;
                Some(sessions::renew(&mut db, session, true).await?)
            }
            None => None,
        };
        db.commit(&person.actor, &[Entry::happened(&user, "second_factor_added")])
            .await?;
        Ok(Confirmed { backup_codes, session })
    }

    /// Makes new backup codes; the old ones stop working.
    #[boxed]
    pub async fn replace_backup_codes(&self, person: &SignedIn, code: &str) -> Result<Vec<String>> {
        person.is_fully_proven()?;
        self.core.attempts.count(&person.actor.request)?;
        let mut db = self.write().await?;
        let user = oneself(&mut db, person).await?;
        count_attempt(&mut db, &Tried::inside(&address(&user)?)).await?;
        if !accept_code(&mut db, &self.core.instance, user.id, code).await? {
            db.commit_unrecorded().await?;
            return Err(wrong_code());
        }
        uncount_attempt(&mut db, &Tried::inside(&address(&user)?)).await?;
        let codes = replace_backup_codes(&mut db, user.id).await?;
        db.commit(&person.actor, &[Entry::happened(&user, "backup_codes_replaced")])
            .await?;
        Ok(codes)
    }

    /// Takes a second factor away from somebody who has lost it, for whoever runs the machine. Ends all their sessions.
    #[boxed]
    pub async fn reset_two_factor(&self, actor: &Actor, email: &Email) -> Result<User> {
        let mut db = self.write().await?;
        let user = users::sql::by_email(&mut db, email)
            .await?
            .ok_or(Error::NotFound("user"))?;
        sql::remove(&mut db, user.id).await?;
        sessions::sql::delete_of_user(&mut db, user.id).await?;
        db.commit(actor, &[Entry::happened(&user, "second_factor_removed")])
            .await?;
        Ok(user)
    }

    /// Goes back to the password alone, unless an organization asks for more. A code proves who asks.
    #[boxed]
    pub async fn remove_second_factor(&self, person: &SignedIn, code: &str) -> Result<()> {
        person.is_fully_proven()?;
        self.core.attempts.count(&person.actor.request)?;
        if person.needs_second_factor {
            let detail = "an organization you belong to requires two-factor authentication";
            return Err(Error::refused("second_factor_enforced", detail));
        }
        let mut db = self.write().await?;
        let user = oneself(&mut db, person).await?;
        count_attempt(&mut db, &Tried::inside(&address(&user)?)).await?;
        if accept(&mut db, &self.core.instance, &user, code).await?.is_none() {
            db.commit_unrecorded().await?;
            return Err(wrong_code());
        }
        uncount_attempt(&mut db, &Tried::inside(&address(&user)?)).await?;
        sql::remove(&mut db, user.id).await?;
        db.commit(&person.actor, &[Entry::happened(&user, "second_factor_removed")])
            .await
    }
}

/// Takes a code of the authenticator or a backup code, each once. Tells how to call the sign-in, or `None`.
pub(crate) async fn accept(
    db: &mut WriteTx,
    instance: &Instance,
    user: &User,
    code: &str,
) -> Result<Option<&'static str>> {
    if accept_code(db, instance, user.id, code).await? {
        return Ok(Some("logged_in"));
    }
    let Some(code) = totp::recovery::normalize(code) else {
        return Ok(None);
    };
    let is_backup = sql::take_backup_code(db, user.id, &auth::key::hash(&code)).await?;
    Ok(is_backup.then_some("logged_in_with_backup_code"))
}

async fn accept_code(db: &mut WriteTx, instance: &Instance, user: UserId, code: &str) -> Result<bool> {
    let Some(sql::Totp { secret, last_step }) = sql::lock(db, user).await? else {
        return Ok(false);
    };
    let secret = instance.encryptor.decrypt(&place(user), &secret)?;
    let Ok(secret) = <[u8; 20]>::try_from(secret).map(Secret::new) else {
        return Ok(false);
    };
    let last_step = last_step.and_then(|step| u64::try_from(step).ok());
    match totp::check(&secret, code, db.now, last_step) {
        Some(step) => {
            sql::note_step(db, user, i64::try_from(step).unwrap_or(i64::MAX)).await?;
            Ok(true)
        }
        None => Ok(false),
    }
}

async fn replace_backup_codes(db: &mut WriteTx, user: UserId) -> Result<Vec<String>> {
    let codes = db.recovery_codes();
    sql::delete_backup_codes(db, user).await?;
    for code in &codes {
        sql::insert_backup_code(db, user, &auth::key::hash(code)).await?;
    }
    Ok(codes)
}

/// The account is locked before what is counted for it, as everywhere.
async fn oneself(db: &mut WriteTx, person: &SignedIn) -> Result<User> {
    expect_still_signed_in(db, person).await?;
    users::sql::by_ids(db, &[person.user])
        .await?
        .pop()
        .ok_or(Error::BadCredential)
}

/// What wrong codes are counted under: whoever found an open browser shall not guess for long.
fn address(user: &User) -> Result<Email> {
    Email::new(&user.email).map_err(|_| Error::BadCredential)
}

fn place(user: UserId) -> String {
    format!("app_user/{user}/totp_secret")
}

fn wrong_code() -> Error {
    Error::invalid("token", "2fa_invalid", "this code is incorrect or was already used")
}
