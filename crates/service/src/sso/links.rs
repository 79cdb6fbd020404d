//! What ends with a provider, a domain or a role: the links of accounts to what a provider calls them.

use super::{Sso, sql};
use crate::domains::{self, Domain};
use crate::error::Result;
use crate::id::{DomainId, OrganizationId, UserId};
use crate::level::Level;
use crate::sessions;
use crate::transaction::WriteTx;

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
