//! Whose app is read next: one of a person and one of an organization at a time, and whoever has used the readers least
//! lately comes first.
//!
//! Those who have used nothing, or hardly anything, come in the order in which they came, whether they are known or not.
//! Within an organization it is always the person who has used less: colleagues do not wait for all that one of them wants.
//! A reading that takes long no longer stands in the way, not even of colleagues: others begin beside it, and if there are
//! too many of these, the oldest is ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};
use uuid::Uuid;

/// So many of one person may wait, in all of their organizations; those beyond are refused immediately.
const MAX_WAITING: usize = 8;
/// So many wait in all. If there are more, one of the person who has most waiting is refused: to look for the next takes a moment for each.
const MAX_WAITING_OF_ALL: usize = 256;
/// So many of one organization are in progress at most: one, and beside it one of a colleague that takes long.
const MAX_OF_ORGANIZATION: usize = 2;
/// How long a reading is waited for before others begin beside it.
const LONG_AFTER: Duration = Duration::from_millis(500);
/// How long it goes on in any case before one of the same organization ends it. Nearly all are over by then.
const PREEMPT_AFTER: Duration = Duration::from_secs(2);
/// How often those who wait look whether that is so.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Half of what somebody has used is forgotten after this time.
const HALF_LIFE: Duration = Duration::from_mins(1);
/// Use is compared in steps of this, so that a quick reading more or less decides nothing.
const STEP: Duration = Duration::from_secs(1);
/// More than these are not remembered.
const MAX_REMEMBERED: usize = 10_000;

/// The places of readers. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct FairQueue(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// How many readings are waited for at once. As many may go on beside them.
    places: usize,
    /// The number of the next turn.
    next: u64,
    in_progress: HashMap<u64, InProgress>,
    waiting: Vec<Waiting>,
    used: HashMap<Account, Use>,
    /// When one of those who wait last looked who is next.
    looked_at: Instant,
}

/// Who wants to have an app read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) organization: Uuid,
    pub(crate) person: i64,
}

/// Whom a use is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Account {
    Person(i64),
    Organization(Uuid),
}

impl Reader {
    fn accounts(self) -> [Account; 2] {
        [Account::Person(self.person), Account::Organization(self.organization)]
    }
}

#[derive(Debug)]
struct InProgress {
    whose: Reader,
    begun: Instant,
    /// Dropped, the reading is ended.
    _end: oneshot::Sender<()>,
}

impl InProgress {
    fn is_long(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= LONG_AFTER
    }

    fn may_be_ended_by_colleagues(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= PREEMPT_AFTER
    }
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    whose: Reader,
    /// Sends what tells when the turn is taken away.
    call: oneshot::Sender<oneshot::Receiver<()>>,
}

/// How long readers were busy for somebody, up to a moment.
#[derive(Debug, Clone, Copy)]
struct Use {
    time: Duration,
    until: Instant,
}

impl Use {
    fn at(self, now: Instant) -> Duration {
        let halvings = now.saturating_duration_since(self.until).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.time.mul_f64(0.5_f64.powf(halvings))
    }
}

impl FairQueue {
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            places: places.max(1),
            next: 1,
            in_progress: HashMap::new(),
            waiting: Vec::new(),
            used: HashMap::new(),
            looked_at: Instant::now(),
        })))
    }

    /// Waits for a turn, for so long. None: there was none.
    pub(crate) async fn take(&self, whose: Reader, longest: Duration) -> Option<Slot> {
        let (call, called) = oneshot::channel();
        let mut turn = {
            let mut state = self.state();
            let is_own = |one: &&Waiting| one.whose.person == whose.person;
            if state.waiting.iter().filter(is_own).count() >= MAX_WAITING {
                return None;
            }
            if !state.has_room_to_wait(whose.person) {
                return None;
            }
            let number = state.next;
            state.next += 1;
            state.waiting.push(Waiting { number, whose, call });
            state.call_next(Instant::now());
            Slot {
                queue: self.clone(),
                number,
                ended: None,
            }
        };
        turn.ended = timeout(longest, self.until_called(called)).await.ok()?;
        turn.ended.is_some().then_some(turn)
    }

    async fn until_called(
        &self,
        mut called: oneshot::Receiver<oneshot::Receiver<()>>,
    ) -> Option<oneshot::Receiver<()>> {
        let mut looks = looks();
        loop {
            tokio::select! {
                ended = &mut called => return ended.ok(),
                _ = looks.tick() => self.state().look(Instant::now()),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever is late looks once.
fn looks() -> Interval {
    let mut looks = interval_at(tokio::time::Instant::now() + LOOK_EVERY, LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

impl State {
    /// Whether one more of a person can wait, for which one of somebody with more may have to go.
    fn has_room_to_wait(&mut self, person: i64) -> bool {
        if self.waiting.len() < MAX_WAITING_OF_ALL {
            return true;
        }
        let mut counts: HashMap<i64, usize> = HashMap::new();
        for one in &self.waiting {
            *counts.entry(one.whose.person).or_default() += 1;
        }
        let own = counts.get(&person).copied().unwrap_or_default();
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let Some((loser, _)) = most.filter(|(_, count)| *count > own + 1) else {
            return false;
        };
        let theirs = self.waiting.iter().filter(|one| one.whose.person == loser);
        let last = theirs.map(|one| one.number).max();
        self.waiting.retain(|one| Some(one.number) != last);
        true
    }

    /// One look serves all who wait.
    fn look(&mut self, now: Instant) {
        if now.saturating_duration_since(self.looked_at) >= LOOK_EVERY / 2 {
            self.looked_at = now;
            self.call_next(now);
        }
    }

    /// Calls those who wait, while there are places.
    fn call_next(&mut self, now: Instant) {
        while let Some(at) = self.first(now) {
            let organization = self.waiting[at].whose.organization;
            if !self.make_room(organization, now) {
                return;
            }
            let Waiting { number, whose, call } = self.waiting.swap_remove(at);
            let (end, ended) = oneshot::channel();
            // Whoever has gone no longer needs it.
            if call.send(ended).is_ok() {
                let begun = now;
                self.in_progress.insert(
                    number,
                    InProgress {
                        whose,
                        begun,
                        _end: end,
                    },
                );
            }
        }
    }

    /// False: all places are taken by readings that have just begun.
    fn make_room(&mut self, organization: Uuid, now: Instant) -> bool {
        let long = self.in_progress.values().filter(|one| one.is_long(now)).count();
        if self.in_progress.len() - long >= self.places {
            return false;
        }
        let is_own = |one: &InProgress| one.whose.organization == organization;
        let is_full = self.in_progress.values().filter(|one| is_own(one)).count() >= MAX_OF_ORGANIZATION;
        if !is_full && self.in_progress.len() < 2 * self.places {
            return true;
        }
        let may_end = |one: &InProgress| one.is_long(now) && (is_own(one) || !is_full);
        let long = self.in_progress.iter().filter(|(_, one)| may_end(one));
        let Some(oldest) = long.min_by_key(|(_, one)| one.begun).map(|(number, _)| *number) else {
            return false;
        };
        self.stop(oldest, now);
        true
    }

    /// Where the one waits whose turn it is.
    fn first(&self, now: Instant) -> Option<usize> {
        let (_, first) = self.able(now).min_by_key(|(_, one)| self.rank(one, now))?;
        let organization = first.whose.organization;
        // Here every moment counts, or whoever has many quick ones waiting would keep colleagues behind all of them.
        let among_colleagues = |one: &Waiting| (self.used(Account::Person(one.whose.person), now), one.number);
        let colleagues = self.able(now).filter(|(_, one)| one.whose.organization == organization);
        colleagues
            .min_by_key(|(_, one)| among_colleagues(one))
            .map(|(at, _)| at)
    }

    /// Those who need not wait for a reading of their own, or one of a colleague that has just begun.
    fn able(&self, now: Instant) -> impl Iterator<Item = (usize, &Waiting)> {
        let waiting = self.waiting.iter().enumerate();
        waiting.filter(move |(_, one)| {
            let is_next = !self.in_progress.values().any(|other| is_before(other, one.whose, now));
            is_next && self.has_place(one.whose.organization, now)
        })
    }

    /// Whether the organization has one, or gets one because of its own another one has gone on for long.
    fn has_place(&self, organization: Uuid, now: Instant) -> bool {
        let own = || {
            self.in_progress
                .values()
                .filter(move |one| one.whose.organization == organization)
        };
        own().count() < MAX_OF_ORGANIZATION || own().any(|one| one.may_be_ended_by_colleagues(now))
    }

    /// What the person has used counts first: nobody comes behind those who use much because a colleague does.
    fn rank(&self, one: &Waiting, now: Instant) -> ([u128; 2], u64) {
        let steps = |account| self.used(account, now).as_millis() / STEP.as_millis();
        (one.whose.accounts().map(steps), one.number)
    }

    fn used(&self, account: Account, now: Instant) -> Duration {
        self.used.get(&account).map_or(Duration::ZERO, |used| used.at(now))
    }

    /// Ends what is in progress, and counts what it has used.
    fn stop(&mut self, number: u64, now: Instant) {
        let Some(InProgress { whose, begun, .. }) = self.in_progress.remove(&number) else {
            return;
        };
        if self.used.len() >= MAX_REMEMBERED {
            self.used.retain(|_, used| used.at(now) >= STEP);
        }
        let took = now.saturating_duration_since(begun);
        // Whoever takes long counts for more than its time: it is what others wait for.
        let counted = took.mul_f64(took.as_secs_f64() / LONG_AFTER.as_secs_f64());
        for account in whose.accounts() {
            let time = self.used(account, now) + counted;
            self.used.insert(account, Use { time, until: now });
        }
    }

    fn end(&mut self, number: u64, now: Instant) {
        self.waiting.retain(|one| one.number != number);
        self.stop(number, now);
        self.call_next(now);
    }
}

/// Whether somebody waits for this one to end, or to take long.
fn is_before(one: &InProgress, whose: Reader, now: Instant) -> bool {
    let is_colleague = one.whose.organization == whose.organization;
    one.whose.person == whose.person || (is_colleague && !one.is_long(now))
}

/// A turn, or a wait for one. Dropped, it is over.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: FairQueue,
    number: u64,
    /// None: it has not come yet.
    ended: Option<oneshot::Receiver<()>>,
}

impl Slot {
    /// Waits until the turn is taken away, as it took long and others wait.
    pub(crate) async fn is_ended(&mut self) {
        match &mut self.ended {
            Some(ended) => drop(ended.await),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue.state().end(self.number, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_secs(20);

    /// Somebody who is alone in their organization.
    fn of(number: i64) -> Reader {
        member(number, number)
    }

    fn member(organization: i64, person: i64) -> Reader {
        let organization = Uuid::from_u128(organization.unsigned_abs().into());
        Reader { organization, person }
    }

    fn queue() -> FairQueue {
        FairQueue::new(2)
    }

    #[tokio::test]
    async fn an_organization_has_one_turn_at_a_time() {
        let queue = queue();
        let first = queue.take(of(1), SOON).await;
        assert!(first.is_some());
        assert!(queue.take(member(1, 2), SOON).await.is_none());
        assert!(queue.take(of(3), SOON).await.is_some());
        drop(first);
        assert!(queue.take(of(1), SOON).await.is_some());
        let state = queue.state();
        assert!(
            state.in_progress.is_empty() && state.waiting.is_empty(),
            "nothing is left behind"
        );
    }

    #[tokio::test]
    async fn a_person_has_one_turn_at_a_time_in_whichever_organization() {
        let queue = queue();
        let first = queue.take(member(1, 1), SOON).await;
        assert!(first.is_some());
        assert!(queue.take(member(2, 1), SOON).await.is_none());
        assert!(queue.take(member(2, 2), SOON).await.is_some());
    }

    fn wait(queue: &FairQueue, whose: Reader) -> JoinHandle<Option<Slot>> {
        let queue = queue.clone();
        tokio::spawn(async move { queue.take(whose, LATE).await })
    }

    async fn until_waiting(queue: &FairQueue, count: usize) {
        while queue.state().waiting.len() < count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn colleagues_begin_beside_what_takes_long() {
        let queue = queue();
        let mut endless = queue.take(member(1, 1), SOON).await.expect("a turn");
        let greedy: Vec<_> = (0..MAX_WAITING).map(|_| wait(&queue, member(1, 1))).collect();
        until_waiting(&queue, MAX_WAITING).await;
        assert!(
            queue.take(member(2, 1), LATE).await.is_none(),
            "so many of one person wait"
        );
        assert!(queue.take(member(1, 2), SOON).await.is_none(), "it has just begun");
        let colleague = queue.take(member(1, 2), LATE).await;
        assert!(colleague.is_some());
        let is_ended = timeout(Duration::ZERO, endless.is_ended()).await.is_ok();
        assert!(!is_ended, "there was room beside it");
        // Of one organization no more go on, but each for a while.
        assert!(queue.take(member(1, 3), SOON).await.is_none(), "both have hardly begun");
        let third = queue.take(member(1, 3), LATE).await;
        assert!(third.is_some());
        timeout(LATE, endless.is_ended()).await.expect("the oldest is ended");
        for one in greedy {
            one.abort();
        }
    }

    #[tokio::test]
    async fn colleagues_do_not_wait_for_all_that_one_of_them_wants() {
        let queue = queue();
        let first = queue.take(member(1, 1), SOON).await;
        let greedy: Vec<_> = (0..MAX_WAITING).map(|_| wait(&queue, member(1, 1))).collect();
        until_waiting(&queue, MAX_WAITING).await;
        let colleague = wait(&queue, member(1, 2));
        until_waiting(&queue, MAX_WAITING + 1).await;
        // So that something was used.
        sleep(SOON).await;
        drop(first);
        let in_progress: Vec<Reader> = queue.state().in_progress.values().map(|one| one.whose).collect();
        assert_eq!(in_progress, [member(1, 2)]);
        assert!(colleague.await.expect("no panic").is_some());
        for one in greedy {
            assert!(one.await.expect("no panic").is_some());
        }
    }

    #[tokio::test]
    async fn whoever_has_many_waiting_makes_room_when_too_many_wait() {
        let queue = queue();
        let held = [queue.take(of(1), SOON).await, queue.take(of(2), SOON).await];
        let many = i64::try_from(MAX_WAITING_OF_ALL / MAX_WAITING).expect("a few");
        let greedy: Vec<_> = (0..many)
            .flat_map(|person| (0..MAX_WAITING).map(move |_| 100 + person))
            .map(|person| wait(&queue, of(person)))
            .collect();
        until_waiting(&queue, MAX_WAITING_OF_ALL).await;
        let refused = async |count: usize| {
            while greedy.iter().filter(|one| one.is_finished()).count() < count {
                tokio::task::yield_now().await;
            }
        };
        let other = wait(&queue, of(3));
        refused(1).await;
        assert!(queue.take(of(100), LATE).await.is_none(), "nobody has more");
        assert_eq!(queue.state().waiting.len(), MAX_WAITING_OF_ALL);
        drop(held);
        assert!(other.await.expect("no panic").is_some());
        for one in greedy {
            one.abort();
        }
    }

    /// Or each of a thousand would look at all others ten times a second.
    #[test]
    fn one_look_serves_all_who_wait() {
        let (queue, start) = (queue(), Instant::now());
        let mut state = queue.state();
        state.looked_at = start;
        state.look(start + LOOK_EVERY / 4);
        assert_eq!(state.looked_at, start);
        state.look(start + LOOK_EVERY);
        assert_eq!(state.looked_at, start + LOOK_EVERY);
    }

    #[tokio::test]
    async fn organizations_take_turns_and_not_too_many_of_one_wait() {
        let queue = queue();
        let held = [queue.take(of(1), SOON).await, queue.take(of(2), SOON).await];
        let greedy: Vec<_> = (0..MAX_WAITING).map(|_| wait(&queue, of(1))).collect();
        until_waiting(&queue, MAX_WAITING).await;
        assert!(queue.take(of(1), LATE).await.is_none(), "at once");
        let other = wait(&queue, of(3));
        until_waiting(&queue, MAX_WAITING + 1).await;
        drop(held);
        // One of each: whoever comes last does not wait for all who came before.
        assert!(other.await.expect("no panic").is_some());
        for one in greedy {
            assert!(one.await.expect("no panic").is_some());
        }
    }

    /// When each is read that waits at the same moment, if each takes so long: in seconds.
    fn simulate(state: &mut State, start: Instant, waits: &[(i64, f64)]) -> HashMap<i64, f64> {
        let mut calls = HashMap::new();
        for (whose, _) in waits {
            let (call, called) = oneshot::channel();
            let number = state.next;
            state.next += 1;
            let whose = of(*whose);
            state.waiting.push(Waiting { number, whose, call });
            calls.insert(number, called);
        }
        let mut served = HashMap::new();
        for tick in 0..6000_u32 {
            let after = Duration::from_millis(10) * tick;
            let now = start + after;
            let takes = |whose: Reader| {
                waits
                    .iter()
                    .find(|(id, _)| of(*id) == whose)
                    .map_or(0.0, |(_, takes)| *takes)
            };
            let is_done = |one: &InProgress| (now - one.begun).as_secs_f64() >= takes(one.whose);
            let done: Vec<u64> = state
                .in_progress
                .iter()
                .filter(|(_, one)| is_done(one))
                .map(|(id, _)| *id)
                .collect();
            for number in done {
                state.stop(number, now);
            }
            state.call_next(now);
            for one in state.in_progress.values() {
                served.entry(one.whose.person).or_insert(after.as_secs_f64());
            }
        }
        served
    }

    #[test]
    fn many_slow_readings_of_new_organizations_keep_nobody_waiting_for_long() {
        let (queue, start) = (queue(), Instant::now());
        let mut state = queue.state();
        // The one that is known and quick has been read often.
        simulate(&mut state, start, &[(1, 0.2)]);
        let slow: Vec<(i64, f64)> = (100..116).map(|whose| (whose, 2.2)).collect();
        let last = [&slow[..], &[(1, 0.2), (2, 0.2)]].concat();
        let later = start + Duration::from_mins(5);
        let served = simulate(&mut state, later, &last);
        assert!(served[&1] < 5.0 && served[&2] < 5.0, "{served:?}");
        // Whoever has used much comes behind all others, however many of these organizations there are.
        let again = [&slow[..], &[(1, 0.2), (3, 0.2)]].concat();
        let served = simulate(&mut state, later + Duration::from_secs(20), &again);
        assert!(served[&1] < 0.1 && served[&3] < 0.1, "{served:?}");
    }

    #[tokio::test]
    async fn a_reading_that_takes_long_is_ended_only_if_there_is_no_room() {
        let queue = queue();
        let mut held = Vec::new();
        for number in 1..=4 {
            held.push(queue.take(of(number), LATE).await.expect("a turn"));
        }
        let is_ended = timeout(Duration::ZERO, held[0].is_ended()).await.is_ok();
        assert!(!is_ended, "there was room beside it");
        let fifth = queue.take(of(5), LATE).await;
        assert!(fifth.is_some());
        timeout(LATE, held[0].is_ended()).await.expect("the oldest is ended");
        drop((held, fifth));
        assert!(queue.state().in_progress.is_empty());
    }
}
