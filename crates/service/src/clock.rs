//! Time and randomness, in one place, so that tests hold both in their hands.

pub(crate) mod steady;

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::Uuid;

use steady::SteadyClock;

/// A moment, in UTC, in whole microseconds: what both databases can keep.
pub type Time = DateTime<Utc>;

/// Where the service takes the time from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    #[default]
    System,
    /// For a process that lives long: goes on evenly while the system's clock jumps.
    Steady(Arc<SteadyClock>),
    /// Stands still until a test moves it.
    Manual(Arc<Mutex<Time>>),
}

impl Clock {
    pub fn manual(start: Time) -> Self {
        Self::Manual(Arc::new(Mutex::new(start)))
    }

    pub fn steady() -> Self {
        Self::Steady(Arc::new(SteadyClock::new()))
    }

    /// By how much the clock that this one follows has jumped, if it is not to be trusted.
    pub fn jump(&self) -> Option<TimeDelta> {
        match self {
            Self::Steady(clock) => clock.jump(),
            Self::System | Self::Manual(_) => None,
        }
    }

    pub fn now(&self) -> Time {
        match self {
            #[expect(clippy::disallowed_methods, reason = "this is the clock")]
            Self::System => whole_microseconds(Utc::now()),
            Self::Steady(clock) => clock.now(),
            Self::Manual(time) => *time.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Moves a manual clock on. The system's cannot be moved.
    pub fn advance(&self, by: TimeDelta) {
        if let Self::Manual(time) = self {
            *time.lock().unwrap_or_else(PoisonError::into_inner) += by;
        }
    }
}

pub(crate) fn whole_microseconds(time: Time) -> Time {
    time.duration_trunc(TimeDelta::microseconds(1)).unwrap_or(time)
}

/// Where the service takes random bits from.
#[derive(Debug, Clone, Default)]
pub enum RandomSource {
    #[default]
    System,
    /// The same bits on every run of a test.
    Seeded(Arc<Mutex<StdRng>>),
}

impl RandomSource {
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match self {
            Self::System => rand::rng().fill_bytes(&mut bytes),
            Self::Seeded(rng) => rng
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .fill_bytes(&mut bytes),
        }
        bytes
    }
}

/// A `UUIDv7` whose sub-millisecond bits hold the microseconds, so that ids sort as their times do
/// and one index serves both "newest first" and a total order. `number` orders those of one moment.
pub(crate) fn time_ordered_uuid(now: Time, number: u16, random: [u8; 6]) -> Uuid {
    let micros = u64::try_from(now.timestamp_micros()).unwrap_or_default();
    let (millis, fraction) = (micros / 1000, micros % 1000 * 4096 / 1000);
    let mut bytes = [0_u8; 10];
    let fraction = u16::try_from(fraction).unwrap_or_default();
    bytes[..2].copy_from_slice(&fraction.to_be_bytes());
    // The two highest bits are taken by the variant of the id.
    bytes[2..4].copy_from_slice(&(number & 0x3fff).to_be_bytes());
    bytes[4..].copy_from_slice(&random);
    uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_their_microseconds_do() {
        let start = DateTime::from_timestamp_micros(1_790_000_000_000_000).expect("a time");
        let ids: Vec<Uuid> = (0..5000)
            .map(|step| time_ordered_uuid(start + TimeDelta::microseconds(step), 0, [7; 6]))
            .collect();
        assert!(ids.is_sorted_by(|earlier, later| earlier < later));
        assert_eq!(ids[0].get_version_num(), 7);
        let same_moment: Vec<Uuid> = (0..500)
            .map(|number| time_ordered_uuid(start, number, RandomSource::System.bytes()))
            .collect();
        assert!(same_moment.is_sorted_by(|earlier, later| earlier < later));
    }
}
