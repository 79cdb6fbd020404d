//! Single sign-on: what an identity provider vouches for, and how far that goes.

mod attempts;
mod cases;
mod consequences;
mod pending_logins;
mod rules;
pub(crate) mod sql;

pub use attempts::{Attempt, Refused};
pub use consequences::{Consequences, Newcomer};
pub use pending_logins::PendingLogin;

use std::fmt;
use std::str::FromStr;

use crate::clock::Time;
use crate::db::{Session, WriteTx};
use crate::domains::{self, Domain};
use crate::error::{Error, Result};
use crate::id::{DomainId, OrganizationId, UserId};
use crate::level::Level;
use crate::sessions;
use crate::text::Email;

/// A way to sign in that somebody else checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sso {
    Saml,
    Oidc,
    Google,
    GitHub,
    GitLab,
}

impl Sso {
    pub const ALL: [Self; 5] = [Self::Saml, Self::Oidc, Self::Google, Self::GitHub, Self::GitLab];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Saml => "saml",
            Self::Oidc => "oidc",
            Self::Google => "google-oauth2",
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Saml => "SAML",
            Self::Oidc => "OpenID Connect",
            Self::Google => "Google",
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
        }
    }

    /// Whose subjects these are. Those of one domain's provider say nothing about another's.
    fn provider(self, domain: Option<DomainId>) -> String {
        match domain {
            Some(id) => format!("{self}:{id}"),
            None => self.to_string(),
        }
    }

    /// Whether the provider is a domain's own, rather than the whole instance's.
    pub(crate) fn is_of_domain(self) -> bool {
        matches!(self, Self::Saml | Self::Oidc)
    }
}

impl fmt::Display for Sso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Sso {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|sso| sso.as_str() == text).ok_or(())
    }
}

/// Somebody, as an identity provider says. What it says is verified; what it may say is decided here.
#[derive(Debug, Clone)]
pub struct Vouched {
    pub sso: Sso,
    /// The domain whose provider it is; none for the instance's own.
    pub domain: Option<DomainId>,
    /// The provider's own name for the person, which never changes.
    pub subject: String,
    pub email: String,
    pub first_name: String,
    pub last_name: String,
    /// Whose account the browser was signed in to when it was sent away.
    pub signed_in_as: Option<UserId>,
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

/// Where single sign-on is enforced, a password is not enough, whoever it belongs to.
pub(crate) async fn refuse_enforced(db: &mut Session, email: &Email) -> Result<()> {
    let holder = domains::sql::holder(db, &email.domain()).await?;
    match holder.and_then(|domain| domain.enforced()) {
        Some(sso) => {
            let detail = format!("Addresses on {} must sign in with {}.", email.domain(), sso.title());
            Err(Error::refused("sso_enforced", detail))
        }
        None => Ok(()),
    }
}

/// Why an enforcement is refused that would leave no owner a way in.
pub(crate) const LOCKS_OUT: &str = "No owner could sign in any more. Have an owner sign in this way first, make someone \
    with an address on another domain an owner, or create recovery codes.";

/// Whether some owner could still sign in with this enforcement: one who has done so this way before, one whose
/// address is elsewhere and who has another way, or one with a recovery code.
pub(crate) async fn an_owner_gets_in(db: &mut Session, domain: &Domain, sso: Sso) -> Result<bool> {
    some_owner_gets_in(db, domain.organization_id, Some((domain, sso))).await
}

/// The same with the domains as they are. Where nothing is enforced, everybody has the ways they have.
pub(crate) async fn an_owner_gets_in_now(db: &mut Session, organization: OrganizationId) -> Result<bool> {
    if !sql::is_enforced_somewhere(db, organization).await? {
        return Ok(true);
    }
    some_owner_gets_in(db, organization, None).await
}

async fn some_owner_gets_in(
    db: &mut Session,
    organization: OrganizationId,
    planned: Option<(&Domain, Sso)>,
) -> Result<bool> {
    for owner in sql::owners(db, organization).await? {
        let Ok(email) = Email::new(&owner.email) else { continue };
        let needed = match planned {
            Some((domain, sso)) if email.domain() == domain.domain => Some((sso, domain.id)),
            _ => {
                let holder = domains::sql::holder(db, &email.domain()).await?;
                holder.and_then(|holder| Some((holder.enforced()?, holder.id)))
            }
        };
        let gets_in = match needed {
            Some((sso, id)) => {
                let provider = sso.provider(sso.is_of_domain().then_some(id));
                sql::is_linked(db, owner.id, &provider).await?
            }
            None => owner.has_password,
        };
        if gets_in || owner.has_recovery_code {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Subjects mean something at the provider that named them; at another they may be other people.
///
/// And whoever changes what a provider's word is checked with could speak for anybody: not for those above them.
pub(crate) async fn forget_old_providers(db: &mut WriteTx, before: &Domain, after: &Domain, by: Level) -> Result<()> {
    let (saml, oidc) = (Sso::Saml.provider(Some(after.id)), Sso::Oidc.provider(Some(after.id)));
    if before.saml_entity_id != after.saml_entity_id {
        sql::unlink(db, None, &[saml]).await?;
    } else if (&before.saml_acs_url, &before.saml_x509_cert) != (&after.saml_acs_url, &after.saml_x509_cert) {
        sql::unlink_above(db, &saml, after.organization_id, by).await?;
    }
    // Some providers name people differently to each client.
    if (&before.oidc_issuer, &before.oidc_client_id) != (&after.oidc_issuer, &after.oidc_client_id) {
        sql::unlink(db, None, &[oidc]).await?;
    } else if before.oidc_client_secret != after.oidc_client_secret {
        sql::unlink_above(db, &oidc, after.organization_id, by).await?;
    }
    Ok(())
}

/// Somebody becomes an owner. What the organization's providers said of them before was said of somebody below, without asking
/// them, so it ends: links and sessions. An owner connects their account themselves.
pub(crate) async fn forget_owner(db: &mut WriteTx, organization: OrganizationId, user: UserId) -> Result<()> {
    let domains = domains::sql::ids(db, organization).await?;
    sql::unlink(db, Some(user), &providers_of(&domains)).await?;
    sessions::sql::delete_vouched(db, user, organization).await
}

/// What a domain leaves behind when it goes.
pub(crate) async fn forget_domain(db: &mut WriteTx, domain: DomainId) -> Result<()> {
    sql::unlink(db, None, &providers_of(&[domain])).await?;
    sql::delete_attempts(db, domain).await
}

/// The same of all domains of an organization that goes. Attempts go with it.
pub(crate) async fn forget_organization(db: &mut WriteTx, organization: OrganizationId) -> Result<()> {
    let domains = domains::sql::ids(db, organization).await?;
    sql::unlink(db, None, &providers_of(&domains)).await
}

fn providers_of(domains: &[DomainId]) -> Vec<String> {
    let of_one = |domain: &DomainId| [Sso::Saml, Sso::Oidc].map(|sso| sso.provider(Some(*domain)));
    domains.iter().flat_map(of_one).collect()
}
