//! What to offer of what changes apps.

use service::access::{ChangeApps, Permission};
use service::pipeline::App;
use service::{Error, Service};

use crate::failure::Failure;
use crate::organization::OrganizationAccess;

/// Whether to offer what changes apps: the organization may not be allowed to.
pub(super) async fn may_install<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
) -> Result<bool, Failure> {
    let caller = access.also::<ChangeApps>(service).await?;
    is_allowed(service.may_change_apps(&caller).await)
}

/// Whether to offer publishing an app for every organization.
pub(super) async fn may_share(service: &Service, access: &OrganizationAccess<ChangeApps>) -> Result<bool, Failure> {
    is_allowed(service.may_share_apps(&access.caller).await)
}

fn is_allowed(answer: service::Result<()>) -> Result<bool, Failure> {
    match answer {
        Ok(()) => Ok(true),
        Err(Error::Forbidden(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The same for one app: those of other organizations can be used, but not changed.
pub(super) async fn may_change<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    app: &App,
) -> Result<bool, Failure> {
    Ok(app.organization_id == access.organization.id && may_install(service, access).await?)
}
