//! How much somebody has in progress, now and on average: shares are of time, however short the turns are.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// What somebody had in progress counts so long, less and less. Longer than a round of turns takes, and than the longest calls: otherwise whoever has
/// just had one, or several at the same moment, seems to have much.
const AVERAGED_OVER: Duration = Duration::from_mins(1);
/// Less on average is nothing, and forgotten: what was in progress for a millisecond is remembered for half a minute.
const NEGLIGIBLE: f64 = 0.000_01;
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// The loads of all persons, or of all organizations.
#[derive(Debug)]
pub(super) struct Loads<K> {
    of: HashMap<K, Load>,
    /// How many have most of what is in progress.
    count: f64,
    tidied: Option<Instant>,
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

impl<K> Default for Loads<K> {
    fn default() -> Self {
        Self {
            of: HashMap::new(),
            count: 1.0,
            tidied: None,
        }
    }
}

impl<K: Copy + Eq + Hash> Loads<K> {
    pub(super) fn begin(&mut self, key: K, now: Instant) {
        self.change(key, now, |load| load.in_progress += 1);
    }

    pub(super) fn end(&mut self, key: K, now: Instant) {
        self.change(key, now, |load| load.in_progress = load.in_progress.saturating_sub(1));
    }

    /// As if something had been in progress for so long.
    pub(super) fn add(&mut self, key: K, time: Duration, now: Instant) {
        self.change(key, now, |load| load.average += time.div_duration_f64(AVERAGED_OVER));
    }

    fn change(&mut self, key: K, now: Instant, change: impl Fn(&mut Load)) {
        let load = self.of.entry(key).or_insert(Load {
            in_progress: 0,
            average: 0.0,
            since: now,
        });
        (load.average, load.since) = (load.average(now), now);
        change(load);
        self.tidy(now);
    }

    /// How much it has in progress.
    pub(super) fn in_progress(&self, key: K) -> u32 {
        self.of.get(&key).map_or(0, |load| load.in_progress)
    }

    /// What it had in progress on average.
    pub(super) fn average(&self, key: K, now: Instant) -> f64 {
        self.of.get(&key).map_or(0.0, |load| load.average(now))
    }

    /// What it has in progress, and what it had on average: whoever begins much at once has it, although not on average yet.
    pub(super) fn load(&self, key: K, now: Instant) -> f64 {
        f64::from(self.in_progress(key)) + self.average(key, now)
    }

    /// How many had something in progress lately.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// How many have most of what is in progress: those who have next to nothing do not count, however many they are.
    pub(super) fn effective_count(&self) -> f64 {
        self.count
    }

    fn tidy(&mut self, now: Instant) {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < TIDY_EVERY;
        if !self.tidied.is_some_and(is_recent) {
            self.tidied = Some(now);
            self.of
                .retain(|_, load| load.in_progress > 0 || load.average(now) > NEGLIGIBLE);
            let loads = self.of.keys().map(|key| self.load(*key, now));
            let (sum, squares) = loads.fold((0.0, 0.0), |(sum, squares), load| (sum + load, squares + load * load));
            self.count = if squares > 0.0 { sum * sum / squares } else { 1.0 };
        }
    }
}
