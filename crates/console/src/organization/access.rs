//! Who may do something in an organization.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::response::Response;
use service::access::{Caller, Permission, ReadOrganization};
use service::credentials::Credential;
use service::organizations::{Organization, OrganizationRef};
use service::{Error, PageSlot, Service};

use super::memberships::{Membership, memberships};
use crate::failure::Failure;
use crate::page;
use crate::state::Console;
use crate::visitor::Account;

/// Somebody who may do `P` in the organization that the path names, and what stands around every page there.
/// Whoever may not is shown why, and never gets here.
#[derive(Debug)]
pub(crate) struct OrganizationAccess<P> {
    pub(crate) caller: Caller<P>,
    pub(crate) account: Account,
    pub(crate) organization: Organization,
    pub(crate) memberships: Vec<Membership>,
    /// None: no page is made now, or one that is counted elsewhere.
    slot: Option<PageSlot>,
}

impl<P: Permission> FromRequestParts<Console> for OrganizationAccess<P> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Response> {
        let account = Account::from_request_parts(parts, console).await?;
        let wanted = organization_in_path(parts, console).await.map_err(page::refuse)?;
        let service = console.identity.service();
        // A form is acted upon first, which may take long, and mostly leads to another page.
        let is_page = parts.method.is_safe();
        Self::new(service, account, wanted, is_page).await.map_err(page::refuse)
    }
}

/// What cannot be an id is not found, as what belongs to others is not.
async fn organization_in_path(parts: &mut Parts, console: &Console) -> Result<OrganizationRef, Failure> {
    let params = RawPathParams::from_request_parts(parts, console).await;
    let params = params.map_err(|_| Failure::NoSuchPage)?;
    let named = params.iter().find(|(name, _)| *name == "organization");
    match named {
        Some((_, "@current")) => Ok(OrganizationRef::Current),
        Some((_, text)) => text.parse().map(OrganizationRef::Id).map_err(|_| Failure::NoSuchPage),
        None => Err(Failure::NoSuchPage),
    }
}

impl<P: Permission> OrganizationAccess<P> {
    async fn new(service: &Service, account: Account, wanted: OrganizationRef, is_page: bool) -> Result<Self, Failure> {
        let credential = Credential::Session(&account.session);
        let caller = service
            .allowed::<P>(credential, Some(wanted), account.request())
            .await?;
        let slot = if is_page {
            Some(page_slot(service, &account).await?)
        } else {
            None
        };
        let reader = also::<ReadOrganization, P>(service, &account, &caller).await?;
        let seen = service.organization(&reader).await?;
        Ok(Self {
            memberships: memberships(service, &account).await?.items,
            organization: seen.organization.clone(),
            caller,
            account,
            slot,
        })
    }

    /// For a form that is answered with a page of its own.
    pub(crate) async fn hold_slot(&mut self, service: &Service) -> Result<(), Error> {
        if self.slot.is_none() {
            // The page is one of the organization; what was read last are the person's memberships.
            self.also::<ReadOrganization>(service).await?;
            self.slot = Some(page_slot(service, &self.account).await?);
        }
        Ok(())
    }

    /// For a page that waits for something slow, of which few are made at a time anyway: others' pages do not wait with it.
    pub(crate) fn give_up_slot(&mut self) {
        self.slot = None;
    }

    /// The same person, for another kind of thing on the same page.
    pub(crate) async fn also<Q: Permission>(&self, service: &Service) -> Result<Caller<Q>, Error> {
        also(service, &self.account, &self.caller).await
    }

    /// Whether to offer something. Whether it happens is for the service to say.
    pub(crate) fn may<Q: Permission>(&self) -> bool {
        self.caller.level >= Q::LEVEL
    }

    /// A page below this organization.
    pub(crate) fn path(&self, below: &str) -> String {
        format!("/organizations/{}/{below}", self.organization.id)
    }

    /// The API's path of the same.
    pub(crate) fn api(&self, below: &str) -> String {
        format!("/api/organizations/{}/{below}", self.organization.id)
    }
}

async fn page_slot(service: &Service, account: &Account) -> Result<PageSlot, Error> {
    service.page_slots().acquire(Some(account.person.user)).await
}

async fn also<Q: Permission, P>(service: &Service, account: &Account, caller: &Caller<P>) -> Result<Caller<Q>, Error> {
    let organization = Some(OrganizationRef::Id(caller.organization));
    let credential = Credential::Session(&account.session);
    service.allowed(credential, organization, account.request()).await
}
