//! Getting in with what one knows: a password, a second factor, a reset link, a recovery code.

mod attempts;
mod confirm;
mod password;
mod recovery;
mod reset;
pub(crate) mod sql;

pub use crate::hashing::neighborhood;
pub(crate) use attempts::Attempts;
pub use attempts::network;
pub use confirm::Confirmation;
pub(crate) use password::{Tried, count_attempt, uncount_attempt, unlock};
pub use recovery::RecoveryCodes;
pub use reset::NewPassword;

use chrono::TimeDelta;

use crate::users::User;

/// What becomes of a right password.
#[derive(Debug, Clone)]
pub enum SignIn {
    Done {
        user: User,
        session: String,
    },
    /// A code is asked for next, together with this secret.
    SecondFactor {
        challenge: String,
    },
}

/// After this many failures in a row from one network an address is locked there, whether it has an account or not.
const MOST_FAILURES: i64 = 20;
/// The same from anywhere.
const MOST_FROM_ANYWHERE: i64 = 200;
const LOCK: TimeDelta = TimeDelta::minutes(10);
/// For how long it is remembered from where an account was signed in to.
const KNOWN_FOR: TimeDelta = TimeDelta::days(90);
/// Failures that are older than this are forgotten.
const MEMORY: TimeDelta = TimeDelta::hours(1);

/// For how long a right password waits for its second factor, and how many codes may be tried.
const CHALLENGE: TimeDelta = TimeDelta::minutes(10);
const MOST_TRIES: i64 = 5;
