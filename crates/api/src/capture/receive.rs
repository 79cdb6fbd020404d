//! The bodies that capture receives: how large they may be.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use events::capture::{MAX_PACKED_BYTES, Refusal};

use super::answers::Result;
use crate::http::receive::Receiver;

/// Refuses immediately what is announced to be too large.
pub(super) fn receiver(body: Body, headers: &HeaderMap) -> Result<Receiver> {
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|size: usize| size > MAX_PACKED_BYTES) {
        return Err(Refusal::TooLarge.into());
    }
    Ok(Receiver::of_at_most(body, MAX_PACKED_BYTES))
}
