//! How often an address may fail, and how often a key or a person who is signed in may ask.

use std::any::Any;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use service::sign_in::network;
use service::{KeyId, UserId};

use crate::Settings;
use crate::http::context::RequestContext;

/// Failures an address may have at once, and how fast they are forgiven.
const FAILURES: NonZeroU32 = NonZeroU32::new(60).expect("not zero");

/// So many requests in so long a time, written `480/minute`.
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

/// The address at the other end of the connection, put there by whoever accepts connections.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Something that counts the request as under way for as long as it is held, put there by whoever accepts connections.
#[derive(Debug, Clone)]
pub struct UnderWay(#[expect(dead_code, reason = "it is held, not read")] Arc<dyn Any + Send + Sync>);

impl UnderWay {
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Arc::new(held))
    }
}

impl Settings {
    /// Whether the other end is a proxy whose forwarded headers are believed.
    pub(crate) fn is_behind_proxy(&self, parts: &Parts) -> bool {
        self.is_proxy(peer(parts))
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.trusted_proxies
            .iter()
            .any(|network| network.contains(&address.to_canonical()))
    }

    /// Who is really asking: the last address in the chain that is no proxy of ours.
    pub(crate) fn client_address(&self, parts: &Parts) -> IpAddr {
        let peer = peer(parts);
        if !self.is_proxy(peer) {
            return peer;
        }
        let lines = parts.headers.get_all("x-forwarded-for").iter().rev();
        let hops = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        for hop in hops {
            // Beyond what our proxies wrote, anybody may have written anything.
            match address(hop.trim()) {
                Some(address) if self.is_proxy(address) => {}
                Some(address) => return address,
                None => return peer,
            }
        }
        peer
    }
}

/// An address, as proxies write it: some add the port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

fn peer(parts: &Parts) -> IpAddr {
    parts
        .extensions
        .get::<Peer>()
        .map_or(IpAddr::from([127, 0, 0, 1]), |peer| peer.0)
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
    fn forwarded_addresses_are_believed_of_our_proxies_only() {
        let settings = Settings {
            trusted_proxies: vec!["192.0.2.0/24".parse().expect("a network")],
            ..Settings::default()
        };
        let parts = |peer: [u8; 4]| {
            let request = axum::http::Request::builder()
                .header("x-forwarded-for", "198.51.100.9, 203.0.113.5, 192.0.2.2")
                .extension(Peer(IpAddr::from(peer)));
            request.body(()).expect("a request").into_parts().0
        };
        assert_eq!(
            settings.client_address(&parts([192, 0, 2, 1])),
            IpAddr::from([203, 0, 113, 5])
        );
        assert_eq!(
            settings.client_address(&parts([198, 51, 100, 1])),
            IpAddr::from([198, 51, 100, 1])
        );
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
