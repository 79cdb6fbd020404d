use super::{CHALLENGE, LOCK, MEMORY, MOST_FAILURES, MOST_TRIES, SignIn, sql};
use crate::access::{Request, Who};
use crate::activity::Entry;
use crate::db::Writing;
use crate::error::{Error, Result};
use crate::sessions::{self, Opening};
use crate::text::Email;
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
        let mut db = self.core.store.read().await?;
        sso::refuse_enforced(&mut db, &email).await?;
        self.refuse_locked(&mut db, &email).await?;
        let stored = users::sql::password_hash(&mut db, &email).await?;
        drop(db);
        let hash = stored.and_then(|(_, hash)| hash);
        let is_known = hash.is_some();
        let fits = users::cases::password_fits(password, hash.unwrap_or_else(|| NOBODY.to_owned())).await;
        if !(is_known && fits) {
            self.note_failure(&email).await?;
            return Err(wrong_credentials());
        }
        self.go_on(&email, request).await
    }

    /// The password was right: a session, or a challenge for the second factor.
    async fn go_on(&self, email: &Email, request: Request) -> Result<SignIn> {
        let mut db = self.write().await?;
        let user = users::sql::by_email(&mut db, email)
            .await?
            .ok_or_else(wrong_credentials)?;
        if second_factor::is_set_up(&mut db, user.id).await? {
            let challenge = auth::key::new_token("hgc_", db.chance.bytes());
            let expires_at = db.now + CHALLENGE;
            sql::insert_challenge(&mut db, &auth::key::hash(&challenge), user.id, expires_at).await?;
            db.commit_unrecorded().await?;
            return Ok(SignIn::SecondFactor { challenge });
        }
        sql::forget_failures(&mut db, &email_hash(email)).await?;
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
        // Enforcement may have been switched on since the password was typed.
        sso::refuse_enforced(&mut db, &email).await?;
        let Some(kind) = second_factor::accept(&mut db, &self.core.instance, &user, code).await? else {
            sql::count_try(&mut db, &hash, MOST_TRIES).await?;
            db.commit_unrecorded().await?;
            self.note_failure(&email).await?;
            return Err(Error::invalid(
                "token",
                "2fa_invalid",
                "this code is not right, or was used before",
            ));
        };
        sql::delete_challenge(&mut db, &hash).await?;
        sql::forget_failures(&mut db, &email_hash(&email)).await?;
        let opening = Opening {
            has_second_factor: true,
            ..Opening::with_password(&request)
        };
        let session = sessions::open(&mut db, &user, opening).await?;
        let entry = Entry::happened(&user, kind);
        db.commit(&Who::user(user.id, request), &[entry]).await?;
        Ok((user, session))
    }

    pub(super) async fn refuse_locked(&self, db: &mut crate::db::Session, email: &Email) -> Result<()> {
        let now = self.core.clock.now();
        match sql::locked_until(db, &email_hash(email)).await? {
            Some(end) if end > now => Err(Error::Throttled((end - now).to_std().unwrap_or_default())),
            _ => Ok(()),
        }
    }

    /// Counts a failure against the address that was tried.
    pub(super) async fn note_failure(&self, email: &Email) -> Result<()> {
        let mut db = self.write().await?;
        count_failure(&mut db, email).await?;
        db.commit_unrecorded().await
    }
}

async fn count_failure(db: &mut Writing, email: &Email) -> Result<()> {
    let (now, hash) = (db.now, email_hash(email));
    sql::forget_old_failures(db, now - MEMORY).await?;
    let failures = sql::add_failure(db, &hash).await?;
    if failures % MOST_FAILURES == 0 {
        sql::lock(db, &hash, now + LOCK).await?;
    }
    Ok(())
}

/// What failures are counted under: the table shall not list the addresses that people tried.
pub(super) fn email_hash(email: &Email) -> auth::key::SecretHash {
    auth::key::hash(&email.key())
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
