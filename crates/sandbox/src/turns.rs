//! Whose app is read next: one of an organization at a time, and whoever has used the readers least lately comes first.
//!
//! Those who have used nothing, or hardly anything, come in the order in which they came, whether they are known or not.
//! A reading that takes long no longer stands in the way: others begin beside it, and if there are too many of these,
//! the oldest is ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{interval, timeout};
use uuid::Uuid;

/// So many of one organization may wait; those beyond are refused at once.
const MOST_WAITING: usize = 8;
/// How long a reading is waited for before others begin beside it.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often those who wait look whether that is so.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Half of what somebody has used is forgotten after this time.
const HALF_LIFE: Duration = Duration::from_mins(1);
/// Use is compared in steps of this, so that a quick reading more or less decides nothing.
const STEP: Duration = Duration::from_secs(1);
/// More than these are not remembered.
const MOST_REMEMBERED: usize = 10_000;

/// The places of readers. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// How many readings are waited for at once. As many may go on beside them.
    places: usize,
    /// The number of the next turn.
    next: u64,
    under_way: HashMap<u64, UnderWay>,
    waiting: Vec<Waiting>,
    used: HashMap<Uuid, Use>,
}

#[derive(Debug)]
struct UnderWay {
    whose: Uuid,
    begun: Instant,
    /// Dropped, the reading is ended.
    _end: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    whose: Uuid,
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

impl Turns {
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            places: places.max(1),
            next: 1,
            under_way: HashMap::new(),
            waiting: Vec::new(),
            used: HashMap::new(),
        })))
    }

    /// Waits for a turn, for so long. None: there was none.
    pub(crate) async fn take(&self, whose: Uuid, longest: Duration) -> Option<Slot> {
        let (call, called) = oneshot::channel();
        let mut turn = {
            let mut state = self.state();
            if state.waiting.iter().filter(|one| one.whose == whose).count() >= MOST_WAITING {
                return None;
            }
            let number = state.next;
            state.next += 1;
            state.waiting.push(Waiting { number, whose, call });
            Slot {
                turns: self.clone(),
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
        let mut looks = interval(LOOK_EVERY);
        loop {
            tokio::select! {
                ended = &mut called => return ended.ok(),
                _ = looks.tick() => self.state().call_next(Instant::now()),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Calls those who wait, while there are places.
    fn call_next(&mut self, now: Instant) {
        while let Some(at) = self.first(now) {
            if !self.make_room(now) {
                return;
            }
            let Waiting { number, whose, call } = self.waiting.swap_remove(at);
            let (end, ended) = oneshot::channel();
            // Whoever has gone no longer needs it.
            if call.send(ended).is_ok() {
                let begun = now;
                self.under_way.insert(
                    number,
                    UnderWay {
                        whose,
                        begun,
                        _end: end,
                    },
                );
            }
        }
    }

    /// False: all places are taken by readings that have just begun.
    fn make_room(&mut self, now: Instant) -> bool {
        let is_long = |one: &UnderWay| now.saturating_duration_since(one.begun) >= PATIENCE;
        let long = self.under_way.values().filter(|one| is_long(one)).count();
        if self.under_way.len() - long >= self.places {
            return false;
        }
        if self.under_way.len() < 2 * self.places {
            return true;
        }
        let long = self.under_way.iter().filter(|(_, one)| is_long(one));
        let Some(oldest) = long.min_by_key(|(_, one)| one.begun).map(|(number, _)| *number) else {
            return false;
        };
        self.stop(oldest, now);
        true
    }

    /// Where the one waits whose turn it is.
    fn first(&self, now: Instant) -> Option<usize> {
        let is_at_it = |whose: &Uuid| self.under_way.values().any(|one| one.whose == *whose);
        let rank = |one: &Waiting| (self.used_lately(one.whose, now), one.number);
        let candidates = self.waiting.iter().enumerate().filter(|(_, one)| !is_at_it(&one.whose));
        candidates.min_by_key(|(_, one)| rank(one)).map(|(at, _)| at)
    }

    /// In steps.
    fn used_lately(&self, whose: Uuid, now: Instant) -> u128 {
        let used = self.used.get(&whose).map_or(Duration::ZERO, |used| used.at(now));
        used.as_millis() / STEP.as_millis()
    }

    /// Ends what is under way, and counts what it has used.
    fn stop(&mut self, number: u64, now: Instant) {
        let Some(UnderWay { whose, begun, .. }) = self.under_way.remove(&number) else {
            return;
        };
        if self.used.len() >= MOST_REMEMBERED {
            self.used.retain(|_, used| used.at(now) >= STEP);
        }
        let took = now.saturating_duration_since(begun);
        let before = self.used.get(&whose).map_or(Duration::ZERO, |used| used.at(now));
        // Whoever takes long counts for more than its time: it is what others wait for.
        let time = before + took.mul_f64(took.as_secs_f64() / PATIENCE.as_secs_f64());
        self.used.insert(whose, Use { time, until: now });
    }

    fn end(&mut self, number: u64, now: Instant) {
        self.waiting.retain(|one| one.number != number);
        self.stop(number, now);
        self.call_next(now);
    }
}

/// A turn, or a wait for one. Dropped, it is over.
#[derive(Debug)]
pub(crate) struct Slot {
    turns: Turns,
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
        self.turns.state().end(self.number, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_secs(20);

    fn of(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    fn turns() -> Turns {
        Turns::new(2)
    }

    #[tokio::test]
    async fn an_organization_has_one_turn_at_a_time() {
        let turns = turns();
        let first = turns.take(of(1), SOON).await;
        assert!(first.is_some());
        assert!(turns.take(of(1), SOON).await.is_none());
        assert!(turns.take(of(2), SOON).await.is_some());
        drop(first);
        assert!(turns.take(of(1), SOON).await.is_some());
        let state = turns.state();
        assert!(
            state.under_way.is_empty() && state.waiting.is_empty(),
            "nothing is left behind"
        );
    }

    #[tokio::test]
    async fn organizations_take_turns_and_not_too_many_of_one_wait() {
        let turns = turns();
        let held = [turns.take(of(1), SOON).await, turns.take(of(2), SOON).await];
        let wait = |whose: Uuid| {
            let turns = turns.clone();
            tokio::spawn(async move { turns.take(whose, LATE).await })
        };
        let greedy: Vec<_> = (0..MOST_WAITING).map(|_| wait(of(1))).collect();
        while turns.state().waiting.len() < MOST_WAITING {
            tokio::task::yield_now().await;
        }
        assert!(turns.take(of(1), LATE).await.is_none(), "at once");
        let other = wait(of(3));
        while turns.state().waiting.len() <= MOST_WAITING {
            tokio::task::yield_now().await;
        }
        drop(held);
        // One of each: whoever comes last does not wait for all who came before.
        assert!(other.await.expect("no panic").is_some());
        for one in greedy {
            assert!(one.await.expect("no panic").is_some());
        }
    }

    /// When each is read that waits at the same moment, if each takes so long: in seconds.
    fn simulate(state: &mut State, start: Instant, waits: &[(u128, f64)]) -> HashMap<u128, f64> {
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
            let takes = |whose: Uuid| {
                waits
                    .iter()
                    .find(|(id, _)| of(*id) == whose)
                    .map_or(0.0, |(_, takes)| *takes)
            };
            let is_done = |one: &UnderWay| (now - one.begun).as_secs_f64() >= takes(one.whose);
            let done: Vec<u64> = state
                .under_way
                .iter()
                .filter(|(_, one)| is_done(one))
                .map(|(id, _)| *id)
                .collect();
            for number in done {
                state.stop(number, now);
            }
            state.call_next(now);
            for one in state.under_way.values() {
                served.entry(one.whose.as_u128()).or_insert(after.as_secs_f64());
            }
        }
        served
    }

    #[test]
    fn many_slow_readings_of_new_organizations_keep_nobody_waiting_for_long() {
        let (turns, start) = (turns(), Instant::now());
        let mut state = turns.state();
        // The one that is known and quick has been read often.
        simulate(&mut state, start, &[(1, 0.2)]);
        let slow: Vec<(u128, f64)> = (100..116).map(|whose| (whose, 2.2)).collect();
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
        let turns = turns();
        let mut held = Vec::new();
        for number in 1..=4 {
            held.push(turns.take(of(number), LATE).await.expect("a turn"));
        }
        let is_ended = timeout(Duration::ZERO, held[0].is_ended()).await.is_ok();
        assert!(!is_ended, "there was room beside it");
        let fifth = turns.take(of(5), LATE).await;
        assert!(fifth.is_some());
        timeout(LATE, held[0].is_ended()).await.expect("the oldest is ended");
        drop((held, fifth));
        assert!(turns.state().under_way.is_empty());
    }
}
