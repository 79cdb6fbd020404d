use std::fmt;
use std::num::NonZeroU32;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};

use super::HourlyLimits;
use crate::error::{Error, Result};
use crate::id::UserId;

/// How many organizations somebody creates: each has a share of what organizations take turns at. Kept by each process, as the
/// database would have to be asked at every one.
pub(crate) struct OrganizationCreation(Option<DefaultKeyedRateLimiter<UserId>>);

impl OrganizationCreation {
    const AN_HOUR: u32 = 200;
    /// Past this many people those that have been quiet are forgotten, so that memory stays bounded.
    const REMEMBERED: usize = 10_000;

    pub(crate) fn new(limits: HourlyLimits) -> Self {
        let most = limits.scaled(Self::AN_HOUR);
        Self(
            most.and_then(NonZeroU32::new)
                .map(|most| RateLimiter::keyed(Quota::per_hour(most))),
        )
    }

    /// Counts one; `Err` with the time to wait if there were too many.
    pub(crate) fn count(&self, user: UserId) -> Result<()> {
        let Some(limiter) = &self.0 else { return Ok(()) };
        if limiter.len() > Self::REMEMBERED {
            limiter.retain_recent();
        }
        let wait = |until: NotUntil<_>| until.wait_time_from(DefaultClock::default().now());
        limiter.check_key(&user).map_err(|until| Error::LimitReached {
            detail: "Each user can create a few hundred organizations per hour. Operators of the instance have no \
                     limit"
                .to_owned(),
            wait: wait(until),
        })
    }
}

impl fmt::Debug for OrganizationCreation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrganizationCreation").finish_non_exhaustive()
    }
}
