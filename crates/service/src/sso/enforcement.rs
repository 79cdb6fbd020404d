//! Where single sign-on is the only way in, and whether an owner still has one.

use super::{Sso, sql};
use crate::db::Session;
use crate::domains::{self, Domain};
use crate::error::{Error, Result};
use crate::id::OrganizationId;
use crate::text::Email;

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
