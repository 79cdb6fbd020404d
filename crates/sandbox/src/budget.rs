//! The memory that what apps send takes in the server, and what they are answered: from the first byte of a body until the app has
//! read it.
//!
//! All apps share it. Each organization has a reserved part. Of the shared rest it gets at most its share, and no more than it
//! leaves free. A waiting reservation cancels the largest stalled one. Organizations that held shared memory for long go last.

mod reservation;
#[cfg(test)]
mod tests;
mod used;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;
use uuid::Uuid;

pub use self::reservation::Reservation;
use self::used::Shared;

/// Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Budget(Arc<Shared>);

/// The memory that all apps share: for what they send, for what they are answered, and for code on its way to its process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets {
    pub(crate) sent: Budget,
    pub(crate) answers: Budget,
    pub(crate) code: Budget,
}

impl Budget {
    /// For an answer of which nothing is there yet. If it is not read, once it is there, `app` is told to end.
    pub(crate) fn reserve(&self, organization: Uuid, app: &Arc<Notify>) -> Reservation {
        Reservation {
            budget: self.0.clone(),
            organization,
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
            bytes: AtomicUsize::new(0),
            has_waited: AtomicBool::new(false),
            waited_us: Arc::new(AtomicU64::new(0)),
            ended: Arc::default(),
            app: app.clone(),
        }
    }

    /// For something that no app is asked to end for.
    pub fn reserve_for(&self, organization: Uuid) -> Reservation {
        self.reserve(organization, &Arc::default())
    }
}
