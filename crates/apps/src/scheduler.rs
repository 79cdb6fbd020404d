//! Who may begin, of the organizations that wait.
//!
//! What is counted is what apps do at the moment: a call that lasts longer than [`PATIENCE`] is slow, whatever its
//! organization did before. Slow calls keep a third of all permits; beyond that the oldest of them is preempted as soon
//! as somebody else needs its permit. So organizations that are slow cost the others a moment each, however many they
//! are. What an organization did lately only decides who comes first: those known to be quick, those who are new, those
//! who were slow, and of these the less slow ones. The slower they are, the fewer permits they get, and whoever is less slow
//! may end what has lasted long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use service::OrganizationId;
use tokio::sync::Notify;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

/// How long one call of an app may take before it is slow: starting the app, if need be, and what it does with one event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How long its calls usually take at least, of an organization that is slower than others that are slow, and of the slowest.
const SLOWER: Duration = Duration::from_secs(2);
const SLOWEST: Duration = Duration::from_secs(5);
/// How long an organization counts as slow after it was: twice as long each time, so many times.
const SLOW_FOR: Duration = Duration::from_mins(5);
const MOST_DOUBLINGS: u32 = 4;
/// How long it counts as quick, and for how long it is remembered that it was slow.
const QUICK_FOR: Duration = Duration::from_hours(1);
/// What is under way at once for each slot, and in all: each is a process.
const PER_SLOT: usize = 7;
const MOST_AT_ONCE: usize = 48;
/// More than these are not remembered; whoever is not remembered is new.
const MOST_REMEMBERED: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Events,
    Task,
}

/// What is known of an organization. The first go before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    Quick,
    /// Nothing is known, or nothing that still counts.
    New,
    Slow,
    Slower,
    Slowest,
}

impl Standing {
    /// Of an organization whose calls are slow, and take so long.
    fn of_slow(usual: Duration) -> Self {
        if usual >= SLOWEST {
            Self::Slowest
        } else if usual >= SLOWER {
            Self::Slower
        } else {
            Self::Slow
        }
    }

    fn is_slow(self) -> bool {
        self >= Self::Slow
    }
}

/// Who is looked for in one pass over those who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Anyone,
    Only(Standing),
}

impl Pass {
    pub(crate) const COUNT: usize = 6;

    /// Each pass goes its own rounds: otherwise one would begin again and again where another has ended.
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Anyone => 0,
            Self::Only(standing) => 1 + standing as usize,
        }
    }

    fn includes(self, standing: Standing) -> bool {
        self == Self::Anyone || self == Self::Only(standing)
    }
}

/// Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    has_changed: Notify,
}

#[derive(Debug)]
struct State {
    most: usize,
    /// What one organization may have under way.
    most_of_one: usize,
    next: u64,
    running: HashMap<u64, Running>,
    history: HashMap<OrganizationId, History>,
}

/// Something that is under way.
#[derive(Debug)]
struct Running {
    organization: OrganizationId,
    work: Work,
    /// When it began.
    standing: Standing,
    begun: Instant,
    /// Since when the app is at one call; none while it is not waited for.
    calling_since: Option<Instant>,
    was_called: bool,
    preempted: CancellationToken,
}

impl Running {
    /// How long the call lasts that it is at.
    fn lasts(&self, now: Instant) -> Duration {
        let since = self.calling_since;
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.lasts(now) >= PATIENCE
    }
}

/// How it went with an organization lately.
#[derive(Debug, Clone, Copy)]
struct History {
    quick_until: Instant,
    slow_until: Instant,
    times_slow: u32,
    /// How long its slow calls take, the latest ones above all.
    usual: Duration,
    forgotten_at: Instant,
}

/// Whether something may begin.
enum Room {
    Free,
    /// If this is preempted.
    InsteadOf(u64),
}

impl Scheduler {
    pub(crate) fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        let state = State {
            most: slots.saturating_mul(PER_SLOT).min(MOST_AT_ONCE).max(slots),
            most_of_one: slots.min(MOST_AT_ONCE / 4),
            next: 0,
            running: HashMap::new(),
            history: HashMap::new(),
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            has_changed: Notify::new(),
        }))
    }

    /// In which order those who wait are looked at. While there is much room, nobody goes before anybody.
    pub(crate) fn passes(&self, now: Instant) -> &'static [Pass] {
        let state = self.state();
        if !state.has_any_room(now) {
            &[]
        } else if state.running.len() < state.most / 2 {
            &[Pass::Anyone]
        } else {
            &[
                Pass::Only(Standing::Quick),
                Pass::Only(Standing::New),
                Pass::Only(Standing::Slow),
                Pass::Only(Standing::Slower),
                Pass::Only(Standing::Slowest),
            ]
        }
    }

    /// Waits until somebody may begin.
    pub(crate) async fn until_room(&self) {
        loop {
            let has_changed = self.0.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            let now = Instant::now();
            let next_slow = {
                let state = self.state();
                if state.has_any_room(now) {
                    return;
                }
                state.next_slow_at(now)
            };
            tokio::select! {
                () = has_changed => {}
                () = sleep_until(next_slow.into()) => {}
            }
        }
    }

    /// Whether something of this organization may begin.
    pub(crate) fn may_begin(&self, pass: Pass, organization: OrganizationId, work: Work, now: Instant) -> bool {
        let state = self.state();
        pass.includes(state.standing(organization, now)) && state.room(organization, work, now).is_some()
    }

    /// A permit for something that may begin. If there is no other, it is taken from what is slow.
    pub(crate) fn begin(&self, pass: Pass, organization: OrganizationId, work: Work, now: Instant) -> Option<Permit> {
        let mut state = self.state();
        if !pass.includes(state.standing(organization, now)) {
            return None;
        }
        if let Room::InsteadOf(number) = state.room(organization, work, now)? {
            state.preempt(number, now);
        }
        let (number, preempted) = state.start(organization, work, now);
        Some(Permit {
            scheduler: self.clone(),
            number,
            preempted,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn start(&mut self, organization: OrganizationId, work: Work, now: Instant) -> (u64, CancellationToken) {
        self.next += 1;
        let preempted = CancellationToken::new();
        let running = Running {
            organization,
            work,
            standing: self.standing(organization, now),
            begun: now,
            calling_since: None,
            was_called: false,
            preempted: preempted.clone(),
        };
        self.running.insert(self.next, running);
        (self.next, preempted)
    }

    fn standing(&self, organization: OrganizationId, now: Instant) -> Standing {
        let own = self.running.values().filter(|one| one.organization == organization);
        let slow = own.map(|one| one.lasts(now)).filter(|lasts| *lasts >= PATIENCE);
        let running = slow.max().map_or(Standing::Quick, Standing::of_slow);
        let known = match self.history.get(&organization) {
            Some(history) if now < history.slow_until => Standing::of_slow(history.usual),
            Some(history) if now < history.quick_until => Standing::Quick,
            _ => Standing::New,
        };
        running.max(known)
    }

    fn room(&self, organization: OrganizationId, work: Work, now: Instant) -> Option<Room> {
        let half = self.most / 2;
        let all = self.running.len();
        let count = |is_so: &dyn Fn(&Running) -> bool| self.running.values().filter(|one| is_so(one)).count();
        if count(&|one| one.organization == organization) >= self.most_of_one {
            return None;
        }
        let standing = self.standing(organization, now);
        let is_task = work == Work::Task;
        if is_task && count(&|one| one.work == Work::Task) >= half {
            return if standing.is_slow() {
                self.preempt_slower(organization, standing, now, |one| one.work == Work::Task)
            } else {
                self.preemptible(now, half / 2, |one| one.work == Work::Task)
            };
        }
        let free = |most: usize| (all < most).then_some(Room::Free);
        match standing {
            Standing::Quick => free(self.most).or_else(|| self.preempt_slow(now)),
            Standing::New => {
                let new = count(&|one| one.standing == Standing::New && !one.is_slow(now));
                let room = || free(self.most - self.kept_for_quick()).or_else(|| self.preempt_slow(now));
                (new < half).then(room).flatten()
            }
            Standing::Slow | Standing::Slower | Standing::Slowest => {
                let slow = count(&|one| one.standing.is_slow() || one.is_slow(now));
                let room = (slow < self.most_of_slow(standing)).then(|| free(self.most - self.most / 4));
                room.flatten()
                    .or_else(|| self.preempt_slower(organization, standing, now, |_| true))
            }
        }
    }

    /// Half of all permits; a few of these are for those who are less slow.
    fn most_of_slow(&self, standing: Standing) -> usize {
        let kept = match standing {
            Standing::Slowest => 2 * self.most / 14,
            Standing::Slower => self.most / 14,
            _ => 0,
        };
        (self.most / 2).saturating_sub(kept).max(1)
    }

    /// What has lasted longest of organizations that are slower than this one. Equals do not end each other's: nobody would get done.
    fn preempt_slower(
        &self,
        organization: OrganizationId,
        standing: Standing,
        now: Instant,
        is_meant: impl Fn(&Running) -> bool,
    ) -> Option<Room> {
        let is_slower = |one: &Running| one.organization != organization && one.lasts(now) >= SLOWEST;
        let slower = self.running.iter().filter(|(_, one)| is_meant(one) && is_slower(one));
        let oldest = slower.min_by_key(|(_, one)| one.calling_since);
        let oldest = oldest.filter(|_| standing < Standing::Slowest);
        oldest.map(|(number, _)| Room::InsteadOf(*number))
    }

    /// How many permits only those get who are known to be quick.
    fn kept_for_quick(&self) -> usize {
        (self.most / 8).max(1)
    }

    fn preempt_slow(&self, now: Instant) -> Option<Room> {
        self.preemptible(now, self.most / 3, |_| true)
    }

    /// The oldest of the slow ones, if there are more of them than may keep their permits.
    fn preemptible(&self, now: Instant, most: usize, is_meant: impl Fn(&Running) -> bool) -> Option<Room> {
        let is_slow = |one: &Running| is_meant(one) && one.is_slow(now);
        let slow = || self.running.iter().filter(|(_, one)| is_slow(one));
        if slow().count() <= most {
            return None;
        }
        let oldest = slow().min_by_key(|(_, one)| one.calling_since);
        oldest.map(|(number, _)| Room::InsteadOf(*number))
    }

    /// Whether somebody who is quick could begin.
    fn has_any_room(&self, now: Instant) -> bool {
        self.running.len() < self.most || self.preempt_slow(now).is_some()
    }

    /// When the next call becomes slow.
    fn next_slow_at(&self, now: Instant) -> Instant {
        let since = self.running.values().filter_map(|one| one.calling_since);
        let at = since.map(|since| since + PATIENCE).filter(|at| *at > now);
        at.min().unwrap_or(now + PATIENCE)
    }

    fn preempt(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.remove(&number) {
            one.preempted.cancel();
            // How long it would have taken is not known: no less than others before it.
            let usual = self.remembered(one.organization, now).map(|history| history.usual);
            self.note_slow(one.organization, one.lasts(now).max(usual.unwrap_or_default()), now);
        }
    }

    fn note_slow(&mut self, organization: OrganizationId, took: Duration, now: Instant) {
        let before = self.remembered(organization, now);
        let usual = before.filter(|history| history.times_slow > 0);
        let usual = usual.map_or(took, |history| (history.usual + took) / 2);
        let is_slow_already = before.is_some_and(|history| now < history.slow_until);
        let times_slow = before.map_or(0, |history| history.times_slow) + u32::from(!is_slow_already);
        let doublings = times_slow.saturating_sub(1).min(MOST_DOUBLINGS);
        let slow_until = now + SLOW_FOR * 2_u32.pow(if is_slow_already { 0 } else { doublings });
        let slow_until = before.map_or(slow_until, |history| history.slow_until.max(slow_until));
        self.remember(
            organization,
            History {
                quick_until: now,
                slow_until,
                times_slow,
                usual,
                forgotten_at: slow_until + QUICK_FOR,
            },
            now,
        );
    }

    /// Whoever was slow lately is not quick for having been quick once.
    fn note_quick(&mut self, organization: OrganizationId, now: Instant) {
        let before = self.remembered(organization, now);
        if before.is_some_and(|history| now < history.slow_until) {
            return;
        }
        let quick_until = now + QUICK_FOR;
        let (times_slow, usual, forgotten_at) = match before {
            Some(history) if history.times_slow > 0 => (history.times_slow, history.usual, history.forgotten_at),
            _ => (0, Duration::ZERO, quick_until),
        };
        self.remember(
            organization,
            History {
                quick_until,
                slow_until: now,
                times_slow,
                usual,
                forgotten_at,
            },
            now,
        );
    }

    fn remembered(&self, organization: OrganizationId, now: Instant) -> Option<History> {
        let history = self.history.get(&organization).copied();
        history.filter(|history| now < history.forgotten_at)
    }

    fn remember(&mut self, organization: OrganizationId, history: History, now: Instant) {
        if self.history.len() >= MOST_REMEMBERED && !self.history.contains_key(&organization) {
            self.history.retain(|_, one| now < one.slow_until);
        }
        if self.history.len() < MOST_REMEMBERED || self.history.contains_key(&organization) {
            self.history.insert(organization, history);
        }
    }

    fn begin_call(&mut self, number: u64, now: Instant) {
        self.begin_waiting(number, now);
        if let Some(one) = self.running.get_mut(&number) {
            one.was_called = true;
        }
    }

    /// For something other than its app: nobody is quick for that.
    fn begin_waiting(&mut self, number: u64, now: Instant) {
        if let Some(one) = self.running.get_mut(&number) {
            one.calling_since = Some(now);
        }
    }

    fn end_call(&mut self, number: u64, now: Instant) {
        let Some(one) = self.running.get_mut(&number) else {
            return;
        };
        let (organization, took) = (one.organization, one.lasts(now));
        one.calling_since = None;
        if took >= PATIENCE {
            self.note_slow(organization, took, now);
        }
    }

    fn end(&mut self, number: u64, now: Instant) {
        self.end_call(number, now);
        if let Some(one) = self.running.remove(&number)
            && one.was_called
        {
            self.note_quick(one.organization, now);
        }
    }
}

/// Something that is under way. Dropped, it is over.
#[derive(Debug)]
pub(crate) struct Permit {
    scheduler: Scheduler,
    number: u64,
    preempted: CancellationToken,
}

impl Permit {
    /// From now on the app is waited for.
    pub(crate) fn begin_call(&self) {
        self.scheduler.state().begin_call(self.number, Instant::now());
    }

    pub(crate) fn end_call(&self) {
        self.scheduler.state().end_call(self.number, Instant::now());
    }

    /// How long the organization waits for its turn at the database counts like a call of its app: so nobody else waits for that.
    pub(crate) async fn timed<T>(&self, work: impl Future<Output = T>) -> T {
        self.scheduler.state().begin_waiting(self.number, Instant::now());
        let done = work.await;
        self.end_call();
        done
    }

    pub(crate) fn is_preempted(&self) -> bool {
        self.preempted.is_cancelled()
    }

    /// Waits until others need the permit more. It is theirs by then.
    pub(crate) async fn preempted(&self) {
        self.preempted.cancelled().await;
    }

    /// Whether others wait, and it has had its share.
    pub(crate) fn should_yield(&self) -> bool {
        let state = self.scheduler.state();
        let has_had = |one: &Running| one.begun.elapsed() >= PATIENCE;
        let is_crowded = state.running.len() >= state.most - state.kept_for_quick();
        is_crowded && state.running.get(&self.number).is_none_or(has_had)
    }

    /// For those who look on.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            scheduler: self.scheduler.clone(),
            number: self.number,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.scheduler.state().end(self.number, Instant::now());
        self.scheduler.0.has_changed.notify_waiters();
    }
}

#[derive(Debug)]
pub(crate) struct Progress {
    scheduler: Scheduler,
    number: u64,
}

impl Progress {
    /// Whether it has been at the same call for so long, or has had its share.
    pub(crate) fn lasts(&self, time: Duration) -> bool {
        let state = self.scheduler.state();
        state.running.get(&self.number).is_none_or(|one| {
            let is_waiting = one.calling_since.is_some_and(|since| since.elapsed() >= time);
            is_waiting || one.begun.elapsed() >= PATIENCE
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(25);

    fn organization(number: u128) -> OrganizationId {
        OrganizationId(uuid::Uuid::from_u128(number))
    }

    /// Begins as much as may begin, for these organizations in turn.
    fn fill(state: &mut State, organizations: std::ops::Range<u128>, work: Work, now: Instant) -> Vec<u64> {
        let mut begun = Vec::new();
        loop {
            let before = begun.len();
            for number in organizations.clone() {
                if matches!(state.room(organization(number), work, now), Some(Room::Free)) {
                    let (number, _) = state.start(organization(number), work, now);
                    state.begin_call(number, now);
                    begun.push(number);
                }
            }
            if begun.len() == before {
                return begun;
            }
        }
    }

    #[test]
    fn one_organization_never_has_all_permits() {
        for slots in 1..100 {
            let (scheduler, now) = (Scheduler::new(slots), Instant::now());
            let mut state = scheduler.state();
            let own = fill(&mut state, 1..2, Work::Events, now);
            assert!(!own.is_empty() && own.len() <= slots, "{slots}");
            assert!(state.room(organization(2), Work::Events, now).is_some(), "{slots}");
        }
    }

    #[test]
    fn whoever_waits_long_for_the_database_keeps_no_permit_from_others() {
        let (scheduler, now) = (Scheduler::new(4), Instant::now());
        let mut state = scheduler.state();
        // Each has a permit, and waits for its own turn at the database.
        let begun: Vec<u64> = (1..1000)
            .map_while(|number| {
                let room = state.room(organization(number), Work::Events, now);
                let (number, _) =
                    matches!(room, Some(Room::Free)).then(|| state.start(organization(number), Work::Events, now))?;
                state.begin_waiting(number, now);
                Some(number)
            })
            .collect();
        let full = |state: &State, now| state.room(organization(5000), Work::Events, now);
        assert!(begun.len() > 4 && full(&state, now).is_none());
        assert!(
            full(&state, now + PATIENCE).is_some(),
            "they no longer stand in the way"
        );
        // Those who waited for a moment have done nothing that would make them quick.
        state.end(begun[1], now + TICK);
        assert_eq!(state.standing(organization(2), now + TICK), Standing::New);
    }

    #[tokio::test]
    async fn what_is_waited_for_is_timed_until_it_is_done() {
        let scheduler = Scheduler::new(4);
        let permit = scheduler.begin(Pass::Anyone, organization(1), Work::Events, Instant::now());
        let permit = permit.expect("there is room");
        let is_timed = || {
            scheduler
                .state()
                .running
                .values()
                .any(|one| one.calling_since.is_some())
        };
        assert!(permit.timed(async { is_timed() }).await && !is_timed());
    }

    #[test]
    fn new_ones_and_tasks_have_a_share() {
        let (scheduler, now) = (Scheduler::new(4), Instant::now());
        let mut state = scheduler.state();
        assert_eq!(fill(&mut state, 1..100, Work::Events, now).len(), 14);
        state.note_quick(organization(200), now);
        assert!(state.room(organization(200), Work::Events, now).is_some());
        state.running.clear();
        for number in 1..100 {
            state.note_quick(organization(number), now);
        }
        assert_eq!(fill(&mut state, 1..100, Work::Task, now).len(), 14);
        assert_eq!(fill(&mut state, 1..100, Work::Events, now).len(), 14);
        // Of tasks that are slow, too, the oldest gives way.
        let later = now + PATIENCE;
        assert!(state.room(organization(300), Work::Task, now).is_none());
        assert!(matches!(
            state.room(organization(300), Work::Task, later),
            Some(Room::InsteadOf(_))
        ));
    }

    #[test]
    fn only_calls_that_last_are_slow_and_only_as_many_as_needed_are_preempted() {
        let (scheduler, start) = (Scheduler::new(4), Instant::now());
        let now = start + TICK;
        let mut state = scheduler.state();
        for number in 1..100 {
            state.note_quick(organization(number), now);
        }
        let all = fill(&mut state, 1..100, Work::Events, now);
        assert_eq!(all.len(), 28);
        let later = now + PATIENCE;
        let almost = start + PATIENCE;
        // Whoever is at its next event is not slow, however long its turn is.
        for number in &all[..19] {
            state.end_call(*number, almost);
            state.begin_call(*number, almost);
        }
        assert!(!state.has_any_room(later), "nine are slow, and a third may be");
        state.begin_call(all[27], now);
        state.end_call(all[0], almost);
        state.begin_call(all[0], start);
        let Some(Room::InsteadOf(oldest)) = state.room(organization(90), Work::Events, later) else {
            panic!("the oldest gives way");
        };
        assert_eq!(oldest, all[0]);
        let token = state.running[&oldest].preempted.clone();
        let whose = state.running[&oldest].organization;
        state.preempt(oldest, later);
        assert!(token.is_cancelled());
        assert_eq!(state.standing(whose, later), Standing::Slow);
        assert!(
            state.room(whose, Work::Events, later).is_none(),
            "slow ones preempt nobody"
        );
    }

    #[test]
    fn who_was_slow_goes_behind_and_for_longer_each_time() {
        let (scheduler, mut now) = (Scheduler::new(4), Instant::now());
        let mut state = scheduler.state();
        let one = organization(1);
        for times in 0..8 {
            state.note_slow(one, PATIENCE, now);
            state.note_slow(one, PATIENCE, now);
            state.note_quick(one, now);
            let lasts = SLOW_FOR * 2_u32.pow(times.min(MOST_DOUBLINGS));
            assert_eq!(
                state.standing(one, now + lasts.saturating_sub(TICK)),
                Standing::Slow,
                "{times}"
            );
            now += lasts;
            assert_eq!(state.standing(one, now), Standing::New, "{times}");
            state.note_quick(one, now);
            assert_eq!(state.standing(one, now), Standing::Quick, "{times}");
        }
        now += QUICK_FOR;
        state.note_slow(one, PATIENCE, now);
        assert_eq!(state.standing(one, now + SLOW_FOR), Standing::New, "forgotten");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (scheduler, now) = (Scheduler::new(4), Instant::now());
        let mut state = scheduler.state();
        state.note_slow(organization(0), PATIENCE, now);
        for number in 1..3 * MOST_REMEMBERED as u128 {
            state.note_quick(organization(number), now);
        }
        assert!(state.history.len() <= MOST_REMEMBERED);
        assert_eq!(state.standing(organization(0), now), Standing::Slow);
    }

    /// A process with four slots in a time of its own.
    struct Simulation {
        scheduler: Scheduler,
        now: Instant,
        /// When each call ends that nobody preempts.
        ends: HashMap<u64, Instant>,
        /// Where the round of organizations is, in each pass.
        served: [u128; Pass::COUNT],
    }

    impl Simulation {
        fn new() -> Self {
            Self {
                scheduler: Scheduler::new(4),
                now: Instant::now(),
                ends: HashMap::new(),
                served: [0; Pass::COUNT],
            }
        }

        /// In each tick one of those who wait may begin, as the slots look for them.
        fn tick(&mut self, tick: Duration, waiting: &[u128], takes: impl Fn(u128) -> Duration) -> Option<u128> {
            self.now += tick;
            let now = self.now;
            let passes = self.scheduler.passes(now);
            let mut state = self.scheduler.state();
            let over: Vec<u64> = self
                .ends
                .iter()
                .filter(|(_, end)| **end <= now)
                .map(|(id, _)| *id)
                .collect();
            for number in over {
                self.ends.remove(&number);
                state.end(number, now);
            }
            let mut round: Vec<u128> = waiting.to_vec();
            for pass in passes {
                let served = self.served[pass.number()];
                round.sort_unstable_by_key(|id| (*id <= served, *id));
                for id in &round {
                    let whose = organization(*id);
                    if !pass.includes(state.standing(whose, now)) {
                        continue;
                    }
                    let Some(room) = state.room(whose, Work::Events, now) else {
                        continue;
                    };
                    if let Room::InsteadOf(number) = room {
                        state.preempt(number, now);
                        self.ends.remove(&number);
                    }
                    let (number, _) = state.start(whose, Work::Events, now);
                    state.begin_call(number, now);
                    self.ends.insert(number, now + takes(*id));
                    self.served[pass.number()] = *id;
                    return Some(*id);
                }
            }
            None
        }

        /// How long somebody waits who comes now, beside all these.
        fn wait_of(&mut self, id: u128, others: &[u128], takes: impl Fn(u128) -> Duration + Copy) -> Duration {
            let begun = self.now;
            let waiting = [others, &[id]].concat();
            while self.tick(TICK, &waiting, takes) != Some(id) {
                assert!(self.now - begun < Duration::from_mins(5), "{id} is never served");
            }
            self.now - begun
        }

        fn pass_time(&mut self, time: Duration, waiting: &[u128], takes: impl Fn(u128) -> Duration + Copy) {
            let end = self.now + time;
            while self.now < end {
                self.tick(4 * TICK, waiting, takes);
            }
        }
    }

    const QUICK: Duration = Duration::from_millis(50);
    const SLOW: Duration = Duration::from_secs(29);
    const VICTIM: u128 = 500;

    fn attacker(id: u128) -> Duration {
        if id >= VICTIM { QUICK } else { SLOW }
    }

    /// 200 organizations that were quick all become slow at the same moment, and go on.
    #[test]
    fn many_organizations_that_become_slow_keep_nobody_waiting_for_long() {
        let mut simulation = Simulation::new();
        let attackers: Vec<u128> = (1..=200).collect();
        for id in attackers.iter().chain([&VICTIM]) {
            simulation.wait_of(*id, &[], |_| QUICK);
        }
        simulation.pass_time(Duration::from_secs(1), &[], attacker);
        // Whoever comes last in the round waits for a moment of each of them, once.
        let first = simulation.wait_of(VICTIM, &attackers, attacker);
        assert!(first < Duration::from_secs(12), "{first:?}");
        // Someone of whom nothing is known does not wait for those who are.
        let new = simulation.wait_of(VICTIM + 1, &attackers, attacker);
        assert!(new < Duration::from_secs(2), "{new:?}");
        for minute in 0..7 {
            for id in [VICTIM, VICTIM + 2 + minute] {
                let wait = simulation.wait_of(id, &attackers, attacker);
                assert!(wait < Duration::from_secs(12), "{id} waits {wait:?} in minute {minute}");
            }
            simulation.pass_time(Duration::from_mins(1), &attackers, attacker);
        }
    }

    /// 200 new organizations that are slow from the start.
    #[test]
    fn many_new_slow_organizations_keep_nobody_waiting_for_long() {
        let mut simulation = Simulation::new();
        let attackers: Vec<u128> = (1..=200).collect();
        simulation.wait_of(VICTIM, &[], attacker);
        simulation.pass_time(Duration::from_secs(5), &attackers, attacker);
        let known = simulation.wait_of(VICTIM, &attackers, attacker);
        assert!(known < Duration::from_secs(2), "{known:?}");
        let new = simulation.wait_of(VICTIM + 1, &attackers, attacker);
        assert!(new < Duration::from_secs(12), "{new:?}");
        simulation.pass_time(Duration::from_secs(30), &attackers, attacker);
        for id in [VICTIM, VICTIM + 2] {
            let wait = simulation.wait_of(id, &attackers, attacker);
            assert!(wait < Duration::from_secs(2), "{wait:?}");
        }
    }

    /// Those who are slow for good reason are served as well, and to their end while nobody else needs their permits.
    #[test]
    fn slow_organizations_have_their_part() {
        let mut simulation = Simulation::new();
        for id in 1..=20 {
            simulation.wait_of(id, &[], attacker);
        }
        for id in VICTIM..VICTIM + 20 {
            simulation.wait_of(id, &[], attacker);
            simulation.pass_time(PATIENCE, &[], attacker);
        }
        assert_eq!(simulation.scheduler.state().running.len(), 20, "all of them go on");
        simulation.pass_time(SLOW, &[], attacker);
        let again: Vec<u128> = (1..=20).collect();
        simulation.pass_time(Duration::from_secs(5), &again, attacker);
        let busy = simulation.scheduler.state().running.len();
        assert_eq!(
            busy, 10,
            "a third of the permits is enough for those who were very slow"
        );
    }

    /// Whoever takes a little more than a second does not wait for those who take half a minute.
    #[test]
    fn a_little_slow_is_not_behind_very_slow() {
        for (count, takes) in [(8, SLOW), (40, SLOW), (40, Duration::from_secs(4))] {
            let takes = |id: u128| {
                if id >= VICTIM {
                    Duration::from_millis(1300)
                } else {
                    takes
                }
            };
            let mut simulation = Simulation::new();
            let attackers: Vec<u128> = (1..=count).collect();
            simulation.wait_of(VICTIM, &[], takes);
            simulation.pass_time(Duration::from_secs(2), &[], takes);
            assert_eq!(
                simulation
                    .scheduler
                    .state()
                    .standing(organization(VICTIM), simulation.now),
                Standing::Slow
            );
            for minute in 0..6 {
                let wait = simulation.wait_of(VICTIM, &attackers, takes);
                assert!(wait < Duration::from_secs(10), "{count}: {wait:?} in minute {minute}");
                simulation.pass_time(Duration::from_secs(53), &attackers, takes);
            }
        }
    }

    #[test]
    fn who_is_preempted_is_no_less_slow_for_it() {
        let (scheduler, now) = (Scheduler::new(4), Instant::now());
        let mut state = scheduler.state();
        let one = organization(1);
        state.note_slow(one, SLOW, now);
        for _ in 0..10 {
            let (number, _) = state.start(one, Work::Events, now);
            state.begin_call(number, now);
            state.preempt(number, now + PATIENCE);
        }
        assert_eq!(state.standing(one, now + PATIENCE), Standing::Slowest);
        // One call that took long is made good by others.
        let other = organization(2);
        state.note_slow(other, SLOW, now);
        for _ in 0..6 {
            state.note_slow(other, PATIENCE, now);
        }
        assert_eq!(state.standing(other, now), Standing::Slow);
    }
}
