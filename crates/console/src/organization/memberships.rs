//! The organizations that somebody belongs to.

use service::access::ReadOrganization;
use service::credentials::Credential;
use service::{OrganizationId, Page, Service, Window};

use crate::failure::Failure;
use crate::show;
use crate::visitor::Account;

/// As many as the switcher shows; the list has all of them.
const MAX_IN_SWITCHER: i64 = 12;

/// An organization that somebody belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    pub(crate) id: OrganizationId,
    pub(crate) name: String,
    pub(crate) level: &'static str,
    pub(crate) members: String,
    pub(crate) asks_for_second_factor: bool,
}

/// The organizations that one belongs to and can reach now, newest first.
pub(crate) async fn memberships(service: &Service, account: &Account) -> Result<Page<Membership>, Failure> {
    memberships_in(service, account, Window::new(Some(MAX_IN_SWITCHER), None)).await
}

pub(crate) async fn memberships_in(
    service: &Service,
    account: &Account,
    window: Window,
) -> Result<Page<Membership>, Failure> {
    let credential = Credential::Session(&account.session);
    let principal = service
        .principal::<ReadOrganization>(credential, account.request())
        .await?;
    let seen = service.organizations(&principal, window).await?;
    Ok(seen.map(|seen| Membership {
        id: seen.organization.id,
        name: seen.organization.name.to_string(),
        level: show::level(seen.level),
        members: show::counted(seen.organization.member_count, "member"),
        asks_for_second_factor: seen.organization.enforce_2fa,
    }))
}
