//! The memory that what apps send takes in the server, and what they are answered: from the first byte of a body until the app has
//! read it.
//!
//! All apps share it. Each organization has a part of its own, whatever the others do. Beyond that it has at most its
//! share, and no more than what it leaves free; and whoever waits ends the largest answer that stands still.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

const MIB: usize = 1024 * 1024;
/// In bytes: what an organization has for itself, what all have together beyond that, what one organization has, and one answer.
const OWN: usize = MIB;
const OF_ALL: usize = 48 * MIB;
const OF_ORGANIZATION: usize = 16 * MIB;
const OF_ONE: usize = 12 * MIB;
/// What every answer may take without being counted: most never need more.
const UNCOUNTED: usize = 32 * 1024;
/// An answer that has not grown by so much in this time, or has not been read, is ended if others wait.
const STALLED: Duration = Duration::from_secs(2);
const LEAST_GROWTH: usize = 64 * 1024;

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
    /// Beyond what each organization has for itself.
    all: usize,
    /// What each reservation has, the oldest first.
    organizations: HashMap<Uuid, BTreeMap<u64, Held>>,
}

#[derive(Debug)]
struct Held {
    bytes: usize,
    /// Since when it stands still, and what it had then.
    since: Instant,
    bytes_then: usize,
    /// Whether it would go on if it had more.
    is_waiting: bool,
    ended: Arc<Notify>,
}

impl Held {
    fn new(ended: &Arc<Notify>) -> Self {
        Self {
            bytes: 0,
            since: Instant::now(),
            bytes_then: 0,
            is_waiting: false,
            ended: ended.clone(),
        }
    }

    fn grow_to(&mut self, bytes: usize) {
        if bytes >= self.bytes_then + LEAST_GROWTH || self.is_waiting {
            (self.since, self.bytes_then) = (Instant::now(), bytes);
        }
        (self.bytes, self.is_waiting) = (bytes, false);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Fits,
    /// It would be more than the organization may have.
    TooMuch,
    /// Others have the rest.
    NoRoom,
}

impl Budget {
    /// For an answer of which nothing is there yet. If it is not read, once it is there, `app` is told to end.
    pub(crate) fn reserve(&self, organization: Uuid, app: &Arc<Notify>) -> Reservation {
        Reservation {
            budget: self.clone(),
            organization,
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
            bytes: AtomicUsize::new(0),
            ended: Arc::default(),
            app: app.clone(),
        }
    }

    /// Waits until the organization may have any more.
    pub(crate) async fn until_room(&self, organization: Uuid) {
        loop {
            let has_changed = self.0.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            if self.used().growth(organization, 0, 1) == Growth::Fits {
                return;
            }
            has_changed.await;
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn of(&self, organization: Uuid) -> usize {
        let own = self.organizations.get(&organization);
        own.map_or(0, |own| own.values().map(|held| held.bytes).sum())
    }

    fn growth(&self, organization: Uuid, number: u64, more: usize) -> Growth {
        let own = self.organizations.get(&organization);
        // The oldest can always become whole; else several that are halfway could wait for each other.
        let is_oldest = own.is_none_or(|own| own.keys().next().is_none_or(|first| *first >= number));
        let most = if is_oldest {
            OF_ORGANIZATION
        } else {
            OF_ORGANIZATION - OF_ONE
        };
        let used = self.of(organization);
        let wanted = used + more;
        if wanted > most {
            return Growth::TooMuch;
        }
        let added = shared(wanted) - shared(used);
        if added == 0 || shared(wanted) + self.all + added <= OF_ALL {
            Growth::Fits
        } else {
            Growth::NoRoom
        }
    }

    /// Ends the largest answer that stands still, of others that take from what all share. Those who wait themselves are ended only
    /// for one who would have less than they have.
    fn end_stalled(&self, organization: Uuid, more: usize) {
        let wanted = self.of(organization) + more;
        let others = self.organizations.iter().filter(|(other, _)| **other != organization);
        let larger = others.filter(|(other, _)| shared(self.of(**other)) > 0);
        let stalled = larger.flat_map(|(other, held)| {
            let has_more = self.of(*other) > wanted;
            let is_ended = move |held: &&Held| held.since.elapsed() >= STALLED && (has_more || !held.is_waiting);
            held.values().filter(is_ended)
        });
        if let Some(largest) = stalled.max_by_key(|held| held.bytes) {
            largest.ended.notify_one();
        }
    }

    fn wait(&mut self, organization: Uuid, number: u64) {
        let own = self.organizations.get_mut(&organization);
        if let Some(held) = own.and_then(|own| own.get_mut(&number)) {
            held.is_waiting = true;
        }
    }

    fn set(&mut self, organization: Uuid, number: u64, bytes: usize, ended: &Arc<Notify>) {
        let before = self.of(organization);
        let own = self.organizations.entry(organization).or_default();
        if bytes == 0 {
            own.remove(&number);
        } else {
            let held = own.entry(number).or_insert_with(|| Held::new(ended));
            if !Arc::ptr_eq(&held.ended, ended) {
                // It is there, and has to be read from now on.
                *held = Held::new(ended);
            }
            held.grow_to(bytes);
        }
        if own.is_empty() {
            self.organizations.remove(&organization);
        }
        self.all = self.all + shared(self.of(organization)) - shared(before);
    }
}

/// What one answer takes. Dropped, it is free again.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    organization: Uuid,
    number: u64,
    bytes: AtomicUsize,
    ended: Arc<Notify>,
    app: Arc<Notify>,
}

impl Reservation {
    /// Waits until there is room for so many more bytes.
    pub async fn grow(&self, more: usize) {
        loop {
            let has_changed = self.budget.0.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            match self.try_grow(more) {
                Growth::Fits => return,
                Growth::TooMuch => has_changed.await,
                Growth::NoRoom => {
                    self.budget.used().wait(self.organization, self.number);
                    self.budget.used().end_stalled(self.organization, more);
                    drop(timeout(STALLED, has_changed).await);
                }
            }
        }
    }

    /// Waits until there is room for another piece of a body: as it is, and as it will be written.
    pub async fn grow_by_piece(&self, piece: &[u8]) {
        let written = crate::wire::escaped(piece).clamp(piece.len().div_ceil(3) * 4, 2 * piece.len().max(2));
        self.grow(piece.len() + written).await;
    }

    /// Waits until others need the memory more than an answer that does not come.
    pub(crate) async fn is_ended(&self) {
        self.ended.notified().await;
    }

    fn try_grow(&self, more: usize) -> Growth {
        let before = self.bytes.load(Ordering::Relaxed);
        let after = before.saturating_add(more);
        let added = counted(after) - counted(before);
        if added > 0 {
            let mut used = self.budget.used();
            let growth = used.growth(self.organization, self.number, added);
            if growth != Growth::Fits {
                return growth;
            }
            used.set(self.organization, self.number, counted(after), &self.ended);
        }
        self.bytes.store(after, Ordering::Relaxed);
        Growth::Fits
    }

    /// It takes so much, as is known by now, until the app has read it.
    pub(crate) fn settle(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if counted(before) + counted(bytes) > 0 {
            let mut used = self.budget.used();
            used.set(self.organization, self.number, counted(bytes), &self.app);
            drop(used);
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

/// What an organization that has so much takes of what all share.
fn shared(bytes: usize) -> usize {
    bytes.saturating_sub(OWN)
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
            let one = budget.reserve(of(organization), &Arc::default());
            let pieces = std::iter::repeat_with(|| one.try_grow(MIB / 4) == Growth::Fits).take(4 * OF_ONE / MIB);
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
            let one = budget.reserve(of(1), &Arc::default());
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
        let small = budget.reserve(of(1), &Arc::default());
        small.grow(UNCOUNTED).await;
        assert_eq!(small.try_grow(MIB), Growth::TooMuch);
        small.settle(MIB);
        assert!(
            small.bytes.load(Ordering::Relaxed) == MIB,
            "what is there is counted, whatever it is"
        );
    }

    #[tokio::test]
    async fn a_piece_takes_what_it_and_its_text_take() {
        for (piece, expected) in [(&[b'x'; 300][..], 700), (&[1; 300], 900), (&[255; 300], 700)] {
            let one = Budget::default().reserve(of(1), &Arc::default());
            one.grow_by_piece(piece).await;
            assert_eq!(one.bytes.load(Ordering::Relaxed), expected);
        }
    }

    #[test]
    fn each_organization_has_a_part_of_its_own() {
        let budget = Budget::default();
        let held: Vec<_> = (1..100).map(|organization| fill(&budget, organization)).collect();
        assert!(budget.used().all <= OF_ALL);
        for (_, bytes) in &held {
            assert!(*bytes >= OWN, "{bytes}");
        }
    }

    /// Lets time pass for all that is held.
    fn stall(budget: &Budget) {
        for held in budget.used().organizations.values_mut().flat_map(BTreeMap::values_mut) {
            held.since -= STALLED;
        }
    }

    fn is_told(notify: &Notify) -> bool {
        std::pin::pin!(notify.notified()).enable()
    }

    #[tokio::test]
    async fn who_waits_ends_the_largest_that_stands_still() {
        let budget = Budget::default();
        let held = (1..40).flat_map(|organization| fill(&budget, organization).0);
        let mut held: Vec<_> = held.collect();
        stall(&budget);
        let bytes = |one: &Reservation| one.bytes.load(Ordering::Relaxed);
        held.sort_by_key(bytes);
        // One that goes on is left alone, however large it is.
        let moving = held.pop().expect("there are many");
        let future = Instant::now() + Duration::from_hours(1);
        if let Some(own) = budget.used().organizations.get_mut(&moving.organization) {
            own.get_mut(&moving.number).expect("it is there").since = future;
        }
        let waiting = budget.reserve(of(1000), &Arc::default());
        let waiting = tokio::spawn(async move { waiting.grow(OWN + 2 * MIB).await });
        let mut ended = 0;
        while !waiting.is_finished() {
            tokio::task::yield_now().await;
            if let Some(place) = held.iter().position(|one| is_told(&one.ended)) {
                let one = held.remove(place);
                assert!(
                    held.last().is_none_or(|largest| bytes(largest) <= bytes(&one)),
                    "the largest"
                );
                ended += 1;
            }
        }
        assert!(ended > 0 && !is_told(&moving.ended));
    }

    #[test]
    fn only_what_stands_still_is_ended() {
        let budget = Budget::default();
        let one = budget.reserve(of(1), &Arc::default());
        let end = |more: usize| {
            budget.used().end_stalled(of(2), more);
            (is_told(&one.ended), is_told(&one.app))
        };
        assert_eq!(one.try_grow(OWN), Growth::Fits);
        stall(&budget);
        assert_eq!(end(1), (false, false), "it has no more than its own");
        assert_eq!(one.try_grow(OWN), Growth::Fits);
        assert_eq!(end(1), (false, false), "it has just grown");
        stall(&budget);
        assert_eq!(one.try_grow(LEAST_GROWTH / 2), Growth::Fits);
        assert_eq!(end(9 * MIB), (true, false), "a little now and then does not count");
        budget.used().wait(of(1), one.number);
        assert_eq!(end(9 * MIB), (false, false), "it waits itself");
        assert_eq!(end(MIB), (true, false), "and has more");
        one.settle(3 * MIB);
        assert_eq!(end(1), (false, false), "it can be read");
        stall(&budget);
        assert_eq!(
            end(9 * MIB),
            (false, true),
            "what is not read is the app's to answer for"
        );
    }

    #[tokio::test]
    async fn an_organization_that_has_sent_little_may_always_send() {
        let budget = Budget::default();
        let mut sent = Vec::new();
        for organization in 1..20 {
            budget.until_room(of(organization)).await;
            let one = budget.reserve(of(organization), &Arc::default());
            one.settle(8 * MIB);
            sent.push(one);
        }
        assert_eq!(budget.used().growth(of(1), 0, 1), Growth::NoRoom);
        sent.truncate(1);
        budget.until_room(of(1)).await;
        sent[0].settle(OF_ORGANIZATION + MIB);
        assert_eq!(budget.used().growth(of(1), 0, 1), Growth::TooMuch);
    }
}
