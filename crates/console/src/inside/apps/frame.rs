//! What stands around the pages below a collection.

use super::collection::{AtApp, CollectionPages};
use crate::inside::Inside;
use crate::inside::frame::{Frame, Section};

/// What stands around a page below a collection.
pub(super) fn frame<P>(inside: &Inside<P>, collection: CollectionPages) -> Frame {
    let frame = Frame::new(inside, Section::Apps).below();
    frame.through(&collection.path(), collection.title())
}

/// The same for a page below an app.
pub(super) fn frame_below<P>(inside: &Inside<P>, at: AtApp, name: impl Into<String>) -> Frame {
    frame(inside, at.collection).through(&at.path(), name)
}
