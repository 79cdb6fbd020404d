//! How often an address may try.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::access::Request;
use crate::error::{Error, Result};
use crate::network::network;

/// Attempts that an address has in a minute.
const PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).expect("not zero");
/// Past this many addresses those that have been quiet are forgotten, so that memory stays bounded.
const REMEMBERED: usize = 10_000;

pub(crate) struct Attempts(DefaultKeyedRateLimiter<IpAddr>);

impl Default for Attempts {
    fn default() -> Self {
        Self(RateLimiter::keyed(Quota::per_minute(PER_MINUTE)))
    }
}

impl fmt::Debug for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").finish_non_exhaustive()
    }
}

impl Attempts {
    /// Counts an attempt, before anything costly is done for it.
    pub(crate) fn count(&self, request: &Request) -> Result<()> {
        let Some(address) = request.origin.address else {
            return Ok(());
        };
        if self.0.len() > REMEMBERED {
            self.0.retain_recent();
        }
        let wait = |until: governor::NotUntil<_>| until.wait_time_from(DefaultClock::default().now());
        self.0
            .check_key(&network(address))
            .map_err(|until| Error::Throttled(Duration::max(wait(until), Duration::from_secs(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Origin;

    #[test]
    fn after_a_minutes_attempts_an_address_has_to_wait() {
        let attempts = Attempts::default();
        let from = |text: &str| Request {
            origin: Origin {
                address: text.parse().ok(),
                ..Origin::default()
            },
            ..Request::default()
        };
        for _ in 0..PER_MINUTE.get() {
            attempts.count(&from("192.0.2.7")).expect("one of them");
        }
        assert!(matches!(attempts.count(&from("192.0.2.7")), Err(Error::Throttled(_))));
        attempts.count(&from("192.0.2.8")).expect("another address");
    }
}
