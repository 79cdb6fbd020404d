//! How much of a budget is used, by whom, and who may have more.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

pub(super) const MIB: usize = 1024 * 1024;
/// In bytes: what an organization has for itself, what all have together beyond that, what one organization has, and one answer.
pub(super) const OWN: usize = MIB;
pub(super) const OF_ALL: usize = 48 * MIB;
pub(super) const OF_ORGANIZATION: usize = 16 * MIB;
pub(super) const OF_ONE: usize = 12 * MIB;
/// What has not grown by so much in this time, or has not been read or sent, is ended if others wait.
pub(super) const STALLED: Duration = Duration::from_secs(2);
pub(super) const LEAST_GROWTH: usize = 64 * 1024;
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
pub(super) struct Debt {
    seconds: f64,
    at: Instant,
}

impl Debt {
    pub(super) fn left(self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.seconds - passed * FORGIVEN).max(0.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "some megabytes")]
fn part_of_all(bytes: usize) -> f64 {
    bytes as f64 / OF_ALL as f64
}

/// What a budget shares with its reservations.
#[derive(Debug, Default)]
pub(super) struct Shared {
    used: Mutex<Used>,
    pub(super) next: AtomicU64,
    pub(super) has_changed: Notify,
}

impl Shared {
    pub(super) fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(super) struct Used {
    /// Beyond what each organization has for itself.
    pub(super) all: usize,
    /// What each reservation has, the oldest first.
    pub(super) organizations: HashMap<Uuid, BTreeMap<u64, Held>>,
    /// Who waits in line.
    pub(super) line: BTreeMap<u64, Waiting>,
    /// By how much an organization comes later.
    pub(super) debts: HashMap<Uuid, Debt>,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) organization: Uuid,
    /// How much is taken at once.
    pub(super) bytes: usize,
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: usize,
    /// Since when it stands still, and how much was there then.
    pub(super) since: Instant,
    pub(super) there_then: usize,
    /// Whether it would go on if it had more.
    pub(super) is_waiting: bool,
    pub(super) ended: Arc<Notify>,
}

impl Held {
    pub(super) fn new(ended: &Arc<Notify>) -> Self {
        Self {
            bytes: 0,
            since: Instant::now(),
            there_then: 0,
            is_waiting: false,
            ended: ended.clone(),
        }
    }

    /// Sets the reserved bytes, and how many of them have arrived.
    fn grow_to(&mut self, bytes: usize, there: usize) {
        if there >= self.there_then + LEAST_GROWTH || self.is_waiting {
            (self.since, self.there_then) = (Instant::now(), there);
        }
        (self.bytes, self.is_waiting) = (bytes, false);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    Fits,
    /// It would be more than the organization may have.
    TooMuch,
    /// Others have the rest.
    NoRoom,
}

impl Used {
    pub(super) fn of(&self, organization: Uuid) -> usize {
        let own = self.organizations.get(&organization);
        own.map_or(0, |own| own.values().map(|held| held.bytes).sum())
    }

    pub(super) fn growth(&self, organization: Uuid, number: u64, more: usize) -> Growth {
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
    pub(super) fn is_next(&self, number: u64, waiting: &Waiting) -> bool {
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
    pub(super) fn note(&mut self, organization: Uuid, over: &Held) {
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
    pub(super) fn end_stalled(&self, organization: Uuid, more: usize) {
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
    pub(super) fn make_room(&self, number: u64) {
        if let Some(one) = self.line.get(&number)
            && self.growth(one.organization, 0, one.bytes) == Growth::NoRoom
        {
            self.end_stalled(one.organization, one.bytes);
        }
    }

    pub(super) fn wait(&mut self, organization: Uuid, number: u64) {
        let own = self.organizations.get_mut(&organization);
        if let Some(held) = own.and_then(|own| own.get_mut(&number)) {
            held.is_waiting = true;
        }
    }

    pub(super) fn set(&mut self, organization: Uuid, number: u64, (bytes, there): (usize, usize), ended: &Arc<Notify>) {
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

/// What an organization that has so much takes of what all share.
fn shared(bytes: usize) -> usize {
    bytes.saturating_sub(OWN)
}
