//! Whether something more may begin, and whether it takes the permit of something slow.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use service::{Person, Tenant};

use super::state::{Running, SLOW_AFTER, State, Work};

/// How many times as much somebody has had whose calls others do not wait for.
const MUCH_MORE: f64 = 4.0;

/// Whether something may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// If this is preempted.
    InsteadOf(u64),
}

/// What is slow at the moment, or may become so any time.
pub(super) struct SlowCalls {
    count: usize,
    /// Those who have some of it, and first whoever had most lately.
    persons: Vec<SlowPerson>,
}

/// What somebody has of it.
struct SlowPerson {
    average: f64,
    count: usize,
    /// What began last, so that the others get done; but what did not wait for its place goes first.
    last: u64,
    is_unexpected: bool,
}

impl State {
    pub(super) fn room(&self, tenant: Tenant, work: Work, now: Instant) -> Option<Room> {
        self.room_beside(&self.slow_calls(now), tenant, work, now)
    }

    /// The same for many who ask one after the other.
    pub(super) fn room_beside(&self, slow: &SlowCalls, tenant: Tenant, work: Work, now: Instant) -> Option<Room> {
        if !self.organization_may_begin(tenant, work) {
            return None;
        }
        let person = tenant.person();
        if self.is_known_as_slow(tenant.organization, now) && slow.count >= self.most_slow() {
            let own = self.slow(now).filter(|(_, one)| one.tenant.person() == person).count();
            let average = self.permits.average(person, now);
            // Each person has one. Somebody with more loses one for a person who has none, or who would not have more then and had less, or who had
            // much less; and whatever did not wait for its place may go.
            let may_lose_one = |other: &&SlowPerson| {
                let had_more = |times: f64| own == 0 || other.average > times * average;
                (other.count >= 2 && had_more(MUCH_MORE))
                    || (other.count >= own + 2 && had_more(1.0))
                    || (own == 0 && other.is_unexpected && other.average > average)
            };
            return match slow.persons.iter().find(may_lose_one) {
                Some(other) => Some(Room::InsteadOf(other.last)),
                None => self.is_lent_one(slow, average).then_some(Room::Free),
            };
        }
        // Whoever has nothing in progress does not wait for those who have something.
        let kept = if self.permits.in_progress(person) == 0 {
            0
        } else {
            self.kept()
        };
        if self.running.len() < self.most - kept {
            return Some(Room::Free);
        }
        // Of those that were not known as slow, too many can be at the same time. Whoever waited for a place keeps one.
        let may_lose_one = |other: &&SlowPerson| other.count >= 2 || other.is_unexpected;
        let other = slow
            .persons
            .iter()
            .filter(|_| slow.count > self.most_slow())
            .find(may_lose_one);
        other.map(|other| Room::InsteadOf(other.last))
    }

    pub(super) fn slow_calls(&self, now: Instant) -> SlowCalls {
        let order = |number: u64, one: &Running| (!one.was_slow, one.began_last(), number);
        let mut of_persons: HashMap<Person, (usize, _)> = HashMap::new();
        for (number, one) in self.slow(now) {
            let begun = order(*number, one);
            let (count, last) = of_persons.entry(one.tenant.person()).or_insert((0, begun));
            (*count, *last) = (*count + 1, begun.max(*last));
        }
        let slow = |(person, (count, (is_unexpected, _, last)))| SlowPerson {
            average: self.permits.average(person, now),
            count,
            last,
            is_unexpected,
        };
        let mut persons: Vec<SlowPerson> = of_persons.into_iter().map(slow).collect();
        persons.sort_by(|one, other| other.average.total_cmp(&one.average).then(other.last.cmp(&one.last)));
        SlowCalls {
            count: persons.iter().map(|person| person.count).sum(),
            persons,
        }
    }

    /// The others are for those who are quick: these are soon there for somebody else. If there are fewer persons than these places, each of them
    /// has one at once: when all are taken, somebody has two, and loses one.
    fn most_slow(&self) -> usize {
        (self.most / 2).max(1)
    }

    /// So many permits are for those who have nothing in progress.
    pub(super) fn kept(&self) -> usize {
        (self.most / 8).max(1)
    }

    /// An organization has so many permits at most, of which one is for events.
    fn organization_may_begin(&self, tenant: Tenant, work: Work) -> bool {
        if self.organizations.in_progress(tenant.organization) == 0 {
            return true;
        }
        let of_organization = || {
            let all = self.running.values();
            all.filter(|one| one.tenant.organization == tenant.organization)
        };
        let tasks = of_organization().filter(|one| one.work == Work::Task).count();
        let most_tasks = (self.most_of_one - 1).max(1);
        of_organization().count() < self.most_of_one && (work == Work::Events || tasks < most_tasks)
    }

    /// Whoever has had much less than somebody who has a slow call does not wait while there are permits that nobody uses: many may end their
    /// calls at the same moment.
    fn is_lent_one(&self, slow: &SlowCalls, average: f64) -> bool {
        let is_free = self.running.len() < self.most - self.kept() && slow.count < self.most_slow() + self.kept();
        let most = slow.persons.first();
        is_free && most.is_some_and(|most| most.average > MUCH_MORE * average)
    }

    /// What is slow, or may become so any time.
    fn slow(&self, now: Instant) -> impl Iterator<Item = (&u64, &Running)> {
        self.running
            .iter()
            .filter(move |(_, one)| one.was_slow || one.is_slow(now))
    }

    /// Whether somebody who has nothing in progress could begin.
    pub(super) fn has_any_room(&self, now: Instant) -> bool {
        self.running.len() < self.most || self.slow(now).count() > self.most_slow()
    }
}

impl Running {
    /// Whether the call that it is at lasts so long that others need not wait for it.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.lasts(now) >= SLOW_AFTER
    }

    /// When it began what it is at.
    fn began_last(&self) -> Instant {
        self.calling_since.unwrap_or(self.begun)
    }

    /// How long it has been at its call.
    pub(super) fn lasts(&self, now: Instant) -> Duration {
        let since = self.calling_since;
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}
