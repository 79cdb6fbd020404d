use std::net::IpAddr;

use boxed::boxed;

use super::failures::{Tried, account_and_network, count_attempt, uncount_attempt, unlock};
use super::{CHALLENGE, KNOWN_FOR, MAX_TRIES, SignIn, sql};
use crate::access::{Actor, Request};
use crate::activity::Entry;
use crate::error::{Error, Result};
use crate::sessions::{self, Opening};
use crate::text::Email;
use crate::users::passwords::password_fits;
use crate::users::{self, User};
use crate::{Service, second_factor, sso};

/// A hash that fits no password: an unknown address takes as long to refuse as a known one.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$TqlHhvuvNb6x1zw3xLlAAnZ3lJ9cJ2XvDGzHT6wPFDU";

impl Service {
    /// Checks a password. Whoever has a second factor is asked for it next.
    #[boxed]
    pub async fn sign_in(&self, email: &str, password: &str, request: Request) -> Result<SignIn> {
        self.core.attempts.count(&request)?;
        let email = Email::new(email).map_err(|_| wrong_credentials())?;
        let from = request.origin.address;
        let tried = self.tried(&email, from).await?;
        // Those who guess are turned away here, before they cost anything.
        let place = self.core.hashing.enter(from, tried.is_known.then_some(&email))?;
        let mut db = self.write().await?;
        sso::refuse_enforced(&mut db, &email).await?;
        count_attempt(&mut db, &tried).await?;
        let stored = users::sql::password_hash(&mut db, &email).await?;
        db.commit_unrecorded().await?;
        let hash = stored.and_then(|(_, hash)| hash);
        let compared = hash.clone().unwrap_or_else(|| NOBODY.to_owned());
        match (password_fits(place, password, compared).await, hash) {
            (Ok(true), Some(hash)) => {
                if request.is_dry_run {
                    // What follows is undone, and with it that the attempt was a good one.
                    self.take_attempt_back(&tried).await?;
                }
                self.go_on(&tried, &hash, request).await
            }
            (Ok(_), _) => {
                self.core.hashing.note_failure(from);
                Err(wrong_credentials())
            }
            // Nothing was compared.
            (Err(no_room), _) => {
                self.take_attempt_back(&tried).await?;
                Err(no_room)
            }
        }
    }

    async fn take_attempt_back(&self, tried: &Tried<'_>) -> Result<()> {
        let mut db = self.write().await?;
        uncount_attempt(&mut db, tried).await?;
        db.commit_unrecorded().await
    }

    /// The password was right: a session, or a challenge for the second factor.
    ///
    /// Hashing takes its time: the password may have been changed in the meantime, or become not enough.
    async fn go_on(&self, tried: &Tried<'_>, hash: &str, request: Request) -> Result<SignIn> {
        let email = tried.email;
        let mut db = self.write().await?;
        sso::refuse_enforced(&mut db, email).await?;
        let user = users::sql::by_email(&mut db, email)
            .await?
            .ok_or_else(wrong_credentials)?;
        users::sql::lock(&mut db, user.id).await?;
        if users::sql::password_hash_of(&mut db, user.id).await?.as_deref() != Some(hash) {
            return Err(wrong_credentials());
        }
        if second_factor::is_set_up(&mut db, user.id).await? {
            let challenge = auth::key::new_token("hgc_", db.random.bytes());
            let expires_at = db.now + CHALLENGE;
            sql::insert_challenge(&mut db, &auth::key::hash(&challenge), user.id, expires_at).await?;
            uncount_attempt(&mut db, tried).await?;
            db.commit(&Actor::nobody(request), &[]).await?;
            return Ok(SignIn::SecondFactor { challenge });
        }
        unlock(&mut db, email, request.origin.address).await?;
        let session = sessions::open(&mut db, &user, Opening::with_password(&request)).await?;
        let entry = Entry::happened(&user, "logged_in");
        db.commit(&Actor::user(user.id, request), &[entry]).await?;
        Ok(SignIn::Done { user, session })
    }

    /// The second step: a code of the authenticator, or one of the backup codes.
    #[boxed]
    pub async fn sign_in_with_code(&self, challenge: &str, code: &str, request: Request) -> Result<(User, String)> {
        self.core.attempts.count(&request)?;
        let hash = auth::key::hash(challenge);
        let mut db = self.write().await?;
        let user = sql::challenged(&mut db, &hash).await?.ok_or_else(expired_challenge)?;
        users::sql::lock(&mut db, user.id).await?;
        // Whoever proved the address in the meantime has ended it.
        let user = sql::challenged(&mut db, &hash).await?.filter(|now| now.id == user.id);
        let user = user.ok_or_else(expired_challenge)?;
        let email = Email::new(&user.email).map_err(|_| wrong_credentials())?;
        // Whoever knows the password could gather challenges and try a few codes with each.
        count_attempt(&mut db, &Tried::inside(&email)).await?;
        // Enforcement may have been enabled since the password was typed.
        sso::refuse_enforced(&mut db, &email).await?;
        let Some(kind) = second_factor::accept(&mut db, &self.core.instance, &user, code).await? else {
            sql::count_try(&mut db, &hash, MAX_TRIES).await?;
            db.commit_unrecorded().await?;
            return Err(Error::invalid(
                "token",
                "2fa_invalid",
                "this code is incorrect or was already used",
            ));
        };
        sql::delete_challenge(&mut db, &hash).await?;
        unlock(&mut db, &email, request.origin.address).await?;
        let opening = Opening {
            has_second_factor: true,
            ..Opening::with_password(&request)
        };
        let session = sessions::open(&mut db, &user, opening).await?;
        let entry = Entry::happened(&user, kind);
        db.commit(&Actor::user(user.id, request), &[entry]).await?;
        Ok((user, session))
    }

    async fn tried<'a>(&self, email: &'a Email, from: Option<IpAddr>) -> Result<Tried<'a>> {
        let is_known = match from {
            Some(address) => {
                let mut db = self.core.store.read().await?;
                sql::is_known(&mut db, &account_and_network(email, address)).await?
            }
            None => false,
        };
        Ok(Tried { email, from, is_known })
    }

    /// Forgets from where people signed in long ago.
    #[boxed]
    pub async fn forget_old_networks(&self) -> Result<()> {
        let mut db = self.write().await?;
        let before = db.now - KNOWN_FOR;
        sql::forget_networks(&mut db, before).await?;
        db.commit_unrecorded().await
    }
}

/// The same for an unknown address and for a wrong password.
pub(super) fn wrong_credentials() -> Error {
    Error::refused("invalid_credentials", "incorrect email or password")
}

fn expired_challenge() -> Error {
    Error::refused(
        "2fa_expired",
        "this sign-in timed out or had too many incorrect codes: sign in again",
    )
}
