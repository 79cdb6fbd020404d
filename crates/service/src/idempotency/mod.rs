//! Doing a thing once, however often it is asked for.
//!
//! A token is claimed before the write, settled in the write's own transaction, and answered
//! after it. A crash in between can lose the response but never do the write twice.

mod cases;
mod sql;

pub(crate) use sql::settle;

use std::fmt;
use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::id::UserId;

/// A token that this request has claimed.
#[derive(Debug, Clone)]
pub struct Claim {
    pub user: UserId,
    /// The method and path: the same token may be used for another route.
    pub route: String,
    pub token: String,
}

/// The response of the first request.
#[derive(Debug, Clone)]
pub struct StoredResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Longer responses are not stored: a repeated request gets `idempotency_response_lost`.
const MAX_BODY: usize = 64 * 1024;

/// How many bytes of responses are stored for each user in an hour. It is for each process, and forgotten with it.
pub(crate) struct StoredBytes(DefaultKeyedRateLimiter<UserId>);

impl StoredBytes {
    const AN_HOUR: NonZeroU32 = NonZeroU32::new(64 * 1024 * 1024).expect("not zero");
    /// Past this many people those that have been quiet are forgotten, so that memory stays bounded.
    const REMEMBERED: usize = 10_000;

    /// Whether there is room for a body of this person. If so, it is counted.
    fn has_room(&self, user: UserId, body: &[u8]) -> bool {
        if self.0.len() > Self::REMEMBERED {
            self.0.retain_recent();
        }
        let bytes = u32::try_from(body.len()).ok().and_then(NonZeroU32::new);
        body.len() <= MAX_BODY && bytes.is_none_or(|bytes| matches!(self.0.check_key_n(&user, bytes), Ok(Ok(()))))
    }
}

impl Default for StoredBytes {
    fn default() -> Self {
        Self(RateLimiter::keyed(Quota::per_hour(Self::AN_HOUR)))
    }
}

impl fmt::Debug for StoredBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredBytes").finish_non_exhaustive()
    }
}

/// What came of an attempt to claim a token.
#[derive(Debug)]
pub enum Claimed {
    /// It is ours: go on, then answer.
    Now,
    /// It was used before, for the same request.
    Before(StoredResponse),
}
