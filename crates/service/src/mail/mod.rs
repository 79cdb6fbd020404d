//! Mail: written down with the deed it tells of, sent after it, tried again until it is through.

mod cases;
pub(crate) mod sql;

pub(crate) use cases::post;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::id::{InviteId, MailId};

/// What a mail says. How it looks is up to whoever sends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Letter {
    Invite {
        organization: String,
        inviter: String,
        first_name: String,
        message: String,
        link: String,
        expires_at: Time,
    },
    Joined {
        organization: String,
        newcomer: String,
    },
    PasswordReset {
        link: String,
        expires_at: Time,
    },
    PasswordChanged {
        address: String,
    },
    RecoveryCodeUsed {
        organization: String,
        owner: String,
        address: String,
        at: Time,
    },
    /// The record that proves a domain is missing.
    DomainLost {
        organization: String,
        domain: String,
        record: String,
        value: String,
        until: Time,
    },
    /// Too many runs failed, one after the other.
    ExportPaused {
        organization: String,
        export: String,
        error: String,
        failures: i64,
    },
    /// An app failed too often for one team, and is no longer run for it.
    AppDisabled {
        organization: String,
        app: String,
        error: String,
    },
    /// The grace is over: the domain has no effect any more.
    DomainUnverified {
        organization: String,
        domain: String,
    },
}

/// A letter and whom it goes to.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) to: String,
    pub(crate) reply_to: Option<String>,
    pub(crate) letter: Letter,
    pub(crate) invite: Option<InviteId>,
}

impl Post {
    pub(crate) fn new(to: &str, letter: Letter) -> Self {
        Self {
            to: to.to_owned(),
            reply_to: None,
            letter,
            invite: None,
        }
    }
}

/// A mail whose turn it is.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub id: MailId,
    pub to: String,
    pub reply_to: Option<String>,
    pub letter: Letter,
    /// How often it has been tried, this time included.
    pub attempts: i64,
    pub created_at: Time,
}

/// Why a mail did not go out.
#[derive(Debug, Clone)]
pub struct Undelivered {
    pub reason: String,
    /// Trying again would not help.
    pub is_lasting: bool,
}

/// For as long as a mail is tried. A mail server may be away for a weekend.
const PATIENCE: TimeDelta = TimeDelta::days(3);
const FIRST_WAIT: TimeDelta = TimeDelta::seconds(10);
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(10);
/// Whoever takes a mail and is not heard of again has lost it to others after this long.
const LEASE: TimeDelta = TimeDelta::minutes(10);

/// How long to wait before the next attempt: three times longer each time, up to a limit.
fn wait(attempts: i64) -> TimeDelta {
    let doublings = u32::try_from(attempts.clamp(1, 8) - 1).unwrap_or_default();
    (FIRST_WAIT * 3_i32.pow(doublings)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        assert_eq!(wait(1), TimeDelta::seconds(10));
        assert_eq!(wait(3), TimeDelta::seconds(90));
        assert_eq!(wait(1000), LONGEST_WAIT);
        // A server that is away for an hour is asked often enough.
        let waits: TimeDelta = (1..=12).map(wait).sum();
        assert!(waits > TimeDelta::hours(1) && waits < PATIENCE);
    }
}
