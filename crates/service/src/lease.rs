//! Work that several processes share: whoever claims a row of the database holds it for a while.
//!
//! A claim writes down who holds the row, by which attempt, and until when: in the column that also says when a row that waits is
//! due, so that what a dead worker held is found like everything else. The holder renews its lease for as long as it works
//! (`until_lost`), and whoever writes with an older claim (`Lease`) changes nothing. To give a row back is to make it due now. What
//! failed is due again after a pause (`Backoff`).
//!
//! Runs of exports, and configurations and tasks of apps, are held like this. Sending an email and checking a domain take seconds: these
//! are claimed for longer than they can take, and nothing is renewed.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::clock::{RandomSource, Time};
use crate::error::{Error, Result};
use crate::id::WorkerId;

/// Whoever holds something and is not heard of for this long has lost it to others.
const TERM: TimeDelta = TimeDelta::seconds(30);
/// A third of the term: two may go missing.
const RENEWED_EVERY: Duration = Duration::from_secs(10);

impl WorkerId {
    /// A name for a worker that starts now.
    pub fn random(random: &RandomSource) -> Self {
        Self(uuid::Builder::from_random_bytes(random.bytes()).into_uuid())
    }
}

/// Who holds a row, and by which claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) worker: WorkerId,
    /// Counts the claims of a row: a worker that claims it again is not the one that lost it.
    pub(crate) attempt: i64,
}

impl Lease {
    /// Of a row that has been claimed so many times before.
    pub(crate) fn next(worker: WorkerId, attempts: i64) -> Self {
        Self {
            worker,
            attempt: attempts + 1,
        }
    }

    /// Until when a row is held that is claimed or renewed now.
    pub(crate) fn ends_at(now: Time) -> Time {
        now + TERM
    }

    /// Whether it is the one that a row tells of.
    pub(crate) fn is_of(self, worker: Option<WorkerId>, attempt: i64) -> bool {
        worker == Some(self.worker) && attempt == self.attempt
    }
}

/// Renews a lease again and again, and ends when it is lost: `renew` says false. The caller then drops what it does.
///
/// If the database is away for a moment, the lease says for how long that is fine; `failed` is told.
pub async fn until_lost<F>(renew: impl FnMut() -> F, failed: impl Fn(Error))
where
    F: Future<Output = Result<bool>>,
{
    renew_every(RENEWED_EVERY, renew, failed).await;
}

async fn renew_every<F>(period: Duration, mut renew: impl FnMut() -> F, failed: impl Fn(Error))
where
    F: Future<Output = Result<bool>>,
{
    let mut tick = interval_at(Instant::now() + period, period);
    // After a renewal that took long, or a process that was frozen, one renewal makes up for all that were missed.
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        match renew().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => failed(error),
        }
    }
}

/// How long what failed waits for the next try: longer each time, up to a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: TimeDelta,
    pub(crate) factor: i32,
    pub(crate) longest: TimeDelta,
}

impl Backoff {
    /// The pause after so many tries.
    pub(crate) fn after(self, tries: i64) -> TimeDelta {
        let pauses_before = u32::try_from(tries.max(1) - 1).unwrap_or(u32::MAX);
        (self.first * self.factor.saturating_pow(pauses_before)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_lease_is_renewed_until_it_is_lost() {
        let (renewed, failed) = (Cell::new(0), Cell::new(0));
        let renew = || {
            renewed.set(renewed.get() + 1);
            ready(match renewed.get() {
                // The database is away, and comes back.
                2 | 3 => Err(Error::NotFound("database")),
                6 => Ok(false),
                _ => Ok(true),
            })
        };
        renew_every(Duration::from_millis(1), renew, |_| failed.set(failed.get() + 1)).await;
        assert_eq!((renewed.get(), failed.get()), (6, 2));
    }

    #[tokio::test]
    async fn what_was_just_claimed_is_not_renewed_yet() {
        let renewed = Cell::new(false);
        let renew = || {
            renewed.set(true);
            ready(Ok(false))
        };
        assert_eq!(until_lost(renew, drop).now_or_never(), None);
        assert!(!renewed.get());
    }

    #[test]
    fn two_renewals_may_go_missing() {
        let now = Time::default();
        assert_eq!(now + RENEWED_EVERY * 3, Lease::ends_at(now));
    }

    #[test]
    fn who_claims_again_is_not_who_lost_it() {
        let [one, other] = [1, 2].map(|number| WorkerId(uuid::Uuid::from_u128(number)));
        let lost = Lease::next(one, 0);
        let held = Lease::next(one, lost.attempt);
        assert!(held.is_of(Some(one), 2) && !lost.is_of(Some(one), 2));
        assert!(!held.is_of(Some(other), 2) && !held.is_of(None, 2));
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let backoff = Backoff {
            first: TimeDelta::seconds(5),
            factor: 2,
            longest: TimeDelta::minutes(10),
        };
        let seconds: Vec<i64> = (0..=9).map(|tries| backoff.after(tries).num_seconds()).collect();
        assert_eq!(seconds, [5, 5, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(backoff.after(i64::MIN), backoff.first);
        assert_eq!(backoff.after(i64::MAX), backoff.longest);
    }
}
