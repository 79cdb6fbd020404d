//! The memory that answers to apps take in the server, from the first byte of a body until the app has read it.
//!
//! All apps share it. An organization has at most its share, and no more than what it leaves free: however many take
//! as much as they can get, whoever comes next gets something.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

const MIB: usize = 1024 * 1024;
/// In bytes: all answers together, those to one organization, and one of them.
const OF_ALL: usize = 64 * MIB;
const OF_ORGANIZATION: usize = 16 * MIB;
const OF_ONE: usize = 12 * MIB;
/// What every answer may take without being counted: most never need more.
const UNCOUNTED: usize = 32 * 1024;

/// Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    used: Mutex<Used>,
    next: AtomicU64,
    has_changed: Notify,
}

#[derive(Debug, Default)]
struct Used {
    all: usize,
    /// What each reservation has, the oldest first.
    organizations: HashMap<Uuid, BTreeMap<u64, usize>>,
}

impl Budget {
    /// For an answer of which nothing is there yet.
    pub(crate) fn reserve(&self, organization: Uuid) -> Reservation {
        Reservation {
            budget: self.clone(),
            organization,
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
            bytes: AtomicUsize::new(0),
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn may_grow(&self, organization: Uuid, number: u64, more: usize) -> bool {
        let own = self.organizations.get(&organization);
        let used: usize = own.map_or(0, |own| own.values().sum());
        // The oldest can always become whole; else several that are halfway could wait for each other.
        let is_oldest = own.is_none_or(|own| own.keys().next().is_none_or(|first| *first >= number));
        let most = if is_oldest {
            OF_ORGANIZATION
        } else {
            OF_ORGANIZATION - OF_ONE
        };
        let wanted = used + more;
        wanted <= most && wanted + self.all + more <= OF_ALL
    }

    fn set(&mut self, organization: Uuid, number: u64, bytes: usize) {
        let own = self.organizations.entry(organization).or_default();
        let before = if bytes == 0 {
            own.remove(&number)
        } else {
            own.insert(number, bytes)
        };
        if own.is_empty() {
            self.organizations.remove(&organization);
        }
        self.all = self.all + bytes - before.unwrap_or_default();
    }
}

/// What one answer takes. Dropped, it is free again.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    organization: Uuid,
    number: u64,
    bytes: AtomicUsize,
}

impl Reservation {
    /// Waits until there is room for so many more bytes.
    pub async fn grow(&self, more: usize) {
        loop {
            let has_changed = self.budget.0.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            if self.try_grow(more) {
                return;
            }
            has_changed.await;
        }
    }

    /// Waits until there is room for another piece of a body: as it is, and as it will be written.
    pub async fn grow_by_piece(&self, piece: &[u8]) {
        let written = crate::wire::escaped(piece).clamp(piece.len().div_ceil(3) * 4, 2 * piece.len().max(2));
        self.grow(piece.len() + written).await;
    }

    fn try_grow(&self, more: usize) -> bool {
        let before = self.bytes.load(Ordering::Relaxed);
        let after = before.saturating_add(more);
        let added = counted(after) - counted(before);
        if added > 0 {
            let mut used = self.budget.used();
            if !used.may_grow(self.organization, self.number, added) {
                return false;
            }
            used.set(self.organization, self.number, counted(after));
        }
        self.bytes.store(after, Ordering::Relaxed);
        true
    }

    /// It takes so much, as is known by now.
    pub(crate) fn settle(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if counted(before) != counted(bytes) {
            self.budget.used().set(self.organization, self.number, counted(bytes));
            self.budget.0.has_changed.notify_waiters();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.settle(0);
    }
}

fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(UNCOUNTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    /// As much as an organization gets, in pieces.
    fn fill(budget: &Budget, organization: u128) -> (Vec<Reservation>, usize) {
        let mut all = Vec::new();
        let mut bytes = 0;
        loop {
            let one = budget.reserve(of(organization));
            let pieces = std::iter::repeat_with(|| one.try_grow(MIB / 4)).take(4 * OF_ONE / MIB);
            let got = pieces.take_while(|is_there| *is_there).count();
            bytes += got * MIB / 4;
            all.push(one);
            if got == 0 {
                return (all, bytes);
            }
        }
    }

    #[test]
    fn an_organization_has_its_share_and_whoever_comes_next_gets_something() {
        let budget = Budget::default();
        let (one, bytes) = fill(&budget, 1);
        assert!(bytes <= OF_ORGANIZATION + MIB, "{bytes}");
        let mut others = Vec::new();
        for organization in 2..8 {
            let (held, bytes) = fill(&budget, organization);
            assert!(bytes >= MIB, "{organization} gets {bytes}");
            others.push(held);
        }
        assert!(budget.used().all <= OF_ALL);
        drop((one, others));
        let used = budget.used();
        assert!(used.all == 0 && used.organizations.is_empty(), "nothing is left behind");
    }

    #[tokio::test]
    async fn answers_that_are_halfway_do_not_wait_for_each_other() {
        let budget = Budget::default();
        let read = |()| {
            let one = budget.reserve(of(1));
            async move {
                for _ in 0..OF_ONE / MIB {
                    one.grow(MIB).await;
                    tokio::task::yield_now().await;
                }
            }
        };
        let all: Vec<_> = std::iter::repeat_n((), 6).map(|()| tokio::spawn(read(()))).collect();
        for one in all {
            one.await.expect("no panic");
        }
        assert_eq!(budget.used().all, 0);
    }

    #[tokio::test]
    async fn small_answers_are_not_held_up_by_large_ones() {
        let budget = Budget::default();
        let (_held, _) = fill(&budget, 1);
        let small = budget.reserve(of(1));
        small.grow(UNCOUNTED).await;
        assert!(!small.try_grow(MIB));
        small.settle(MIB);
        assert!(
            small.bytes.load(Ordering::Relaxed) == MIB,
            "what is there is counted, whatever it is"
        );
    }

    #[tokio::test]
    async fn a_piece_takes_what_it_and_its_text_take() {
        for (piece, expected) in [(&[b'x'; 300][..], 700), (&[1; 300], 900), (&[255; 300], 700)] {
            let one = Budget::default().reserve(of(1));
            one.grow_by_piece(piece).await;
            assert_eq!(one.bytes.load(Ordering::Relaxed), expected);
        }
    }
}
