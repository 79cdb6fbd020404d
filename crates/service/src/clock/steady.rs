//! A time that goes on evenly, whatever a clock is set to.
//!
//! It follows a reference, the machine's clock or the database's, and counts the time since the machine started. A
//! reference that differs from that count all at once has been set to another time, perhaps a wrong one. It is followed only when it has
//! kept to its new time for a while: a clock that is 30 days ahead for some seconds would end sessions, delete what is kept
//! for a time, and count intervals as exported that are not over.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use rustix::time::{ClockId, clock_gettime};

/// Clocks are set right by less than this all the time.
const TOLERANCE: i64 = 2_000_000;
/// After so long, another time counts as the right one.
const ACCEPTED_AFTER: i64 = 5 * 60 * 1_000_000;

/// Everything in here is in microseconds.
#[derive(Debug)]
pub struct SteadyClock {
    /// From the start of the machine's count to 1970.
    offset: AtomicI64,
    jump: Mutex<Option<Jump>>,
    /// Spares everybody the lock.
    has_jumped: AtomicBool,
    follows_database: AtomicBool,
}

/// The reference went to another time.
#[derive(Debug, Clone, Copy)]
struct Jump {
    offset: i64,
    since: i64,
}

impl SteadyClock {
    pub(super) fn new() -> Self {
        Self::at(machine_time(), count())
    }

    fn at(reference: i64, count: i64) -> Self {
        Self {
            offset: AtomicI64::new(reference - count),
            jump: Mutex::default(),
            has_jumped: AtomicBool::new(false),
            follows_database: AtomicBool::new(false),
        }
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        let count = count();
        if !self.follows_database.load(Ordering::Relaxed) {
            self.follow(machine_time(), count);
        }
        let micros = count + self.offset.load(Ordering::Relaxed);
        DateTime::from_timestamp_micros(micros).unwrap_or_default()
    }

    /// Takes the time from the database from now on, and tells it nothing but this. `count` is when it was asked.
    pub(crate) fn follow_database(&self, time: DateTime<Utc>, count: i64) {
        let reference = time.timestamp_micros();
        if !self.follows_database.swap(true, Ordering::Relaxed) {
            self.offset.store(reference - count, Ordering::Relaxed);
        }
        self.follow(reference, count);
    }

    /// By how much the reference differs, if it has jumped.
    pub(super) fn jump(&self) -> Option<TimeDelta> {
        if !self.has_jumped.load(Ordering::Relaxed) {
            return None;
        }
        let jump = *self.jump.lock().unwrap_or_else(PoisonError::into_inner);
        jump.map(|jump| TimeDelta::microseconds(jump.offset - self.offset.load(Ordering::Relaxed)))
    }

    fn follow(&self, reference: i64, count: i64) {
        let offset = reference - count;
        let has_jumped = (offset - self.offset.load(Ordering::Relaxed)).abs() > TOLERANCE;
        if !has_jumped {
            self.offset.store(offset, Ordering::Relaxed);
        }
        if has_jumped || self.has_jumped.load(Ordering::Relaxed) {
            self.judge(has_jumped.then_some(Jump { offset, since: count }));
        }
    }

    /// Remembers a jump, or believes it when it has lasted.
    fn judge(&self, seen: Option<Jump>) {
        let mut known = self.jump.lock().unwrap_or_else(PoisonError::into_inner);
        *known = match (*known, seen) {
            (Some(_), None) => {
                tracing::info!("the system clock is correct again");
                None
            }
            (Some(old), Some(new)) if (old.offset - new.offset).abs() <= TOLERANCE => {
                if new.since - old.since < ACCEPTED_AFTER {
                    Some(old)
                } else {
                    tracing::error!("the system clock has been stable for five minutes after a jump; using its time");
                    self.offset.store(new.offset, Ordering::Relaxed);
                    None
                }
            }
            (_, Some(new)) => {
                let seconds = (new.offset - self.offset.load(Ordering::Relaxed)) / 1_000_000;
                tracing::error!(
                    seconds,
                    "the system clock jumped; its new time will be used after it has been stable for five minutes"
                );
                Some(new)
            }
            (None, None) => None,
        };
        self.has_jumped.store(known.is_some(), Ordering::Relaxed);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn machine_time() -> i64 {
    Utc::now().timestamp_micros()
}

/// The time since the machine started, sleep included. Nobody can set it.
pub(crate) fn count() -> i64 {
    let count = clock_gettime(ClockId::Boottime);
    count.tv_sec * 1_000_000 + count.tv_nsec / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 24 * 3600 * SECOND;
    const START: i64 = 20_000 * DAY;

    /// The machine has been running for an hour.
    const COUNT: i64 = 3600 * SECOND;

    struct Trial(SteadyClock);

    impl Trial {
        /// What the clock says after so long, when the reference is off by so much.
        fn after(&self, elapsed: i64, off_by: i64) -> i64 {
            self.0.follow(START + elapsed + off_by, COUNT + elapsed);
            COUNT + elapsed + self.0.offset.load(Ordering::Relaxed) - START
        }
    }

    fn trial() -> Trial {
        Trial(SteadyClock::at(START, COUNT))
    }

    #[test]
    fn small_corrections_are_followed() {
        let clock = trial();
        assert_eq!(clock.after(10 * SECOND, SECOND), 11 * SECOND);
        assert_eq!(clock.after(20 * SECOND, -SECOND), 19 * SECOND);
        assert_eq!(clock.0.jump(), None);
    }

    #[test]
    fn a_clock_that_is_ahead_for_some_seconds_changes_nothing() {
        let clock = trial();
        for second in 1..=3 {
            assert_eq!(clock.after(second * SECOND, 30 * DAY), second * SECOND);
        }
        assert_eq!(clock.0.jump(), Some(TimeDelta::days(30)));
        assert_eq!(clock.after(4 * SECOND, 0), 4 * SECOND);
        assert_eq!(clock.0.jump(), None);
    }

    #[test]
    fn a_new_time_is_believed_when_it_has_lasted() {
        for jump in [DAY, -DAY] {
            let clock = trial();
            assert_eq!(clock.after(SECOND, jump), SECOND);
            // Another jump in between begins again.
            assert_eq!(clock.after(200 * SECOND, 2 * jump), 200 * SECOND);
            assert_eq!(clock.after(499 * SECOND, 2 * jump), 499 * SECOND);
            assert_eq!(clock.after(501 * SECOND, 2 * jump), 501 * SECOND + 2 * jump);
            assert_eq!(clock.0.jump(), None);
        }
    }

    #[test]
    fn the_database_is_believed_at_first() {
        let clock = SteadyClock::new();
        let ahead = clock.now() + TimeDelta::hours(1);
        clock.follow_database(ahead, count());
        assert!((clock.now() - ahead).abs() < TimeDelta::minutes(1));
        clock.follow_database(ahead + TimeDelta::hours(5), count());
        assert!((clock.now() - ahead).abs() < TimeDelta::minutes(1));
        assert!(clock.jump().is_some());
    }
}
