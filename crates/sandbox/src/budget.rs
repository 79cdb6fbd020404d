//! The memory that what apps send takes in the server, and what they are answered: from the first byte of a body until the app has
//! read it.
//!
//! All apps share it. Each organization has a part of its own, whatever the others do. Beyond that it has at most its
//! share, and no more than what it leaves free; and whoever waits ends the largest answer, or what is sent, that stands still. Whoever
//! held what all share for long lets others go first.

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
/// What has not grown by so much in this time, or has not been read or sent, is ended if others wait.
const STALLED: Duration = Duration::from_secs(2);
const LEAST_GROWTH: usize = 64 * 1024;
/// Whoever had much of the memory for long waits in line as if they had come later: for each second that they had all of it, by so many
/// seconds, and by no more than the most.
const LATER: f64 = 6.0;
const LATEST: f64 = 30.0;
/// How much of that is forgiven in a second.
const FORGIVEN: f64 = 0.1;
/// Past this many those that are no longer late are forgotten.
const REMEMBERED: usize = 1_000;

/// By how many seconds somebody comes later, as of a time.
#[derive(Debug, Clone, Copy)]
struct Debt {
    seconds: f64,
    at: Instant,
}

impl Debt {
    fn left(self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.seconds - passed * FORGIVEN).max(0.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "some megabytes")]
fn part_of_all(bytes: usize) -> f64 {
    bytes as f64 / OF_ALL as f64
}

/// Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Budget(Arc<Shared>);

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
    /// Who waits in line.
    line: BTreeMap<u64, Waiting>,
    /// By how much an organization comes later.
    debts: HashMap<Uuid, Debt>,
}

#[derive(Debug)]
struct Waiting {
    organization: Uuid,
    /// How much is taken at once.
    bytes: usize,
    since: Instant,
}

#[derive(Debug)]
struct Held {
    bytes: usize,
    /// Since when it stands still, and how much was there then.
    since: Instant,
    there_then: usize,
    /// Whether it would go on if it had more.
    is_waiting: bool,
    ended: Arc<Notify>,
}

impl Held {
    fn new(ended: &Arc<Notify>) -> Self {
        Self {
            bytes: 0,
            since: Instant::now(),
            there_then: 0,
            is_waiting: false,
            ended: ended.clone(),
        }
    }

    /// It has so much from now on, and so much of that is there.
    fn grow_to(&mut self, bytes: usize, there: usize) {
        if there >= self.there_then + LEAST_GROWTH || self.is_waiting {
            (self.since, self.there_then) = (Instant::now(), there);
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

    /// For something that no app is asked to end for.
    pub fn reserve_for(&self, organization: Uuid) -> Reservation {
        self.reserve(organization, &Arc::default())
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

    /// Whether there is room for this one, and nobody before it waits for that. Whoever waits for their own organization to be done
    /// keeps nobody waiting.
    fn is_next(&self, number: u64, waiting: &Waiting) -> bool {
        let growth = |one: &Waiting| self.growth(one.organization, 0, one.bytes);
        let now = Instant::now();
        let place = self.place(number, waiting, now);
        let mut before = self
            .line
            .iter()
            .filter(|(number, one)| self.place(**number, one, now) < place);
        growth(waiting) == Growth::Fits && before.all(|(_, one)| growth(one) == Growth::TooMuch)
    }

    /// In the line: those who had much come later.
    fn place(&self, number: u64, waiting: &Waiting, now: Instant) -> (Instant, u64) {
        let debt = self.debts.get(&waiting.organization);
        let later = debt.map_or(0.0, |debt| debt.left(now));
        (waiting.since + Duration::from_secs_f64(later), number)
    }

    /// Something of the organization took from what all share, and is over.
    fn note(&mut self, organization: Uuid, over: &Held) {
        let now = Instant::now();
        if self.debts.len() >= REMEMBERED {
            self.debts.retain(|_, debt| debt.left(now) > 0.0);
        }
        let before = self.debts.get(&organization).map_or(0.0, |debt| debt.left(now));
        let more = part_of_all(over.bytes) * over.since.elapsed().as_secs_f64() * LATER;
        let seconds = (before + more).min(LATEST);
        self.debts.insert(organization, Debt { seconds, at: now });
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

    /// The same for one who waits in line, unless it is for their own organization.
    fn make_room(&self, number: u64) {
        if let Some(one) = self.line.get(&number)
            && self.growth(one.organization, 0, one.bytes) == Growth::NoRoom
        {
            self.end_stalled(one.organization, one.bytes);
        }
    }

    fn wait(&mut self, organization: Uuid, number: u64) {
        let own = self.organizations.get_mut(&organization);
        if let Some(held) = own.and_then(|own| own.get_mut(&number)) {
            held.is_waiting = true;
        }
    }

    fn set(&mut self, organization: Uuid, number: u64, (bytes, there): (usize, usize), ended: &Arc<Notify>) {
        let before = self.of(organization);
        let own = self.organizations.entry(organization).or_default();
        let mut over = None;
        if bytes == 0 {
            over = own.remove(&number);
        } else {
            let held = own.entry(number).or_insert_with(|| Held::new(ended));
            if !Arc::ptr_eq(&held.ended, ended) {
                // It is there, and has to be read from now on.
                *held = Held::new(ended);
            }
            held.grow_to(bytes, there);
        }
        if own.is_empty() {
            self.organizations.remove(&organization);
        }
        self.all = self.all + shared(self.of(organization)) - shared(before);
        if let Some(over) = over.filter(|_| shared(before) > 0) {
            self.note(organization, &over);
        }
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

    /// Waits until there is room for so much of what may become `most`. What goes beyond the organization's own part is taken for all of
    /// it at once, in the order in which they came: so nobody waits halfway for others who do the same.
    pub(crate) async fn take(&self, bytes: usize, most: usize) {
        loop {
            let has_changed = self.budget.0.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            if self.try_take(bytes, most.min(OF_ORGANIZATION)) {
                return;
            }
            self.budget.used().make_room(self.number);
            drop(timeout(STALLED, has_changed).await);
        }
    }

    /// The same for what stays when its app has gone: there may be many, so all of it is counted.
    pub async fn take_all(&self, bytes: usize) {
        self.take(UNCOUNTED + bytes, UNCOUNTED + bytes).await;
    }

    fn try_take(&self, bytes: usize, most: usize) -> bool {
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
            self.budget.0.has_changed.notify_waiters();
        }
        true
    }

    /// Waits until there is room for another piece of a body: as it is, and as it will be written.
    pub async fn grow_by_piece(&self, piece: &[u8]) {
        let written = crate::wire::escaped(piece).clamp(piece.len().div_ceil(3) * 4, 2 * piece.len().max(2));
        self.grow(piece.len() + written).await;
    }

    /// Waits until others need the memory more than what stands still.
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
            self.budget.0.has_changed.notify_waiters();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let was_waiting = self.budget.used().line.remove(&self.number).is_some();
        self.settle(0);
        if was_waiting {
            self.budget.0.has_changed.notify_waiters();
        }
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

    /// Each of many organizations, one after the other.
    fn line(budget: &Budget, organizations: std::ops::Range<u128>) -> Vec<Reservation> {
        let each = organizations.map(|organization| budget.reserve(of(organization), &Arc::default()));
        each.collect()
    }

    #[test]
    fn room_that_appears_is_taken_in_order_and_never_twice() {
        const LARGE: usize = 8 * MIB;
        let budget = Budget::default();
        let held = line(&budget, 100..120);
        let count = held.iter().filter(|one| one.try_take(LARGE, LARGE)).count();
        assert!((2..8).contains(&count), "{count} have room");
        let waiting = line(&budget, 1..20);
        let take = |one: &Reservation| one.try_take(OWN + MIB, LARGE);
        assert!(!waiting.iter().any(take));
        drop(held);
        let (mut order, mut done) = (Vec::new(), std::collections::VecDeque::new());
        let mut waiting: Vec<_> = waiting.into_iter().enumerate().collect();
        while !waiting.is_empty() {
            // All of them look, the last to come first.
            let found = waiting.iter().rposition(|(_, one)| take(one));
            assert!(budget.used().all <= OF_ALL, "{}", budget.used().all);
            if let Some(place) = found {
                let (number, one) = waiting.remove(place);
                order.push(number);
                done.push_back(one);
            } else {
                assert!(done.pop_front().is_some(), "somebody has the room");
            }
        }
        assert!(order.is_sorted() && order.len() == 19, "{order:?}");
        drop(done);
        assert!(budget.used().all == 0 && budget.used().line.is_empty());
    }

    #[tokio::test]
    async fn whoever_goes_beyond_their_own_takes_all_of_it_at_once() {
        let budget = Budget::default();
        let one = budget.reserve(of(1), &Arc::default());
        one.take(OWN, 8 * MIB).await;
        assert_eq!((one.bytes.load(Ordering::Relaxed), budget.used().all), (OWN, 0));
        one.take(OWN + MIB, 8 * MIB).await;
        assert_eq!(one.bytes.load(Ordering::Relaxed), 8 * MIB);
        one.settle(2 * MIB);
        assert_eq!(
            budget.used().all,
            counted(2 * MIB) - OWN,
            "what it turns out not to need is free again"
        );
    }

    #[tokio::test]
    async fn an_organization_that_has_sent_little_may_always_send() {
        let budget = Budget::default();
        let held = line(&budget, 1..100);
        for one in &held {
            one.try_take(8 * MIB, 8 * MIB);
        }
        for one in line(&budget, 200..300) {
            one.take(OWN, 8 * MIB).await;
        }
    }

    #[test]
    fn whoever_waits_for_their_own_organization_keeps_nobody_waiting() {
        let budget = Budget::default();
        let of_one = [1, 1, 1].map(|organization| budget.reserve(of(organization), &Arc::default()));
        assert!(of_one[0].try_take(12 * MIB, 12 * MIB));
        assert!(!of_one[1].try_take(8 * MIB, 8 * MIB), "its organization has too much");
        let other = budget.reserve(of(2), &Arc::default());
        assert!(other.try_take(8 * MIB, 8 * MIB));
        let [first, second, _] = of_one;
        drop(first);
        assert!(second.try_take(8 * MIB, 8 * MIB));
    }

    #[tokio::test]
    async fn whoever_leaves_the_line_lets_the_next_one_through() {
        let budget = Budget::default();
        let held = line(&budget, 1..20);
        assert!(!held.iter().all(|one| one.try_take(8 * MIB, 8 * MIB)));
        budget.used().line.clear();
        let [first, last] = [20, 21].map(|organization| budget.reserve(of(organization), &Arc::default()));
        assert!(!first.try_take(12 * MIB, 12 * MIB));
        assert!(
            !last.try_take(4 * MIB, 4 * MIB),
            "there is room, and it is not its turn"
        );
        let last = tokio::spawn(async move { last.take(4 * MIB, 4 * MIB).await });
        tokio::task::yield_now().await;
        drop(first);
        last.await.expect("no panic");
    }

    #[tokio::test]
    async fn whoever_waits_in_line_ends_what_stands_still() {
        let budget = Budget::default();
        let mut held = line(&budget, 1..20);
        held.retain(|one| one.try_take(8 * MIB, 8 * MIB));
        budget.used().line.clear();
        stall(&budget);
        let waiting = budget.reserve_for(of(100));
        let waiting = tokio::spawn(async move { waiting.take(OWN + MIB, 8 * MIB).await });
        let ended = async {
            while !held.iter().any(|one| is_told(&one.ended)) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(30), ended)
            .await
            .expect("one is told to end");
        held.clear();
        waiting.await.expect("no panic");
    }

    #[test]
    fn what_is_taken_goes_on_as_long_as_more_of_it_comes() {
        let budget = Budget::default();
        let one = budget.reserve_for(of(1));
        let end = || {
            budget.used().end_stalled(of(2), 1);
            is_told(&one.ended)
        };
        assert!(one.try_take(2 * MIB, 8 * MIB));
        stall(&budget);
        assert!(one.try_take(2 * MIB + LEAST_GROWTH, 8 * MIB) && !end(), "it goes on");
        stall(&budget);
        assert!(one.try_take(2 * MIB + LEAST_GROWTH + 1, 8 * MIB) && end(), "hardly");
        one.settle_sent(4 * MIB);
        assert!(!end(), "it is there by now");
        stall(&budget);
        assert!(end());
    }

    #[test]
    fn whoever_waits_in_line_does_not_stand_still() {
        let budget = Budget::default();
        let first = budget.reserve_for(of(1));
        let second = budget.reserve_for(of(1));
        assert!(second.try_take(OWN / 2, 12 * MIB) && first.try_take(12 * MIB, 12 * MIB));
        assert!(!second.try_take(OWN, 12 * MIB), "its organization has too much");
        stall(&budget);
        first.settle_sent(13 * MIB);
        budget.used().end_stalled(of(2), 16 * MIB);
        assert!(!is_told(&first.ended) && !is_told(&second.ended));
    }

    #[test]
    fn those_who_kept_others_waiting_wait_for_them() {
        const LARGE: usize = 16 * MIB;
        let budget = Budget::default();
        let [first, second] = [1, 2].map(|organization| budget.reserve_for(of(organization)));
        assert!(first.try_take(LARGE, LARGE) && second.try_take(LARGE, LARGE));
        stall(&budget);
        drop(first);
        let third = budget.reserve_for(of(3));
        assert!(third.try_take(LARGE, LARGE));
        let [slow, quick] = [1, 4].map(|organization| budget.reserve_for(of(organization)));
        assert!(
            !slow.try_take(LARGE, LARGE) && !quick.try_take(LARGE, LARGE),
            "there is no room"
        );
        drop(third);
        assert!(!slow.try_take(LARGE, LARGE), "another one goes first");
        assert!(quick.try_take(LARGE, LARGE));
        drop(quick);
        assert!(slow.try_take(LARGE, LARGE));
    }

    #[test]
    fn a_slow_receiver_of_little_does_not_count_as_much_for_a_moment_often() {
        let now = Instant::now();
        let held = |bytes: usize, milliseconds: u64| Held {
            bytes,
            since: now.checked_sub(Duration::from_millis(milliseconds)).unwrap(),
            ..Held::new(&Arc::default())
        };
        let budget = Budget::default();
        let mut used = budget.used();
        for _ in 0..10 {
            used.note(of(1), &held(8 * MIB, 300));
        }
        used.note(of(2), &held(2 * MIB, 700));
        let later = |organization: u128| used.debts[&of(organization)].left(Instant::now());
        assert!(later(1) > 2.0 && later(2) < 0.3, "{} {}", later(1), later(2));
        assert!(used.debts[&of(1)].left(now + Duration::from_mins(5)) <= 0.0);
    }

    #[tokio::test]
    async fn what_stays_is_counted_from_its_first_byte() {
        let budget = Budget::default();
        let small: Vec<_> = (0..64).map(|_| budget.reserve_for(of(1))).collect();
        for one in &small {
            one.take_all(1000).await;
        }
        assert_eq!(budget.used().of(of(1)), 64 * 1000);
    }
}
