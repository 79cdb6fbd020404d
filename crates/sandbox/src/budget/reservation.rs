//! A reservation in a budget: it grows while there is room, and waits while there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::used::{Growth, OF_ONE, OF_ORGANIZATION, OWN, STALLED, Shared, Waiting};
use crate::json::escaped;

/// What every answer may take without being counted: most never need more.
pub(super) const UNCOUNTED: usize = 32 * 1024;

/// What one answer takes. Dropped, it is free again.
#[derive(Debug)]
pub struct Reservation {
    pub(super) budget: Arc<Shared>,
    pub(super) organization: Uuid,
    pub(super) number: u64,
    pub(super) bytes: AtomicUsize,
    pub(super) has_waited: AtomicBool,
    /// How long that was, with whatever else counts there.
    pub(super) waited_us: Arc<AtomicU64>,
    pub(super) ended: Arc<Notify>,
    pub(super) app: Arc<Notify>,
}

impl Reservation {
    /// Counts there how long it waits for others.
    pub(crate) fn counting_in(mut self, waited_us: &Arc<AtomicU64>) -> Self {
        self.waited_us = waited_us.clone();
        self
    }

    /// The same where another one does.
    #[must_use]
    pub fn counting_like(self, other: &Self) -> Self {
        self.counting_in(&other.waited_us)
    }

    /// Waits for others for a moment, or for as long as nothing happens.
    async fn wait(&self, has_changed: impl Future<Output = ()>) {
        let begun = Instant::now();
        drop(timeout(STALLED, has_changed).await);
        let waited = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.waited_us.fetch_add(waited, Ordering::Relaxed);
    }

    /// Waits until there is room for so many more bytes.
    pub async fn grow(&self, more: usize) {
        loop {
            let has_changed = self.budget.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            match self.try_grow(more) {
                Growth::Fits => return,
                Growth::TooMuch => has_changed.await,
                Growth::NoRoom => {
                    self.has_waited.store(true, Ordering::Relaxed);
                    self.budget.used().wait(self.organization, self.number);
                    self.budget.used().end_stalled(self.organization, more);
                    self.wait(has_changed).await;
                }
            }
        }
    }

    /// Whether there was no room because of what others have. What fails after that may have taken too long for this reason.
    pub(crate) fn has_waited_for_others(&self) -> bool {
        self.has_waited.load(Ordering::Relaxed)
    }

    /// Waits until there is room for so much of what may become `most`. What goes beyond the organization's own part is taken for all of
    /// it at once, in the order in which they came: so nobody waits halfway for others who do the same.
    pub(crate) async fn take(&self, bytes: usize, most: usize) {
        loop {
            let has_changed = self.budget.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            if self.try_take(bytes, most.min(OF_ORGANIZATION)) {
                return;
            }
            self.budget.used().make_room(self.number);
            self.wait(has_changed).await;
        }
    }

    /// The same for what stays when its app has gone: there may be many, so all of it is counted.
    pub async fn take_all(&self, bytes: usize) {
        self.take(UNCOUNTED + bytes, UNCOUNTED + bytes).await;
    }

    /// The same for what may be as large as one of its kind is counted as, or larger.
    pub async fn take_largest(&self) {
        self.take_all(OF_ONE - UNCOUNTED).await;
    }

    pub(super) fn try_take(&self, bytes: usize, most: usize) -> bool {
        let (before, there) = (self.bytes.load(Ordering::Relaxed), bytes.min(most));
        if there <= UNCOUNTED {
            return true;
        }
        let added = |after: usize| counted(after).saturating_sub(counted(before));
        let mut used = self.budget.used();
        let waiting = Waiting {
            organization: self.organization,
            bytes: added(most),
            since: used.line.get(&self.number).map_or_else(Instant::now, |one| one.since),
        };
        let after = if there <= before {
            before
        } else if used.of(self.organization) + added(there) <= OWN {
            there
        } else if used.is_next(self.number, &waiting) {
            most
        } else {
            used.line.insert(self.number, waiting);
            used.wait(self.organization, self.number);
            return false;
        };
        used.set(
            self.organization,
            self.number,
            (counted(after), counted(there)),
            &self.ended,
        );
        self.bytes.store(after, Ordering::Relaxed);
        if used.line.remove(&self.number).is_some() {
            // There may be room for those behind, too.
            self.budget.has_changed.notify_waiters();
        }
        true
    }

    /// Waits until there is room for another piece of a body: as it is, and as it will be written.
    pub async fn grow_by_piece(&self, piece: &[u8]) {
        let written = escaped(piece).clamp(piece.len().div_ceil(3) * 4, 2 * piece.len().max(2));
        self.grow(piece.len() + written).await;
    }

    /// Waits until others need the memory more than what stands still.
    pub(crate) async fn is_ended(&self) {
        self.ended.notified().await;
    }

    pub(super) fn try_grow(&self, more: usize) -> Growth {
        let before = self.bytes.load(Ordering::Relaxed);
        let after = before.saturating_add(more);
        let added = counted(after) - counted(before);
        if added > 0 {
            let mut used = self.budget.used();
            let growth = used.growth(self.organization, self.number, added);
            if growth != Growth::Fits {
                return growth;
            }
            let bytes = counted(after);
            used.set(self.organization, self.number, (bytes, bytes), &self.ended);
        }
        self.bytes.store(after, Ordering::Relaxed);
        Growth::Fits
    }

    /// It takes so much, as is known by now, until the app has read it.
    pub(crate) fn settle(&self, bytes: usize) {
        self.settle_until(bytes, &self.app);
    }

    /// The same for what an app has sent, until that is done: [`Self::is_ended`] tells when others need the memory.
    pub(crate) fn settle_sent(&self, bytes: usize) {
        self.settle_until(bytes, &self.ended);
    }

    fn settle_until(&self, bytes: usize, ended: &Arc<Notify>) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let bytes = counted(bytes);
        if counted(before) + bytes > 0 {
            let mut used = self.budget.used();
            used.set(self.organization, self.number, (bytes, bytes), ended);
            drop(used);
            self.budget.has_changed.notify_waiters();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let was_waiting = self.budget.used().line.remove(&self.number).is_some();
        self.settle(0);
        if was_waiting {
            self.budget.has_changed.notify_waiters();
        }
    }
}

pub(super) fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(UNCOUNTED)
}
