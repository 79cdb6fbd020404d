//! What is in progress, and who has how much of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use service::{OrganizationId, Person, Tenant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::loads::Loads;

/// How long one call of an app may take before it is slow: starting the app, if need be, and what it does with one event.
pub(super) const SLOW_AFTER: Duration = Duration::from_secs(1);
/// While others wait, turns are so short that each person has one within this time.
const ROUND: Duration = Duration::from_secs(3);
/// No turn is shorter: apps would be started for almost nothing.
pub(super) const SHORTEST_TURN: Duration = Duration::from_millis(50);
/// For how long an organization is known as slow that has nothing in progress.
const REMEMBERED_FOR: Duration = Duration::from_mins(5);
/// What is in progress at once, however many slots there are: each is a process. Half of these, which slow calls may have, are more than the persons
/// that one attacker is expected to be (16, docs/attack-results.md).
const AT_ONCE: usize = 42;
/// Of these, an organization has so many at most.
const MAX_OF_ONE: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Events,
    Task,
}

/// What a scheduler shares with its permits.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) has_changed: Notify,
}

impl Shared {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            state: Mutex::new(State::new(slots)),
            has_changed: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct State {
    slots: usize,
    pub(super) most: usize,
    /// What one organization may have in progress.
    pub(super) most_of_one: usize,
    next: u64,
    pub(super) running: HashMap<u64, Running>,
    /// Who has permits, and of these slots.
    pub(super) permits: Loads<Person>,
    in_slots: Loads<Person>,
    pub(super) organizations: Loads<OrganizationId>,
    /// Organizations whose last turn had a slow call.
    slow: HashMap<OrganizationId, Slowness>,
}

/// When an organization was slow, and until when that is remembered.
#[derive(Debug, Clone, Copy)]
struct Slowness {
    noted: Instant,
    until: Instant,
}

/// Whose fault it is if something takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    App,
    Server,
}

/// Something that is in progress.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) tenant: Tenant,
    pub(super) work: Work,
    /// Whether its organization was known as slow when it began.
    pub(super) was_slow: bool,
    pub(super) begun: Instant,
    is_in_slot: bool,
    waits_for: WaitsFor,
    /// Whether it has had a slow call.
    had_slow_call: bool,
    /// When its app was called for the first time. What it waited for before that does not shorten its turn: each turn gets something done.
    called_first: Option<Instant>,
    /// Since when the app is at one call; none while it is not waited for.
    pub(super) calling_since: Option<Instant>,
    preempted: CancellationToken,
}

impl State {
    pub(super) fn new(slots: usize) -> Self {
        let slots = slots.clamp(1, AT_ONCE);
        Self {
            slots,
            most: AT_ONCE,
            most_of_one: slots.min(MAX_OF_ONE),
            next: 0,
            running: HashMap::new(),
            permits: Loads::default(),
            in_slots: Loads::default(),
            organizations: Loads::default(),
            slow: HashMap::new(),
        }
    }

    /// The part of what a person has of all permits, or of all slots, whichever is larger. Quick calls need slots, and slow ones permits.
    pub(super) fn share(&self, person: Person, now: Instant) -> f64 {
        let part = |load: f64, all: usize| load / f64::from(u32::try_from(all).unwrap_or(u32::MAX));
        let of_permits = part(self.permits.load(person, now), self.most);
        of_permits.max(part(self.in_slots.load(person, now), self.slots))
    }

    pub(super) fn start(&mut self, tenant: Tenant, work: Work, now: Instant) -> (u64, CancellationToken) {
        self.next += 1;
        let preempted = CancellationToken::new();
        let running = Running {
            tenant,
            work,
            was_slow: self.is_known_as_slow(tenant.organization, now),
            begun: now,
            is_in_slot: true,
            waits_for: WaitsFor::Server,
            had_slow_call: false,
            called_first: None,
            calling_since: None,
            preempted: preempted.clone(),
        };
        self.running.insert(self.next, running);
        self.permits.begin(tenant.person(), now);
        self.in_slots.begin(tenant.person(), now);
        self.organizations.begin(tenant.organization, now);
        (self.next, preempted)
    }

    pub(super) fn note_search(&mut self, tenant: Tenant, took: Duration, now: Instant) {
        let slots = u32::try_from(self.slots).unwrap_or(u32::MAX);
        self.in_slots.add(tenant.person(), took.saturating_mul(slots), now);
        self.organizations.add(tenant.organization, took, now);
    }

    /// From now on it goes on without a slot.
    pub(super) fn leave_slot(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.get_mut(&number).filter(|one| one.is_in_slot) {
            one.is_in_slot = false;
            self.in_slots.end(one.tenant.person(), now);
        }
    }

    pub(super) fn end(&mut self, number: u64, now: Instant) {
        self.end_call(number, now);
        self.leave_slot(number, now);
        if let Some(one) = self.running.remove(&number) {
            self.permits.end(one.tenant.person(), now);
            self.organizations.end(one.tenant.organization, now);
            self.note_speed(&one, now);
        }
    }

    /// One turn without a slow call that began after the last slow one had ended, and it is known as quick.
    fn note_speed(&mut self, one: &Running, now: Instant) {
        let organization = one.tenant.organization;
        self.slow.retain(|_, slowness| slowness.until > now);
        if one.had_slow_call {
            let slowness = Slowness {
                noted: now,
                until: now + REMEMBERED_FOR,
            };
            self.slow.insert(organization, slowness);
        } else if one.called_first.is_some() {
            self.slow
                .retain(|id, slowness| *id != organization || slowness.noted > one.begun);
        }
    }

    pub(super) fn is_known_as_slow(&self, organization: OrganizationId, now: Instant) -> bool {
        let known = self.slow.get(&organization);
        known.is_some_and(|slowness| slowness.until > now)
    }

    pub(super) fn preempt(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.get(&number) {
            one.preempted.cancel();
        }
        self.end(number, now);
    }

    /// Whether others wait, and it has had its share.
    pub(super) fn should_yield(&self, number: u64, now: Instant) -> bool {
        let Some(one) = self.running.get(&number) else {
            return true;
        };
        let lasts = |since: Instant, time: Duration| now.saturating_duration_since(since) >= time;
        let has_others = self.permits.in_progress(one.tenant.person()) > 1;
        let is_crowded = has_others && self.running.len() >= self.most - self.kept();
        (is_crowded && lasts(one.begun, SLOW_AFTER))
            || (self.do_others_wait() && one.called_first.is_some_and(|since| lasts(since, self.turn())))
    }

    /// There are organizations that had something in progress lately, and have nothing now.
    fn do_others_wait(&self) -> bool {
        self.running.len() >= self.slots && self.organizations.len() > self.running.len()
    }

    /// How long a turn lasts while others wait.
    fn turn(&self) -> Duration {
        let slots = f64::from(u32::try_from(self.slots).unwrap_or(u32::MAX));
        let turn = ROUND.mul_f64(slots / self.permits.effective_count().max(1.0));
        turn.clamp(SHORTEST_TURN, SLOW_AFTER)
    }

    /// When the next call becomes slow.
    pub(super) fn next_slow_at(&self, now: Instant) -> Instant {
        let since = self.running.values().filter_map(|one| one.calling_since);
        let at = since.map(|since| since + SLOW_AFTER).filter(|at| *at > now);
        at.min().unwrap_or(now + SLOW_AFTER)
    }

    /// The app is waited for.
    pub(super) fn begin_call(&mut self, number: u64, now: Instant) {
        self.begin_waiting(number, now);
        if let Some(one) = self.running.get_mut(&number) {
            one.waits_for = WaitsFor::App;
        }
    }

    /// Something else is waited for, of which nobody else is to wait for the end.
    pub(super) fn begin_waiting(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.get_mut(&number) {
            (one.calling_since, one.waits_for) = (Some(now), WaitsFor::Server);
        }
    }

    pub(super) fn begin_turn(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.get_mut(&number) {
            one.called_first.get_or_insert(now);
        }
    }

    pub(super) fn end_call(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.get_mut(&number) {
            one.had_slow_call |= one.waits_for == WaitsFor::App && one.is_slow(now);
            one.calling_since = None;
        }
    }

    /// Whether it has been at the same call for so long, or has had a slot for long.
    pub(super) fn lasts(&self, number: u64, time: Duration, now: Instant) -> bool {
        self.running.get(&number).is_none_or(|one| {
            let since = |at: Instant| now.saturating_duration_since(at);
            one.calling_since.is_some_and(|at| since(at) >= time) || since(one.begun) >= SLOW_AFTER
        })
    }
}
