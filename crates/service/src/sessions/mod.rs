//! Signing in with a password, and the sessions that come of it.

mod cases;
pub(crate) mod sql;

use chrono::TimeDelta;

use crate::access::Who;
use crate::id::{UserId, UserUuid};

/// After this long without a request a session is over.
const IDLE: TimeDelta = TimeDelta::days(3);
/// After this long it is over in any case.
const ABSOLUTE: TimeDelta = TimeDelta::days(14);

/// A person, proven by a session or by having the machine; never by a key.
#[derive(Debug, Clone)]
pub struct SignedIn {
    pub who: Who,
    pub user: UserId,
    pub user_uuid: UserUuid,
}
