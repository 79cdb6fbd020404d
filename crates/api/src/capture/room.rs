//! How much of what is being sent may be in memory at once. The sender is known only once a body was read, so nobody
//! can be trusted before.

use std::sync::Arc;
use std::time::Duration;

use events::capture::{MOST_BYTES, MOST_PACKED_BYTES, Refusal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answers::Refused;

/// Bodies up to this size need no place: there are only so many connections. Above it, reading them takes so long that
/// other requests would wait for it.
const SMALL: usize = 64 * 1024;
/// Bytes of large bodies at once, as they come over the wire.
const MOST_ARRIVING: usize = 4 * MOST_PACKED_BYTES;
/// Bytes of large bodies at once, unpacked. Taken apart they may need several times as much.
const MOST_UNPACKED: usize = MOST_BYTES + MOST_BYTES / 2;
/// Who finds no room within this is asked to come back.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(super) struct Room {
    arriving: Arc<Semaphore>,
    unpacked: Arc<Semaphore>,
}

/// The place of one body, given back when dropped.
#[derive(Debug)]
pub(super) struct Place(Option<OwnedSemaphorePermit>);

impl Default for Room {
    fn default() -> Self {
        Self {
            arriving: Arc::new(Semaphore::new(MOST_ARRIVING / SMALL)),
            unpacked: Arc::new(Semaphore::new(MOST_UNPACKED / SMALL)),
        }
    }
}

impl Room {
    pub(super) async fn to_arrive(&self, size: usize) -> Result<Place, Refused> {
        if size > MOST_PACKED_BYTES {
            return Err(Refusal::TooLarge.into());
        }
        take(&self.arriving, size).await
    }

    pub(super) async fn to_unpack(&self, size: usize) -> Result<Place, Refused> {
        take(&self.unpacked, size).await
    }
}

async fn take(room: &Arc<Semaphore>, size: usize) -> Result<Place, Refused> {
    if size <= SMALL {
        return Ok(Place(None));
    }
    let parts = u32::try_from(size.div_ceil(SMALL)).unwrap_or(u32::MAX);
    match tokio::time::timeout(PATIENCE, room.clone().acquire_many_owned(parts)).await {
        Ok(Ok(permit)) => Ok(Place(Some(permit))),
        _ => Err(Refused::Busy),
    }
}

impl Place {
    pub(super) fn is_large(&self) -> bool {
        self.0.is_some()
    }
}
