//! Whose app is read next: one of an organization at a time, and organizations take turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;
use uuid::Uuid;

/// So many of one organization may wait; those beyond are refused at once.
const MOST_WAITING: usize = 8;
/// How long an organization goes behind the others after it made a reader wait.
const SLOW_FOR: Duration = Duration::from_mins(1);
/// More than these are not remembered.
const MOST_REMEMBERED: usize = 10_000;

/// The places of readers. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    places: usize,
    /// Whoever takes longer than this is slow.
    patience: Duration,
    /// The number of the next turn.
    next: u64,
    under_way: HashMap<u64, Uuid>,
    waiting: Vec<Waiting>,
    /// The last turn of each, and until when it counts as slow.
    served: HashMap<Uuid, (u64, Option<Instant>)>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    whose: Uuid,
    call: oneshot::Sender<()>,
}

impl Turns {
    pub(crate) fn new(places: usize, patience: Duration) -> Self {
        Self(Arc::new(Mutex::new(State {
            places: places.max(1),
            patience,
            next: 1,
            under_way: HashMap::new(),
            waiting: Vec::new(),
            served: HashMap::new(),
        })))
    }

    /// Waits for a turn, for so long. None: there was none.
    pub(crate) async fn take(&self, whose: Uuid, longest: Duration) -> Option<Turn> {
        let (call, called) = oneshot::channel();
        let mut turn = {
            let mut state = self.state();
            if state.waiting.iter().filter(|one| one.whose == whose).count() >= MOST_WAITING {
                return None;
            }
            let number = state.next;
            state.next += 1;
            state.waiting.push(Waiting { number, whose, call });
            state.call_next(Instant::now());
            Turn {
                turns: self.clone(),
                number,
                begun: None,
            }
        };
        timeout(longest, called).await.ok()?.ok()?;
        turn.begun = Some(Instant::now());
        Some(turn)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Calls those who wait, while there are places.
    fn call_next(&mut self, now: Instant) {
        while self.under_way.len() < self.places {
            let Some(at) = self.first(now) else { return };
            let Waiting { number, whose, call } = self.waiting.swap_remove(at);
            let until = self.served.get(&whose).and_then(|(_, until)| *until);
            self.served.insert(whose, (number, until));
            // Whoever has gone no longer needs it.
            if call.send(()).is_ok() {
                self.under_way.insert(number, whose);
            }
        }
    }

    /// Where the one waits whose turn it is: those who are not slow first, then whoever has waited for a turn longest.
    fn first(&self, now: Instant) -> Option<usize> {
        let is_slow = |whose: &Uuid| {
            let until = self.served.get(whose).and_then(|(_, until)| *until);
            until.is_some_and(|until| now < until)
        };
        let slow_under_way = self.under_way.values().filter(|whose| is_slow(whose)).count();
        let may_begin = |whose: &Uuid| {
            let is_at_it = self.under_way.values().any(|other| other == whose);
            !is_at_it && (!is_slow(whose) || slow_under_way < (self.places - 1).max(1))
        };
        let rank = |one: &Waiting| {
            let last = self.served.get(&one.whose).map_or(0, |(last, _)| *last);
            (is_slow(&one.whose), last, one.number)
        };
        let candidates = self.waiting.iter().enumerate().filter(|(_, one)| may_begin(&one.whose));
        candidates.min_by_key(|(_, one)| rank(one)).map(|(at, _)| at)
    }

    fn end(&mut self, number: u64, took: Option<Duration>, now: Instant) {
        self.waiting.retain(|one| one.number != number);
        let whose = self.under_way.remove(&number);
        if let Some(whose) = whose
            && took.is_some_and(|took| took > self.patience)
            && let Some((_, until)) = self.served.get_mut(&whose)
        {
            *until = Some(now + SLOW_FOR);
        }
        if self.served.len() > MOST_REMEMBERED {
            self.served
                .retain(|_, (_, until)| until.is_some_and(|until| now < until));
        }
        self.call_next(now);
    }
}

/// A turn, or a wait for one. Dropped, it is over.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Turns,
    number: u64,
    /// None: it has not come yet.
    begun: Option<Instant>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let took = self.begun.map(|begun| begun.elapsed());
        self.turns.state().end(self.number, took, Instant::now());
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
        Turns::new(2, Duration::from_secs(2))
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

    #[tokio::test]
    async fn those_who_were_slow_never_have_all_places() {
        let turns = Turns::new(2, Duration::ZERO);
        for number in 1..4 {
            drop(turns.take(of(number), SOON).await.expect("a turn"));
        }
        let _one = turns.take(of(1), SOON).await.expect("a turn");
        assert!(turns.take(of(2), SOON).await.is_none(), "that place is for others");
        assert!(turns.take(of(9), SOON).await.is_some());
    }
}
