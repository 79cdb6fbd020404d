//! How many events an app gets in one go.

use std::time::Duration;

use events::Stored;

/// What an app gets in one go while its calls are quick, and ask for nothing.
const MAX: usize = 128;
const LARGEST: usize = 256 * 1024;
/// How long a quick call takes at most.
const QUICK: Duration = Duration::from_millis(1);

/// One event at first.
#[derive(Debug)]
pub(super) struct Group(usize);

impl Default for Group {
    fn default() -> Self {
        Self(1)
    }
}

impl Group {
    /// What of these goes together; always one.
    pub(super) fn of<'a>(&self, events: &'a [Stored]) -> &'a [Stored] {
        let few = &events[..events.len().min(self.0)];
        &few[..that_fit(few, LARGEST)]
    }

    /// Twice as many the next time, if so many were taken quickly.
    pub(super) fn note(&mut self, count: usize, are_taken: bool, took: Duration) {
        let is_quick = are_taken && took.as_micros() < QUICK.as_micros() * count as u128;
        self.0 = if is_quick { (2 * self.0).min(MAX) } else { 1 };
    }
}

/// How many of these are within so many bytes; always one.
pub(super) fn that_fit(events: &[Stored], most: usize) -> usize {
    let sums = events.iter().scan(0_usize, |sum, event| {
        *sum = sum.saturating_add(event.bytes());
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= most)
        .count()
        .clamp(1, events.len().max(1))
}
