//! What an identity provider's word is worth: the rules that somebody it vouches for must pass.

use super::{Sso, VerifiedIdentity, sql};
use crate::domains::{self, Domain};
use crate::error::{Error, Result};
use crate::id::OrganizationId;
use crate::level::Level;
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::User;
use crate::{invites, members, organizations};

/// Each assertion is good once.
pub(super) async fn take_assertion(db: &mut WriteTx, identity: &VerifiedIdentity) -> Result<()> {
    let (Some((id, until)), Some(domain)) = (&identity.assertion, identity.domain) else {
        return Ok(());
    };
    if sql::take_assertion(db, domain, id, *until).await? {
        return Ok(());
    }
    Err(Error::refused(
        "replayed",
        "This assertion was already used. Each works once.",
    ))
}

/// The domain on whose word somebody comes in. Locks its organization, so that rules hold until the end.
pub(super) async fn vouching_domain(
    db: &mut WriteTx,
    identity: &VerifiedIdentity,
    email: &Email,
) -> Result<Option<Domain>> {
    let Some(id) = identity.domain else {
        let holder = domains::sql::holder(db, &email.domain()).await?;
        if let Some(domain) = &holder {
            expect_method(domain, identity.sso)?;
            organizations::sql::lock(db, domain.organization_id).await?;
        }
        return Ok(holder);
    };
    let domain = domains::sql::by_id(db, id).await?.filter(Domain::is_verified);
    let domain = domain.ok_or_else(|| {
        let detail = "The domain is not verified, so its identity provider can't sign anyone in.";
        Error::refused("domain_not_verified", detail)
    })?;
    organizations::sql::lock(db, domain.organization_id).await?;
    expect_method(&domain, identity.sso)?;
    expect_own_address(db, Some(&domain), email).await?;
    Ok(Some(domain))
}

pub(super) fn expect_method(domain: &Domain, sso: Sso) -> Result<()> {
    match domain.enforced() {
        Some(enforced) if enforced != sso => {
            let detail = format!("Addresses on {} must sign in with {}.", domain.domain, enforced.title());
            Err(Error::refused("sso_enforced", detail))
        }
        _ => Ok(()),
    }
}

/// An organization's provider speaks for addresses on the organization's own domains, and for no others.
pub(super) async fn expect_own_address(db: &mut WriteTx, domain: Option<&Domain>, email: &Email) -> Result<()> {
    let holder = domains::sql::holder(db, &email.domain()).await?;
    let organization = |domain: &Domain| -> OrganizationId { domain.organization_id };
    match (holder.as_ref().map(organization), domain.map(organization)) {
        (Some(holder), Some(voucher)) if holder == voucher => Ok(()),
        _ => Err(foreign_address(email.as_str())),
    }
}

/// The account's own address decides, whatever the provider calls the person today: where that address must be vouched
/// for in one way, no other will do. For the instance's providers it also says which organization a new user joins.
pub(super) async fn expect_way_of(
    db: &mut WriteTx,
    identity: &VerifiedIdentity,
    domain: Option<Domain>,
    user: &User,
) -> Result<Option<Domain>> {
    let own = Email::new(&user.email).map_err(|_| foreign_address(&user.email))?;
    let holder = domains::sql::holder(db, &own.domain()).await?;
    if let Some(holder) = &holder {
        expect_method(holder, identity.sso)?;
        if holder.enforced().is_some_and(Sso::is_of_domain) && identity.domain != Some(holder.id) {
            let detail = format!(
                "Addresses on {} must sign in through that domain's own provider.",
                holder.domain
            );
            return Err(Error::refused("sso_enforced", detail));
        }
    }
    Ok(if identity.domain.is_some() { domain } else { holder })
}

/// Whether the browser was signed in to the account when it was sent away, and that session goes on: it may have been somebody else's, which
/// ended when the address was proved.
pub(super) async fn is_signed_in_to(db: &mut WriteTx, identity: &VerifiedIdentity, user: &User) -> Result<bool> {
    match identity.signed_in_as {
        Some(proof) => proof.holds_for(db, user.id).await,
        None => Ok(false),
    }
}

/// Administrators choose the provider, and a provider could say that anybody is an owner. So an owner's account is
/// connected to it by the owner: by signing in through it while signed in already.
pub(super) async fn refuse_unasked_owner(
    db: &mut WriteTx,
    domain: &Domain,
    user: &User,
    identity: &VerifiedIdentity,
) -> Result<()> {
    let is_owner = members::level_of(db, domain.organization_id, user.id).await? == Some(Level::Owner);
    if !is_owner || is_signed_in_to(db, identity, user).await? {
        return Ok(());
    }
    let detail = format!(
        "{} is an owner and has not signed in this way since becoming one. The first time, owners must do so while signed \
         in with their password or a recovery code.",
        user.email
    );
    Err(Error::refused("owner_not_linked", detail))
}

pub(super) fn foreign_address(email: &str) -> Error {
    let detail =
        format!("{email} is not on a verified domain of this organization, so its identity provider cannot be used.");
    Error::refused("email_domain_mismatch", detail)
}

/// Nobody is taken into an organization, or out of their others, by a provider they never asked.
pub(super) async fn refuse_elsewhere(db: &mut WriteTx, domain: &Domain, user: &User) -> Result<()> {
    let email = Email::new(&user.email).map_err(|_| foreign_address(&user.email))?;
    let is_member = members::has_address(db, domain.organization_id, &email).await?;
    if is_member || !sql::belongs_somewhere(db, user.id).await? {
        return Ok(());
    }
    let invite = invites::sql::by_target(db, domain.organization_id, &email).await?;
    // What comes of it is a session within this organization; their others are not touched.
    if invite.is_some_and(|invite| !invite.is_expired(db.now)) {
        return Ok(());
    }
    let detail =
        format!("{email} has an account in other organizations only. Invite them by email so that they can join.");
    Err(Error::refused("belongs_elsewhere", detail))
}

/// Whether an account has to give its address back to whoever is vouched for now. Nobody ever proved that it is theirs, and
/// other organizations alone took it in: whoever created it may have done so to keep the real person out.
///
/// It keeps what it has, so that a provider takes over nothing. Who is signed in to it at the same time is its owner.
pub(super) async fn gives_way(
    db: &mut WriteTx,
    domain: Option<&Domain>,
    user: &User,
    identity: &VerifiedIdentity,
) -> Result<bool> {
    let (Some(domain), true) = (domain, identity.domain.is_some()) else {
        return Ok(false);
    };
    if user.is_email_verified || is_signed_in_to(db, identity, user).await? {
        return Ok(false);
    }
    let is_member = members::level_of(db, domain.organization_id, user.id).await?.is_some();
    Ok(!is_member && sql::belongs_somewhere(db, user.id).await?)
}

/// Whoever has been given an address that somebody else had before is not that person.
pub(super) async fn refuse_other_subject(db: &mut WriteTx, user: &User, provider: &str, subject: &str) -> Result<()> {
    if !sql::has_other_subject(db, user.id, provider, subject).await? {
        return Ok(());
    }
    let detail = format!(
        "The identity provider sent a different subject (NameID) for {} than before. If all subjects changed, clear \
         saml_entity_id or oidc_issuer and set it again to link accounts by email once more.",
        user.email
    );
    Err(Error::refused("subject_mismatch", detail))
}
