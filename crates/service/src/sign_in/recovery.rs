//! Break-glass: codes that let an owner in when the identity provider does not.

use boxed::boxed;

use super::password::wrong_credentials;
use super::sql;
use crate::Service;
use crate::access::{Actor, Caller, MakeRecoveryCodes, Request};
use crate::activity::Entry;
use crate::error::{Error, Result};
use crate::mail::{self, EmailMessage};
use crate::sessions::{self, Opening};
use crate::text::Email;
use crate::users::{self, User};
use crate::{access_recheck, members, organizations};

/// Codes that were just made, with the one sight of them.
#[derive(Debug, Clone)]
pub struct RecoveryCodes(pub Vec<String>);

impl Service {
    /// Makes a new set for the caller; the old ones stop working. To be printed and locked away.
    #[boxed]
    pub async fn create_recovery_codes(&self, caller: &Caller<MakeRecoveryCodes>) -> Result<RecoveryCodes> {
        if caller.actor.key.is_some() {
            let detail = "recovery codes can only be created by an owner who has signed in, not with an API key";
            return Err(Error::Forbidden(detail.to_owned()));
        }
        caller.expect_recent_proof(self.core.clock.now())?;
        let mut db = self.write().await?;
        let organization = organizations::sql::lock(&mut db, caller.organization).await?;
        // Codes outlast the session: none of them shall be of somebody whose sessions the account's owner has just ended.
        users::sql::lock(&mut db, caller.user).await?;
        access_recheck::expect_access_now(&mut db).await?;
        let codes = long_codes(&db.recovery_codes());
        sql::delete_recovery_codes(&mut db, caller.organization, caller.user).await?;
        for code in &codes {
            sql::insert_recovery_code(&mut db, caller.organization, caller.user, &auth::key::hash(code)).await?;
        }
        let entry = Entry::happened(&organization, "recovery_codes_created");
        db.commit(&caller.actor, &[entry]).await?;
        Ok(RecoveryCodes(codes))
    }

    /// Lets an owner in with a code, whatever the domain enforces. Owners are told.
    #[boxed]
    pub async fn sign_in_with_recovery_code(
        &self,
        email: &str,
        code: &str,
        request: Request,
    ) -> Result<(User, String)> {
        self.core.attempts.count(&request)?;
        let email = Email::new(email).map_err(|_| wrong_code())?;
        let mut db = self.write().await?;
        let hash = auth::key::hash(&normalize(code).ok_or_else(wrong_code)?);
        // Nobody guesses 120 bits, and nobody shall be able to lock an owner out of the last way in.
        let organization = sql::organization_of_code(&mut db, &hash)
            .await?
            .ok_or_else(wrong_code)?;
        let organization = organizations::sql::lock(&mut db, organization).await?;
        let user = users::sql::by_email(&mut db, &email).await?.ok_or_else(wrong_code)?;
        users::sql::lock(&mut db, user.id).await?;
        let taken = sql::take_recovery_code(&mut db, &email, &hash).await?;
        let (_, user) = taken.ok_or_else(wrong_code)?;
        let found = users::sql::by_ids(&mut db, &[user]).await?.pop();
        let user = found.ok_or_else(wrong_credentials)?;
        let email = EmailMessage::RecoveryCodeUsed {
            organization: organization.name.to_string(),
            owner: user.email.clone(),
            address: request.origin.address_text(),
            at: db.now,
        };
        let owners = members::proven_owners(&mut db, organization.id, user.id).await?;
        mail::notify(&mut db, &self.core.instance, organization.id, &email, owners).await?;
        let opening = Opening {
            method: "recovery_code",
            has_second_factor: true,
            authenticated_by: Some(organization.id),
            until: None,
            origin: request.origin.clone(),
        };
        let session = sessions::open(&mut db, &user, opening).await?;
        let entries = [
            Entry::happened(&organization, "recovery_code_used"),
            Entry::happened(&user, "logged_in"),
        ];
        db.commit(&Actor::user(user.id, request), &entries).await?;
        Ok((user, session))
    }
}

/// These open more than a backup code does, and wait for longer: twice as long, so that nobody guesses one even from
/// its hash.
fn long_codes(codes: &[String]) -> Vec<String> {
    codes.chunks_exact(2).map(|pair| pair.join("-")).collect()
}

/// A code as it was given out, from what somebody typed.
fn normalize(typed: &str) -> Option<String> {
    let typed: Vec<char> = typed.chars().filter(|c| c.is_alphanumeric()).collect();
    let halves = typed
        .chunks(12)
        .map(|half| auth::totp::recovery::normalize(&half.iter().collect::<String>()));
    let halves: Vec<String> = halves.collect::<Option<_>>()?;
    (halves.len() == 2).then(|| halves.join("-"))
}

fn wrong_code() -> Error {
    Error::refused(
        "invalid_credentials",
        "incorrect email or recovery code, or the code was already used",
    )
}
