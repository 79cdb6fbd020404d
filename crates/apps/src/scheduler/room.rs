//! Whether something more may begin, and whether it takes the permit of something slow.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use service::{Person, Tenant};

use super::state::{Running, SLOW_AFTER, State, Work};

/// A call that lasts so long is not ended sooner for somebody who is less slow.
const LONG: Duration = Duration::from_secs(5);

/// Whether something may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// If this is preempted.
    InsteadOf(u64),
}

/// What is slow at the moment.
pub(super) struct SlowCalls {
    count: usize,
    /// What the person has who has most of it.
    most: usize,
    /// Of those who are at a slow call, the person who has most: how much, and the call that began last.
    last_of_most: Option<(usize, u64)>,
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
        let slow_calls_take = self.slow_calls_take(tenant.organization, now);
        if let Some(take) = slow_calls_take.filter(|_| slow.count >= self.most_slow()) {
            if self.is_lent_one(slow, tenant.person(), now) {
                return Some(Room::Free);
            }
            return self.preemptible(slow, tenant.person(), take, now).map(Room::InsteadOf);
        }
        let has_none = self.permits.in_progress(tenant.person()) == 0;
        // Whoever has nothing in progress does not wait for those who have something.
        let kept = if has_none { 0 } else { self.kept() };
        if self.running.len() < self.most - kept {
            return Some(Room::Free);
        }
        // Of those that were not known as slow, too many can be at the same time.
        let are_too_many = slow.count > self.most_slow();
        let last = slow
            .last_of_most
            .filter(|(count, _)| are_too_many && *count >= slow.most);
        last.map(|(_, number)| Room::InsteadOf(number))
    }

    pub(super) fn slow_calls(&self, now: Instant) -> SlowCalls {
        // What may become slow any time counts as well: otherwise whoever makes calls of just over a second has none.
        let mut of_persons: HashMap<Person, (usize, Option<(Instant, u64)>)> = HashMap::new();
        for (number, one) in self.slow(now) {
            let (count, last) = of_persons.entry(one.tenant.person()).or_default();
            *count += 1;
            let since = one.calling_since.filter(|_| one.is_slow(now));
            *last = (*last).max(since.map(|since| (since, *number)));
        }
        // The one that began last, so that the others get done.
        let at_a_slow_call = of_persons.values().filter_map(|(count, last)| Some((*count, (*last)?)));
        SlowCalls {
            count: self.slow(now).count(),
            most: of_persons.values().map(|(count, _)| *count).max().unwrap_or_default(),
            last_of_most: at_a_slow_call.max().map(|(count, (_, number))| (count, number)),
        }
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

    /// What is preempted for somebody else who is slow: nothing, if they would have more slow calls than the other one then.
    fn preemptible(&self, slow: &SlowCalls, person: Person, take: Duration, now: Instant) -> Option<u64> {
        let own = self.slow(now).filter(|(_, one)| one.tenant.person() == person).count();
        let last = slow
            .last_of_most
            .filter(|(count, _)| *count >= own + 2 && *count >= slow.most);
        let last = last.map(|(_, number)| number);
        let other = || {
            let unexpected = self.unexpected_one(slow, person, now);
            unexpected.or_else(|| self.long_one(person, take, now))
        };
        last.or_else(|| (own == 0).then(other).flatten())
    }

    /// Whoever has no slow call, and had much less than somebody who has, does not wait while there are permits that nobody uses: many who are slow
    /// may end their calls at the same moment.
    fn is_lent_one(&self, slow: &SlowCalls, person: Person, now: Instant) -> bool {
        let is_free = self.running.len() < self.most - self.kept() && slow.count < self.most_slow() + self.kept();
        let average = |person: Person| self.permits.average(person, now);
        let much = (4.0 * average(person)).max(0.25);
        let all = || self.slow(now).map(|(_, one)| one.tenant.person());
        is_free && all().all(|one| one != person) && all().any(|one| average(one) > much)
    }

    /// Whoever is less slow does not wait for many who have one slow call each: of those whose calls last much longer it ends the one of the person
    /// who had most. A third of the places is left to long calls, so that they get done.
    fn long_one(&self, person: Person, take: Duration, now: Instant) -> Option<u64> {
        let long = (2 * take).max(LONG);
        let all = || self.slow(now).filter(|(_, one)| one.lasts(now) >= long);
        if all().count() <= (self.most_slow() / 3).max(1) {
            return None;
        }
        self.of_most(all(), self.permits.average(person, now), now)
    }

    /// If there are more slow calls than places for them: one that did not wait for a place, as its organization was not known as slow, and of a
    /// person who had much more.
    fn unexpected_one(&self, slow: &SlowCalls, person: Person, now: Instant) -> Option<u64> {
        if slow.count <= self.most_slow() {
            return None;
        }
        let unexpected = self.slow(now).filter(|(_, one)| !one.was_slow);
        self.of_most(unexpected, 2.0 * self.permits.average(person, now), now)
    }

    /// Of these the one of the person who had most lately, if that is more than so much.
    fn of_most<'a>(&self, all: impl Iterator<Item = (&'a u64, &'a Running)>, than: f64, now: Instant) -> Option<u64> {
        let of_person = |(number, one): (&u64, &Running)| {
            let average = self.permits.average(one.tenant.person(), now);
            (average, one.calling_since, *number)
        };
        let most = all.map(of_person).max_by(|(one, since, _), (other, other_since, _)| {
            one.total_cmp(other).then_with(|| since.cmp(other_since))
        });
        most.filter(|(most, _, _)| *most > than).map(|(_, _, number)| number)
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

    /// How long it has been at its call.
    pub(super) fn lasts(&self, now: Instant) -> Duration {
        let since = self.calling_since;
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}
