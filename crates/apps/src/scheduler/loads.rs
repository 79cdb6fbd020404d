//! How much each person has in progress, now and on average: a fair share is one of time, however short the turns are.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use service::Person;

/// What somebody had in progress counts so long, less and less. Longer than a round takes: otherwise whoever has just had a turn seems to have much.
const AVERAGED_OVER: Duration = Duration::from_secs(20);
/// Less on average is nothing.
const NEGLIGIBLE: f64 = 0.000_001;
const TYPICAL_EVERY: Duration = Duration::from_millis(50);

/// The loads of all persons.
#[derive(Debug, Default)]
pub(super) struct Loads {
    of: HashMap<Person, Load>,
    typical: f64,
    typical_on_average: f64,
    typical_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Load {
    in_progress: u32,
    average: f64,
    since: Instant,
}

impl Load {
    fn average(&self, now: Instant) -> f64 {
        let lasts = now.saturating_duration_since(self.since);
        let in_progress = f64::from(self.in_progress);
        let remains = (-lasts.div_duration_f64(AVERAGED_OVER)).exp();
        in_progress + (self.average - in_progress) * remains
    }
}

impl Loads {
    pub(super) fn begin(&mut self, person: Person, now: Instant) {
        self.change(person, now, |count| count + 1);
    }

    pub(super) fn end(&mut self, person: Person, now: Instant) {
        self.change(person, now, |count| count.saturating_sub(1));
    }

    fn change(&mut self, person: Person, now: Instant, change: impl Fn(u32) -> u32) {
        let load = self.of.entry(person).or_insert(Load {
            in_progress: 0,
            average: 0.0,
            since: now,
        });
        *load = Load {
            in_progress: change(load.in_progress),
            average: load.average(now),
            since: now,
        };
        self.tidy(now);
    }

    pub(super) fn in_progress(&self, person: Person) -> u32 {
        self.of.get(&person).map_or(0, |load| load.in_progress)
    }

    /// How many persons had something in progress lately.
    pub(super) fn count(&self) -> usize {
        self.of.len()
    }

    /// Half of what is typical at most, both now and on average: whoever begins much at once has it, although not on average yet.
    pub(super) fn is_little(&self, person: Person, now: Instant) -> bool {
        let average = self.of.get(&person).map_or(0.0, |load| load.average(now));
        2.0 * average <= self.typical_on_average && 2.0 * f64::from(self.in_progress(person)) <= self.typical
    }

    /// Whether somebody who goes on like this all the time has half of what is typical at most.
    pub(super) fn stays_little(&self, person: Person) -> bool {
        2.0 * f64::from(self.in_progress(person)) <= self.typical_on_average
    }

    fn tidy(&mut self, now: Instant) {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < TYPICAL_EVERY;
        if self.typical_at.is_some_and(is_recent) {
            return;
        }
        self.typical_at = Some(now);
        self.of
            .retain(|_, load| load.in_progress > 0 || load.average(now) > NEGLIGIBLE);
        self.typical = typical(self.of.values().map(|load| load.in_progress.into()));
        self.typical_on_average = typical(self.of.values().map(|load| load.average(now)));
    }
}

/// The load that most of what is in progress is part of: that of persons who have much counts more, and those who have next to nothing do not make it
/// less, however many they are.
fn typical(loads: impl Iterator<Item = f64>) -> f64 {
    let (sum, squares) = loads.fold((0.0, 0.0), |(sum, squares), load| (sum + load, squares + load * load));
    if sum > 0.0 { squares / sum } else { 0.0 }
}
