//! What is in progress, and whether something more may begin.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use service::{OrganizationId, Tenant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::history::Histories;
use super::loads::Loads;
use super::recent::{IDLE_AFTER, Recent};
use super::rounds::Rounds;
use super::search_timer::SearchTimer;
use super::speed_class::{Look, Pass, SpeedClass, Work};

/// How long one call of an app may take before it is slow: starting the app, if need be, and what it does with one event.
pub(super) const SLOW_AFTER: Duration = Duration::from_secs(1);
/// While organizations wait, their turns are so short that all of them have one within this time.
const ROUND: Duration = Duration::from_secs(3);
/// No turn is shorter: apps would be started for almost nothing.
pub(super) const SHORTEST_TURN: Duration = Duration::from_millis(50);
/// What is in progress at once for each slot, and in all: each is a process.
const PER_SLOT: usize = 7;
/// With what is kept for slow ones, and for those that are idle, as many as the sandbox has room for.
const MAX_AT_ONCE: usize = 42;

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
    /// Of how many organizations something is in progress before any of them waits.
    uncontended: usize,
    slots: usize,
    pub(super) most: usize,
    /// What one organization may have in progress.
    pub(super) most_of_one: usize,
    next: u64,
    pub(super) running: HashMap<u64, Running>,
    pub(super) loads: Loads,
    pub(super) history: Histories,
    pub(super) recent: Recent,
    /// Of the slots for events alone, and of the others.
    pub(super) rounds: [Rounds; 2],
    /// The same.
    looks: [SearchTimer; 2],
}

/// Something that is in progress.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) tenant: Tenant,
    pub(super) work: Work,
    /// When it began.
    pub(super) standing: SpeedClass,
    /// Whether its organization had nothing in progress for a while before, or others wait who had nothing.
    is_short: bool,
    found_in: Pass,
    pub(super) begun: Instant,
    /// Whether its app was called, or at least started for that.
    has_begun_calls: bool,
    /// When its app was called for the first time. What it waited for before that does not shorten its turn: each turn gets something done.
    called_first: Option<Instant>,
    /// Since when the app is at one call; none while it is not waited for.
    pub(super) calling_since: Option<Instant>,
    pub(super) preempted: CancellationToken,
}

impl Running {
    /// Whether it has one of the permits that are kept for slow organizations. It is not counted among the others, and not preempted.
    pub(super) fn is_kept(&self) -> bool {
        self.found_in == Pass::OverdueSlow
    }

    /// How long the call lasts that it is at.
    pub(super) fn lasts(&self, now: Instant) -> Duration {
        let since = self.calling_since;
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    pub(super) fn is_slow(&self, now: Instant) -> bool {
        self.lasts(now) >= SLOW_AFTER
    }
}

impl State {
    pub(super) fn new(slots: usize) -> Self {
        let slots = slots.clamp(1, MAX_AT_ONCE);
        let most = (slots * PER_SLOT).min(MAX_AT_ONCE);
        let most_of_one = slots.min(MAX_AT_ONCE / 4);
        Self {
            uncontended: slots.min(most / most_of_one),
            slots,
            most,
            most_of_one,
            next: 0,
            running: HashMap::new(),
            loads: Loads::default(),
            history: Histories::default(),
            recent: Recent::default(),
            rounds: Default::default(),
            looks: Default::default(),
        }
    }

    pub(super) fn start(&mut self, tenant: Tenant, work: Work, now: Instant) -> (u64, CancellationToken) {
        let organization = tenant.organization;
        self.next += 1;
        let preempted = CancellationToken::new();
        let running = Running {
            tenant,
            work,
            standing: self.standing(organization, now),
            is_short: self.is_idle(organization, now),
            found_in: Pass::Anyone,
            begun: now,
            has_begun_calls: false,
            called_first: None,
            calling_since: None,
            preempted: preempted.clone(),
        };
        self.loads.begin(tenant.person(), now);
        self.running.insert(self.next, running);
        self.recent.note(organization, now);
        (self.next, preempted)
    }

    /// What was found by a look.
    pub(super) fn start_found(
        &mut self,
        look: Look,
        tenant: Tenant,
        work: Work,
        now: Instant,
    ) -> (u64, CancellationToken) {
        let (number, preempted) = self.start(tenant, work, now);
        if let Some(one) = self.running.get_mut(&number) {
            one.found_in = look.pass;
            // Others have just come, and wait.
            one.is_short |= look.pass == Pass::Overdue;
            self.rounds[usize::from(look.takes_tasks)].note(tenant, look.pass, one.standing);
        }
        (number, preempted)
    }

    pub(super) fn is_turn_of(&self, tenant: Tenant, look: Look, standing: SpeedClass) -> bool {
        self.rounds[usize::from(look.takes_tasks)].is_turn_of(tenant, look.pass, standing)
    }

    pub(super) fn standing(&self, organization: OrganizationId, now: Instant) -> SpeedClass {
        let own = self
            .running
            .values()
            .filter(|one| one.tenant.organization == organization);
        let slow = own.map(|one| one.lasts(now)).filter(|lasts| *lasts >= SLOW_AFTER);
        let running = slow.max().map_or(SpeedClass::Quick, SpeedClass::of_slow);
        running.max(self.history.standing(organization, now))
    }

    /// Whether it had nothing in progress for a while.
    pub(super) fn is_idle(&self, organization: OrganizationId, now: Instant) -> bool {
        self.has_nothing_for(IDLE_AFTER, organization, now)
    }

    /// Whether it had nothing in progress for longer than a round, so if something waits, that has waited for too long.
    fn waits_for_long(&self, organization: OrganizationId, now: Instant) -> bool {
        self.has_nothing_for(ROUND, organization, now)
    }

    fn has_nothing_for(&self, time: Duration, organization: OrganizationId, now: Instant) -> bool {
        let is_running = || self.running.values().any(|one| one.tenant.organization == organization);
        !self.recent.has_within(time, organization, now) && !is_running()
    }

    /// Whether this organization is looked for.
    pub(super) fn includes(&self, look: Look, tenant: Tenant, now: Instant) -> bool {
        let organization = tenant.organization;
        let standing = self.standing(organization, now);
        let is_little = || self.loads.is_little(tenant.person(), now);
        let is_its_turn = || self.is_turn_of(tenant, look, standing);
        match look.pass {
            Pass::Anyone => true,
            // While there is little room, whoever is quick goes before those who are slow.
            Pass::Overdue if standing.is_slow() => self.has_much_room() && self.waits_for_long(organization, now),
            Pass::Overdue => {
                let is_idle = self.is_idle(organization, now) && is_little();
                self.waits_for_long(organization, now) && !is_idle && is_its_turn()
            }
            Pass::Underserved => !standing.is_slow() && is_little() && is_its_turn(),
            Pass::NotSlow => !standing.is_slow(),
            Pass::OverdueSlow => standing.is_slow() && self.has_nothing_for(SLOW_AFTER, organization, now),
            Pass::Only(only) => standing == only,
        }
    }

    /// So many organizations have something to do that some of them may wait.
    pub(super) fn is_contended(&self) -> bool {
        self.recent.count() > self.uncontended
    }

    pub(super) fn looks(&mut self, takes_tasks: bool) -> &mut SearchTimer {
        &mut self.looks[usize::from(takes_tasks)]
    }

    /// Who is searched for first: those who have little in progress, those who have waited longer than a round, or neither.
    pub(super) fn begin_look(&mut self, takes_tasks: bool, now: Instant) -> Option<Pass> {
        self.recent.tidy(now);
        let is_to_look = self.is_contended();
        is_to_look.then(|| self.looks(takes_tasks).begin(now)).flatten()
    }

    /// Whether others wait, and it has had its share.
    pub(super) fn should_yield(&self, number: u64, now: Instant) -> bool {
        let is_crowded = self.shared().count() >= self.most - self.kept_for_quick();
        let Some(one) = self.running.get(&number) else {
            return is_crowded;
        };
        let turn = self.turn_of(one);
        let has_had = |turn: Duration, since: Instant| now.saturating_duration_since(since) >= turn;
        let do_others_wait = one.is_kept() || (self.is_contended() && self.running.len() >= self.slots);
        (is_crowded && has_had(turn.max(SLOW_AFTER), one.begun))
            || (do_others_wait && one.called_first.is_some_and(|since| has_had(turn, since)))
    }

    /// How long its turn lasts while others wait. The first one is short: nobody knows yet how many more have just come.
    fn turn_of(&self, one: &Running) -> Duration {
        // Others wait because of those who have more.
        if !one.is_kept() && self.loads.stays_little(one.tenant.person()) {
            return ROUND;
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let all = ROUND.saturating_mul(number(self.slots));
        // Of a round of persons, each has a part, however short the others' turns are who have many organizations.
        if one.found_in == Pass::Underserved {
            return (all / number(self.loads.count())).clamp(SHORTEST_TURN, SLOW_AFTER);
        }
        if one.is_short {
            return SHORTEST_TURN;
        }
        (all / number(self.recent.count())).clamp(SHORTEST_TURN, SLOW_AFTER)
    }

    /// What is in progress, but for what has a permit that is kept for slow organizations.
    pub(super) fn shared(&self) -> impl Iterator<Item = (&u64, &Running)> {
        self.running.iter().filter(|(_, one)| !one.is_kept())
    }

    /// When the next call becomes slow.
    pub(super) fn next_slow_at(&self, now: Instant) -> Instant {
        let since = self.running.values().filter_map(|one| one.calling_since);
        let at = since.map(|since| since + SLOW_AFTER).filter(|at| *at > now);
        at.min().unwrap_or(now + SLOW_AFTER)
    }

    pub(super) fn preempt(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.remove(number, now) {
            one.preempted.cancel();
            // How long it would have taken is not known: no less than others before it.
            let organization = one.tenant.organization;
            let usual = self.history.usual(organization, now).unwrap_or_default();
            self.history.note_slow(organization, one.lasts(now).max(usual), now);
            self.recent.note(organization, now);
        }
    }

    pub(super) fn begin_call(&mut self, number: u64, now: Instant) {
        self.begin_start(number, now);
        self.begin_batch(number, now);
    }

    pub(super) fn begin_start(&mut self, number: u64, now: Instant) {
        self.begin_waiting(number, now);
        if let Some(one) = self.running.get_mut(&number) {
            one.has_begun_calls = true;
        }
    }

    pub(super) fn begin_batch(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.get_mut(&number) {
            one.called_first.get_or_insert(now);
        }
    }

    /// For something other than its app: nobody is quick for that.
    pub(super) fn begin_waiting(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.get_mut(&number) {
            one.calling_since = Some(now);
        }
    }

    pub(super) fn end_call(&mut self, number: u64, now: Instant) {
        let Some(one) = self.running.get_mut(&number) else {
            return;
        };
        let (organization, took) = (one.tenant.organization, one.lasts(now));
        one.calling_since = None;
        if took >= SLOW_AFTER {
            self.history.note_slow(organization, took, now);
        }
    }

    pub(super) fn end(&mut self, number: u64, now: Instant) {
        self.end_call(number, now);
        let has_yielded = self.should_yield(number, now);
        let Some(one) = self.remove(number, now) else {
            return;
        };
        // It has more to do.
        if has_yielded && self.loads.is_little(one.tenant.person(), now) {
            let looks = self.looks.iter_mut();
            looks.for_each(|look| look.look_again(Pass::Underserved));
        }
        self.recent.note(one.tenant.organization, now);
        if one.has_begun_calls {
            self.history.note_quick(one.tenant.organization, now);
        }
    }

    fn remove(&mut self, number: u64, now: Instant) -> Option<Running> {
        let one = self.running.remove(&number)?;
        self.loads.end(one.tenant.person(), now);
        Some(one)
    }
}
