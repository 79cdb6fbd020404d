//! Showing again that it is the person who is signed in, and not whoever found an open browser.

use boxed::boxed;
use schemars::JsonSchema;
use serde::Deserialize;

use super::password::wrong_credentials;
use super::{Tried, count_attempt, uncount_attempt};
use crate::activity::Entry;
use crate::error::{Error, Result};
use crate::sessions::{self, SignedIn};
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::passwords::password_fits;
use crate::users::{self, User};
use crate::{Service, second_factor};

/// Send either this or `token`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "password": "correct horse battery" }]))]
pub struct Confirmation {
    #[schemars(length(min = 1, max = 256), extend("format" = "password"))]
    pub password: Option<String>,
    /// A six-digit code from an authenticator app, or a backup code.
    #[schemars(length(min = 6, max = 40))]
    pub token: Option<String>,
}

impl Service {
    /// Confirms that it is the person. The session gets a new secret, which is returned; the old one stops working.
    #[boxed]
    pub async fn confirm_person(&self, person: &SignedIn, proof: &Confirmation) -> Result<String> {
        self.core.attempts.count(&person.actor.request)?;
        let session = person.session.ok_or(Error::BadCredential)?;
        let user = self.user(person.user).await?;
        let mut db = match (&proof.password, &proof.token) {
            (Some(password), _) => {
                self.expect_password(person, "password", password).await?;
                self.write().await?
            }
            (None, Some(token)) => self.expect_code(&user, token).await?,
            (None, None) => {
                let detail = "enter your password, or send a token";
                return Err(Error::invalid("password", "required", detail));
            }
        };
        let token = sessions::confirm(&mut db, session).await?;
        db.commit(&person.actor, &[Entry::happened(&user, "identity_confirmed")])
            .await?;
        Ok(token)
    }

    /// Makes sure that somebody knows their password.
    pub(super) async fn expect_password(&self, person: &SignedIn, field: &'static str, given: &str) -> Result<()> {
        let email = address(&self.user(person.user).await?)?;
        let from = person.actor.request.origin.address;
        let place = self.core.hashing.enter(from, Some(&email))?;
        let mut db = self.write().await?;
        let Some(stored) = users::sql::password_hash_of(&mut db, person.user).await? else {
            let detail = "you have no password: sign in again with SSO, or send a token";
            return Err(Error::invalid(field, "no_password", detail));
        };
        count_attempt(&mut db, &Tried::inside(&email)).await?;
        db.commit_unrecorded().await?;
        let fits = password_fits(place, given, stored).await;
        if let Ok(false) = fits {
            let detail = "incorrect password";
            return Err(Error::invalid(field, "invalid_credentials", detail));
        }
        let mut db = self.write().await?;
        uncount_attempt(&mut db, &Tried::inside(&email)).await?;
        db.commit_unrecorded().await?;
        fits.map(drop)
    }

    /// Takes a code, in the transaction of what it is given for: a dry run uses none up.
    async fn expect_code(&self, user: &User, code: &str) -> Result<WriteTx> {
        let email = address(user)?;
        let mut db = self.write().await?;
        users::sql::lock(&mut db, user.id).await?;
        count_attempt(&mut db, &Tried::inside(&email)).await?;
        // One that was only begun to be set up proves nothing: whoever began it has its secret.
        let is_set_up = second_factor::is_set_up(&mut db, user.id).await?;
        let instance = &self.core.instance;
        if is_set_up && second_factor::accept(&mut db, instance, user, code).await?.is_some() {
            uncount_attempt(&mut db, &Tried::inside(&email)).await?;
            return Ok(db);
        }
        db.commit_unrecorded().await?;
        let detail = "this code is incorrect or was already used";
        Err(Error::invalid("token", "2fa_invalid", detail))
    }
}

fn address(user: &User) -> Result<Email> {
    Email::new(&user.email).map_err(|_| wrong_credentials())
}
