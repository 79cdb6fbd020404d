//! Where the page of a domain is, and what stands around those below it.

use service::DomainId;
use service::domains::Domain;

use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};

/// The page of a domain, below its organization; the API has the same path.
pub(crate) fn below(id: DomainId) -> String {
    format!("domains/{id}/")
}

/// What stands around a page below a domain's own.
pub(super) fn frame_below<P>(access: &OrganizationAccess<P>, domain: &Domain) -> Frame {
    Frame::new(access, Section::Domains)
        .below()
        .through(&below(domain.id), domain.domain.clone())
}
