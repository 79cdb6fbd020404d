//! How often an address may fail, and how often a key or a person who is signed in may ask.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use service::sign_in::network;
use service::{KeyId, UserId};

use crate::http::context::RequestContext;

/// Failures an address may have at once, and how fast they are forgiven.
const FAILURES: NonZeroU32 = NonZeroU32::new(60).expect("not zero");

/// A number of requests per period, written `480/minute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    requests: NonZeroU32,
    period: Duration,
}

impl FromStr for RateLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || format!("invalid rate {text}; use a number and a unit, such as 480/minute");
        let (number, unit) = text.split_once('/').ok_or_else(problem)?;
        let seconds = match unit.trim() {
            "second" => 1,
            "minute" => 60,
            "hour" => 3600,
            _ => return Err(problem()),
        };
        let requests = number.trim().parse().map_err(|_| problem())?;
        Ok(Self {
            requests,
            period: Duration::from_secs(seconds),
        })
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.period.as_secs() {
            1 => "second",
            60 => "minute",
            _ => "hour",
        };
        write!(f, "{}/{unit}", self.requests)
    }
}

/// What a request is counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    Key(KeyId),
    /// All sessions of a person together: another one is quickly opened.
    Sessions(UserId),
}

impl Counted {
    fn as_str(self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Sessions(_) => "session",
        }
    }
}

type RequestLimiter = RateLimiter<Counted, DefaultKeyedStateStore<Counted>, DefaultClock, StateInformationMiddleware>;

/// Past this many keys and people those that have been quiet are forgotten, so that memory stays bounded.
const REMEMBERED: usize = 10_000;

pub(crate) struct Limits {
    failures: DefaultKeyedRateLimiter<IpAddr>,
    requests: Option<(RateLimit, RequestLimiter)>,
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").finish_non_exhaustive()
    }
}

impl Limits {
    pub(crate) fn new(rate_limit: Option<RateLimit>) -> Self {
        let requests = rate_limit.and_then(|limit| {
            let quota = Quota::with_period(limit.period / limit.requests.get())?.allow_burst(limit.requests);
            Some((
                limit,
                RateLimiter::keyed(quota).with_middleware::<StateInformationMiddleware>(),
            ))
        });
        Self {
            failures: RateLimiter::keyed(Quota::per_minute(FAILURES)),
            requests,
        }
    }

    /// Counts a failure; `Err` with the time to wait if there were too many.
    pub(crate) fn failed_credential(&self, address: IpAddr) -> Result<(), Duration> {
        check(&self.failures, address)
    }

    /// Counts a request and notes what is left for the answer's headers.
    pub(crate) fn count(&self, counted: Counted, context: &RequestContext) -> Result<(), Duration> {
        let Some((limit, requests)) = &self.requests else {
            return Ok(());
        };
        // One that is carried out once more was counted before.
        if context.rate.get().is_some() {
            return Ok(());
        }
        if requests.len() > REMEMBERED {
            requests.retain_recent();
        }
        let policy = format!(
            "\"{}\";q={};w={}",
            counted.as_str(),
            limit.requests,
            limit.period.as_secs()
        );
        match requests.check_key(&counted) {
            Ok(state) => {
                let (remaining, all) = (state.remaining_burst_capacity(), limit.requests.get());
                let refill = limit
                    .period
                    .mul_f64(f64::from(all - remaining.min(all)) / f64::from(all));
                context.put_rate(policy, remaining, refill);
                Ok(())
            }
            Err(not_until) => {
                let wait = not_until.wait_time_from(DefaultClock::default().now());
                context.put_rate(policy, 0, wait);
                Err(wait)
            }
        }
    }
}

fn check(limiter: &DefaultKeyedRateLimiter<IpAddr>, address: IpAddr) -> Result<(), Duration> {
    // What was long ago is forgotten, so that memory stays bounded.
    if limiter.len() > REMEMBERED {
        limiter.retain_recent();
    }
    limiter
        .check_key(&network(address))
        .map_err(|not_until| not_until.wait_time_from(DefaultClock::default().now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_failures_have_to_wait() {
        let limits = Limits::new(None);
        let address = IpAddr::from([192, 0, 2, 7]);
        for _ in 0..FAILURES.get() {
            assert!(limits.failed_credential(address).is_ok());
        }
        assert!(limits.failed_credential(address).is_err());
        assert!(limits.failed_credential(IpAddr::from([192, 0, 2, 8])).is_ok());
    }

    #[test]
    fn a_rate_reads_as_it_is_written() {
        assert_eq!(
            "480/minute".parse::<RateLimit>().expect("a rate").to_string(),
            "480/minute"
        );
        assert!("0/minute".parse::<RateLimit>().is_err());
        assert!("10/fortnight".parse::<RateLimit>().is_err());
    }
}
