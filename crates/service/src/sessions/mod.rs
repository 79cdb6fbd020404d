//! Sessions: what a browser holds of somebody who has signed in.

mod cases;
mod proof;
pub(crate) mod sql;

pub(crate) use cases::{Opening, confirm, open, renew};
pub use proof::OwnProof;
pub(crate) use proof::expect_still_signed_in;

use chrono::TimeDelta;

use crate::access::{Actor, expect_recent};
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::id::{OrganizationId, SessionId, UserId, UserUuid};

/// After this long without a request a session is over.
const IDLE: TimeDelta = TimeDelta::days(3);
/// After this long it is over in any case.
const ABSOLUTE: TimeDelta = TimeDelta::days(14);

/// How many somebody has: whoever opens another one ends the oldest.
const MAX: i64 = 100;

/// A person, proven by a session or by having the machine; never by a key.
#[derive(Debug, Clone)]
pub struct SignedIn {
    pub actor: Actor,
    pub user: UserId,
    pub user_uuid: UserUuid,
    /// None: the command line.
    pub session: Option<SessionId>,
    pub has_second_factor: bool,
    /// Whose identity provider vouched for the person, or whose recovery code let them in.
    pub authenticated_by: Option<OrganizationId>,
    /// Whose identity provider it rests on, if it rests on nothing that the person alone has.
    pub(crate) provider_of: Option<OrganizationId>,
    /// Belongs to organizations other than the one that vouched.
    pub(crate) belongs_elsewhere: bool,
    /// Belongs to an organization that asks for a second factor.
    pub needs_second_factor: bool,
    /// When they last showed that it is them. None: the command line.
    pub(crate) authenticated_at: Option<Time>,
}

impl SignedIn {
    /// An organization's identity provider speaks for its members there. What concerns the account as a whole, and
    /// with it other organizations, is for the person alone.
    pub(crate) fn acts_for_themselves(&self) -> Result<()> {
        if self.authenticated_by.is_some() && self.belongs_elsewhere {
            return Err(Error::Forbidden(
                "You signed in through one organization but belong to several. Sign in with your password to change \
                 settings that affect all of them."
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// An organization's identity provider speaks for nobody outside of that organization, so it cannot vouch for a right that
    /// concerns all of them.
    pub(crate) fn acts_for_the_instance(&self) -> Result<()> {
        if self.authenticated_by.is_some() {
            return Err(Error::Forbidden(
                "You signed in through an organization's identity provider. Sign in with your password to act as an \
                 operator of this instance."
                    .to_owned(),
            ));
        }
        self.is_fully_proven()
    }

    /// Whoever runs an identity provider can sign in as anybody on its domains. What they choose then must not open more than
    /// the provider does.
    pub(crate) fn acts_without_provider(&self) -> Result<()> {
        if self.authenticated_by.is_some() {
            return Err(Error::Forbidden(
                "You signed in through an organization. To set a first password, request a password reset email."
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Who connects an account to a provider does not do so on the word of a provider.
    pub fn own_proof(&self) -> Option<OwnProof> {
        let (user, session) = (self.user, self.session?);
        self.provider_of.is_none().then_some(OwnProof { user, session })
    }

    /// What would outlast an open browser that somebody found, such as a key, needs a proof that is not old.
    pub(crate) fn expect_recent_proof(&self, now: Time) -> Result<()> {
        expect_recent(self.authenticated_at, now)
    }

    /// Whether such things can be done without asking first.
    pub fn has_recent_proof(&self, now: Time) -> bool {
        expect_recent(self.authenticated_at, now).is_ok()
    }

    /// What grants further access, such as an API key, needs all the proof that any of the organizations asks for.
    pub(crate) fn is_fully_proven(&self) -> Result<()> {
        self.acts_for_themselves()?;
        if self.needs_second_factor && !self.has_second_factor {
            return Err(Error::SecondFactorNeeded);
        }
        Ok(())
    }
}

/// A session as its owner sees it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Listed {
    pub id: SessionId,
    pub method: String,
    pub has_second_factor: bool,
    pub address: String,
    pub user_agent: String,
    pub created_at: Time,
    pub last_used_at: Time,
    pub expires_at: Time,
}
