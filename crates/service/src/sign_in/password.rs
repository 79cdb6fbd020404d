use std::net::IpAddr;

use auth::key::SecretHash;
use chrono::TimeDelta;

use super::attempts::network;
use super::{CHALLENGE, LOCK, MEMORY, MOST_FAILURES, MOST_FROM_ANYWHERE, MOST_TRIES, SignIn, sql};
use crate::access::{Request, Who};
use crate::activity::Entry;
use crate::db::{Session, Writing};
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
    pub async fn sign_in(&self, email: &str, password: &str, request: Request) -> Result<SignIn> {
        self.core.attempts.count(&request)?;
        let email = Email::new(email).map_err(|_| wrong_credentials())?;
        let from = request.origin.address;
        // Those who guess are turned away here, before they cost anything.
        let place = self.core.hashing.enter(from)?;
        let mut db = self.write().await?;
        sso::refuse_enforced(&mut db, &email).await?;
        self.count_attempt_for(&mut db, &email, from).await?;
        let stored = users::sql::password_hash(&mut db, &email).await?;
        db.commit_unrecorded().await?;
        let hash = stored.and_then(|(_, hash)| hash);
        let compared = hash.clone().unwrap_or_else(|| NOBODY.to_owned());
        let fits = password_fits(place, password, compared).await;
        match hash {
            Some(hash) if fits => {
                if request.is_dry_run {
                    // What follows is undone, and with it that the attempt was a good one.
                    let mut db = self.write().await?;
                    uncount_attempt_for(&mut db, &email, from).await?;
                    db.commit_unrecorded().await?;
                }
                self.go_on(&email, &hash, request).await
            }
            _ => {
                self.core.hashing.note_failure(from);
                Err(wrong_credentials())
            }
        }
    }

    /// The password was right: a session, or a challenge for the second factor.
    ///
    /// Hashing takes its time: the password may have been changed meanwhile, or become not enough.
    async fn go_on(&self, email: &Email, hash: &str, request: Request) -> Result<SignIn> {
        let mut db = self.write().await?;
        sso::refuse_enforced(&mut db, email).await?;
        let stored = users::sql::password_hash(&mut db, email).await?;
        if stored.and_then(|(_, stored)| stored).as_deref() != Some(hash) {
            return Err(wrong_credentials());
        }
        let user = users::sql::by_email(&mut db, email)
            .await?
            .ok_or_else(wrong_credentials)?;
        if second_factor::is_set_up(&mut db, user.id).await? {
            let challenge = auth::key::new_token("hgc_", db.chance.bytes());
            let expires_at = db.now + CHALLENGE;
            sql::insert_challenge(&mut db, &auth::key::hash(&challenge), user.id, expires_at).await?;
            uncount_attempt_for(&mut db, email, request.origin.address).await?;
            db.commit(&Who::nobody(request), &[]).await?;
            return Ok(SignIn::SecondFactor { challenge });
        }
        unlock(&mut db, email, request.origin.address).await?;
        let session = sessions::open(&mut db, &user, Opening::with_password(&request)).await?;
        let entry = Entry::happened(&user, "logged_in");
        db.commit(&Who::user(user.id, request), &[entry]).await?;
        Ok(SignIn::Done { user, session })
    }

    /// The second step: a code of the authenticator, or one of the backup codes.
    pub async fn sign_in_with_code(&self, challenge: &str, code: &str, request: Request) -> Result<(User, String)> {
        self.core.attempts.count(&request)?;
        let hash = auth::key::hash(challenge);
        let mut db = self.write().await?;
        let user = sql::challenged(&mut db, &hash).await?.ok_or_else(expired_challenge)?;
        let email = Email::new(&user.email).map_err(|_| wrong_credentials())?;
        // Whoever knows the password could gather challenges and try a few codes with each.
        self.count_attempt_for(&mut db, &email, None).await?;
        // Enforcement may have been switched on since the password was typed.
        sso::refuse_enforced(&mut db, &email).await?;
        let Some(kind) = second_factor::accept(&mut db, &self.core.instance, &user, code).await? else {
            sql::count_try(&mut db, &hash, MOST_TRIES).await?;
            db.commit_unrecorded().await?;
            return Err(Error::invalid(
                "token",
                "2fa_invalid",
                "this code is not right, or was used before",
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
        db.commit(&Who::user(user.id, request), &[entry]).await?;
        Ok((user, session))
    }

    async fn refuse_locked(&self, db: &mut Session, email: &Email, from: Option<IpAddr>) -> Result<()> {
        let now = self.core.clock.now();
        for counted in all_counters(email, from) {
            match sql::locked_until(db, &counted).await? {
                Some(end) if end > now => return Err(locked(end - now)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Counts an attempt against the address that is tried, from where it is tried, before anything is compared: of many
    /// that come at once, no more are looked at than may fail. One that succeeds is taken back.
    pub(crate) async fn count_attempt_for(&self, db: &mut Writing, email: &Email, from: Option<IpAddr>) -> Result<()> {
        let now = db.now;
        sql::forget_old_failures(db, now - MEMORY).await?;
        self.refuse_locked(db, email, from).await?;
        for (counted, most) in counters(email, from) {
            let (failures, locked_until) = sql::add_failure(db, &counted).await?;
            if let Some(end) = locked_until.filter(|end| *end > now) {
                return Err(locked(end - now));
            }
            if failures % most == 0 {
                sql::lock(db, &counted, now + LOCK).await?;
            }
        }
        Ok(())
    }
}

/// The attempt that was counted was none of a guesser's.
pub(crate) async fn uncount_attempt_for(db: &mut Writing, email: &Email, from: Option<IpAddr>) -> Result<()> {
    for (counted, most) in counters(email, from) {
        sql::take_failure_back(db, &counted, most).await?;
    }
    Ok(())
}

fn locked(wait: TimeDelta) -> Error {
    Error::Throttled(wait.to_std().unwrap_or_default())
}

/// Forgets the failures of an address, and with them its lock.
pub(crate) async fn unlock(db: &mut Writing, email: &Email, from: Option<IpAddr>) -> Result<()> {
    for counted in all_counters(email, from) {
        sql::forget_failures(db, &counted).await?;
    }
    Ok(())
}

/// What a failure is counted under, and how many lock: few from one network, so that nobody locks out somebody who is
/// elsewhere, and more from anywhere. `None` is somebody who knows the password already, and guesses what comes after it;
/// those failures are a count of their own, or wrong passwords in between would hide them.
///
/// Hashes, for the table shall not list the addresses that people tried.
fn counters(email: &Email, from: Option<IpAddr>) -> Vec<(SecretHash, i64)> {
    let key = email.key();
    match from {
        None => vec![(auth::key::hash(&format!("{key} inside")), MOST_FAILURES)],
        Some(address) => vec![
            (auth::key::hash(&format!("{key} {}", network(address))), MOST_FAILURES),
            (auth::key::hash(&key), MOST_FROM_ANYWHERE),
        ],
    }
}

/// Whatever the failures were: each lock holds for all of signing in.
fn all_counters(email: &Email, from: Option<IpAddr>) -> Vec<SecretHash> {
    let inside = counters(email, None);
    let outside = from.map(|address| counters(email, Some(address))).unwrap_or_default();
    inside.into_iter().chain(outside).map(|(counted, _)| counted).collect()
}

/// The same for an unknown address and for a wrong password.
pub(super) fn wrong_credentials() -> Error {
    Error::refused(
        "invalid_credentials",
        "this e-mail address and password do not belong together",
    )
}

fn expired_challenge() -> Error {
    Error::refused(
        "2fa_expired",
        "this took too long, or too many codes were tried: sign in again",
    )
}
