//! What stands around the pages below a collection.

use super::collection::{AtApp, CollectionPages};
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};

/// What stands around a page below a collection.
pub(super) fn frame<P>(access: &OrganizationAccess<P>, collection: CollectionPages) -> Frame {
    let frame = Frame::new(access, Section::Apps).below();
    frame.through(&collection.path(), collection.title())
}

/// The same for a page below an app.
pub(super) fn frame_below<P>(access: &OrganizationAccess<P>, at: AtApp, name: impl Into<String>) -> Frame {
    frame(access, at.collection).through(&at.path(), name)
}
