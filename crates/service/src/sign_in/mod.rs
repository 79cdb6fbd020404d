//! Getting in with what one knows: a password, a second factor, a reset link, a recovery code.

mod attempts;
mod confirm;
mod failures;
mod password;
mod recovery;
mod reset;
pub(crate) mod sql;

pub use crate::network::{network, subnet};
pub(crate) use attempts::Attempts;
pub use confirm::Confirmation;
pub(crate) use failures::{Tried, count_attempt, uncount_attempt, unlock};
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

/// For how long it is remembered from where an account was signed in to.
const KNOWN_FOR: TimeDelta = TimeDelta::days(90);

/// For how long a right password waits for its second factor, and how many codes may be tried.
const CHALLENGE: TimeDelta = TimeDelta::minutes(10);
const MAX_TRIES: i64 = 5;
