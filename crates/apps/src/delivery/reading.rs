//! The next events of a configuration.

use events::{Most, Stored, StoredEvents};
use sandbox::Reservation;
use service::pipeline::{AppConfig, Cursor};
use service::{Result, Time};

use crate::errors::store_failed;
use crate::shared::Core;

/// What is read at a time, and what an app that exports events gets in one call; always one event. Events stay text, so this is what they
/// take.
pub(super) const READ: Most = Most {
    events: 1000,
    bytes: 1024 * 1024,
};
/// What a large event is counted as, for each of its bytes: it is text once more for the app.
const COUNTED: usize = 2;

pub(super) async fn next_events(core: &Core, config: &AppConfig, cursor: &Cursor, end: Time) -> Result<StoredEvents> {
    let skip = usize::try_from(cursor.count).unwrap_or_default();
    let read = core.events.stored(config.team_id.0, cursor.until, end, skip, READ);
    read.await.map_err(|error| store_failed(&error))
}

/// For a large event: what its memory is taken from, and how much that is.
pub(super) fn memory_for(core: &Core, config: &AppConfig, events: &[Stored]) -> Option<(Reservation, usize)> {
    let bytes: usize = events.iter().map(Stored::bytes).sum();
    let is_large = bytes > READ.bytes;
    is_large.then(|| (core.given.reserve_for(config.organization_id.0), COUNTED * bytes))
}
