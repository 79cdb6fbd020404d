//! Single sign-on: what an identity provider vouches for, and how far that goes.

mod attempts;
mod cases;
mod consequences;
mod enforcement;
mod links;
mod method;
mod pending_logins;
mod rules;
pub(crate) mod sql;

pub use attempts::Refused;
pub use consequences::Consequences;
pub(crate) use enforcement::{LOCKS_OUT, an_owner_gets_in, an_owner_gets_in_now, refuse_enforced};
pub(crate) use links::{forget_domain, forget_old_providers, forget_organization, forget_owner};
pub use method::Sso;
pub use pending_logins::PendingLogin;

use crate::clock::Time;
use crate::id::{AttemptId, DomainId, OrganizationId, UserUuid};
use crate::level::Level;
use crate::sessions::OwnProof;

/// Somebody, as an identity provider says. What it says is verified; what it may say is decided here.
#[derive(Debug, Clone)]
pub struct VerifiedIdentity {
    pub sso: Sso,
    /// The domain whose provider it is; none for the instance's own.
    pub domain: Option<DomainId>,
    /// The provider's own name for the person, which never changes.
    pub subject: String,
    pub email: String,
    pub first_name: String,
    pub last_name: String,
    /// Whose account the browser was signed in to when it was sent away.
    pub signed_in_as: Option<OwnProof>,
    /// When the provider wants the session to end, if it says.
    pub session_until: Option<Time>,
    /// An assertion that is good once, and until when it must be remembered.
    pub assertion: Option<(String, Time)>,
}

/// How somebody with this address may sign in, by its domain alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Precheck {
    pub enforced: Option<Sso>,
    pub has_saml: bool,
    pub has_oidc: bool,
    pub domain: Option<DomainId>,
}

/// What became of a sign-in through a domain.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Attempt {
    pub id: AttemptId,
    pub organization_id: OrganizationId,
    pub domain_id: DomainId,
    pub method: String,
    /// As far as one got to know.
    pub email: String,
    /// The rule that was broken; none if the person got in.
    pub rule: Option<String>,
    pub detail: String,
    pub address: String,
    pub request_id: String,
    pub created_at: Time,
    /// It came with the provider's valid word.
    pub is_from_idp: bool,
}

/// A member who has yet to sign in this way.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct NewMember {
    pub uuid: UserUuid,
    pub email: String,
    pub level: Level,
}
