//! Whether something more may begin, and whether it takes the permit of something slow.

use std::collections::HashMap;
use std::time::Instant;

use service::{Person, Tenant};

use super::state::{Running, SLOW_AFTER, State, Work};

/// Whether something may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// If this is preempted.
    InsteadOf(u64),
}

impl State {
    pub(super) fn room(&self, tenant: Tenant, work: Work, now: Instant) -> Option<Room> {
        if !self.organization_may_begin(tenant, work) {
            return None;
        }
        let slow = || self.slow(now).count();
        if self.is_known_as_slow(tenant.organization, now) && slow() >= self.most_slow() {
            return self.preemptible(tenant.person(), now).map(Room::InsteadOf);
        }
        let has_none = self.permits.in_progress(tenant.person()) == 0;
        // Whoever has nothing in progress does not wait for those who have something.
        let kept = if has_none { 0 } else { self.kept() };
        if self.running.len() < self.most - kept {
            return Some(Room::Free);
        }
        // Of those that were not known as slow, too many can be at the same time.
        let last = (slow() > self.most_slow()).then(|| self.last_of_most(now)).flatten();
        last.map(|(_, number)| Room::InsteadOf(number))
    }

    /// The others are for those who are quick: these are soon there for somebody else.
    fn most_slow(&self) -> usize {
        (self.most / 2).max(1)
    }

    /// So many permits are for those who have nothing in progress.
    pub(super) fn kept(&self) -> usize {
        (self.most / 8).max(1)
    }

    /// An organization has so many permits at most, of which one is for events.
    fn organization_may_begin(&self, tenant: Tenant, work: Work) -> bool {
        let of_organization = || {
            let all = self.running.values();
            all.filter(|one| one.tenant.organization == tenant.organization)
        };
        let tasks = of_organization().filter(|one| one.work == Work::Task).count();
        let most_tasks = (self.most_of_one - 1).max(1);
        of_organization().count() < self.most_of_one && (work == Work::Events || tasks < most_tasks)
    }

    /// What is preempted for somebody else who is slow: nothing, if they would have more slow calls than the other one then.
    fn preemptible(&self, person: Person, now: Instant) -> Option<u64> {
        let own = self.slow(now).filter(|(_, one)| one.tenant.person() == person).count();
        let last = self.last_of_most(now);
        last.filter(|(most, _)| *most >= own + 2).map(|(_, number)| number)
    }

    /// Of the person who has most slow calls the one that began last, so that the others get done; and how many these are.
    fn last_of_most(&self, now: Instant) -> Option<(usize, u64)> {
        let mut of_persons: HashMap<Person, (usize, Instant, u64)> = HashMap::new();
        let calls = self.slow(now).filter(|(_, one)| one.is_slow(now));
        for (number, one) in calls {
            let since = one.calling_since.unwrap_or(now);
            let (count, last, last_number) = of_persons.entry(one.tenant.person()).or_insert((0, since, *number));
            *count += 1;
            (*last, *last_number) = (since, *number).max((*last, *last_number));
        }
        let most = of_persons.into_values().max();
        most.map(|(count, _, number)| (count, number))
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
        let since = self.calling_since;
        since.is_some_and(|since| now.saturating_duration_since(since) >= SLOW_AFTER)
    }
}
