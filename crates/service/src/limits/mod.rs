//! How much one person, one organization and the whole instance may do in an hour of what costs others something: email to
//! strangers, accounts, keys. Counted in the transaction of the action, so the limits hold on all replicas, and what fails or is a
//! dry run uses nothing up.

mod cases;
mod creation;
mod sql;

pub(crate) use creation::OrganizationCreation;
pub(crate) use sql::{expect_left, take, take_link_attempt, take_of, take_of_each, take_up_to};

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::id::{OrganizationId, UserId};
use crate::network::network;
use crate::text::Email;

/// Whether the limits hold, and how generous they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourlyLimits(Option<i64>);

impl HourlyLimits {
    pub const OFF: Self = Self(None);

    /// A limit as the operator set it. None: there is none.
    pub(crate) fn scaled(self, limit: u32) -> Option<u32> {
        self.0.and_then(|factor| u32::try_from(factor).ok()?.checked_mul(limit))
    }
}

impl Default for HourlyLimits {
    fn default() -> Self {
        Self(Some(1))
    }
}

impl FromStr for HourlyLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::default()),
            "off" => Ok(Self::OFF),
            _ => match text.parse() {
                Ok(factor @ 1..=1000) => Ok(Self(Some(factor))),
                _ => Err("use on, off, or a number from 1 to 1000 to multiply the limits by".to_owned()),
            },
        }
    }
}

impl fmt::Display for HourlyLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("off"),
            Some(1) => f.write_str("on"),
            Some(factor) => factor.fmt(f),
        }
    }
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// New ones and those that are sent again.
    Invite,
    SignUp,
    /// Passwords that are judged and hashed for whoever has a link.
    LinkAttempt,
    PasswordReset,
    /// New ones and new values of old ones.
    ApiKey,
    BatchExport,
    Team,
    /// Mails that tell of a new member.
    JoinNotice,
    /// Other mails that tell people of an organization what happened there.
    Notice,
    /// Mails that tell owners that a recovery code was used.
    RecoveryNotice,
    /// Mails that tell somebody that their password was changed.
    PasswordNotice,
    /// Sign-ups that were refused because the address has an account, by a link that the inviter saw.
    KnownAddress,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Invite => "invite",
            Self::SignUp => "sign_up",
            Self::LinkAttempt => "link_attempt",
            Self::PasswordReset => "password_reset",
            Self::ApiKey => "api_key",
            Self::BatchExport => "batch_export",
            Self::Team => "team",
            Self::JoinNotice => "join_notice",
            Self::Notice => "notice",
            Self::RecoveryNotice => "recovery_notice",
            Self::PasswordNotice => "password_notice",
            Self::KnownAddress => "known_address",
        }
    }

    /// What people call them.
    fn plural(self) -> &'static str {
        match self {
            Self::Invite => "invites",
            Self::SignUp => "new accounts",
            Self::LinkAttempt => "attempts",
            Self::PasswordReset => "password resets",
            Self::ApiKey => "new API keys",
            Self::BatchExport => "new batch exports",
            Self::Team => "new teams",
            Self::JoinNotice | Self::Notice | Self::RecoveryNotice | Self::PasswordNotice => "notices",
            Self::KnownAddress => "invites accepted through shared links for existing accounts",
        }
    }

    /// How often in an hour.
    fn most(self, subject: Subject<'_>) -> i64 {
        match (self, subject) {
            // One member leaves half of it to the others.
            (Self::KnownAddress, Subject::Organization(_)) => 40,
            (Self::KnownAddress, _) => 20,
            (Self::RecoveryNotice, _) => 100,
            (Self::PasswordNotice, _) => 10,
            // People come when they like: what one person sent in some hours is accepted in another.
            (Self::SignUp, Subject::User(_)) => 500,
            _ => subject.most(),
        }
    }
}

/// Whom it is counted for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    User(UserId),
    Network(IpAddr),
    Organization(OrganizationId),
    /// All organizations that somebody created.
    Creator(UserId),
    Instance,
    /// What one organization sends to one address.
    Recipient(OrganizationId, &'a Email),
    /// What anybody asks to be sent there.
    Address(&'a Email),
    /// Of an invite or a reset.
    Link(&'a str),
}

impl Subject<'_> {
    /// How often in an hour: far more than honest use needs.
    fn most(self) -> i64 {
        match self {
            Self::User(_) | Self::Network(_) => 200,
            Self::Organization(_) => 500,
            Self::Creator(_) | Self::Instance => 2000,
            Self::Recipient(..) | Self::Address(_) => 10,
            Self::Link(_) => 30,
        }
    }

    fn called(self) -> &'static str {
        match self {
            Self::User(_) => "Each user",
            Self::Network(_) => "Each network",
            Self::Organization(_) => "Each organization",
            Self::Creator(_) => "All organizations of a user",
            Self::Instance => "This server",
            Self::Recipient(..) | Self::Address(_) => "Each email address",
            Self::Link(_) => "Each link",
        }
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => write!(f, "user {id}"),
            // A hash: the table shall not list who was here.
            Self::Network(address) => write!(f, "network {}", hashed(&network(*address).to_string())),
            Self::Recipient(id, email) => write!(f, "address {}", hashed(&format!("{id} {}", email.key()))),
            Self::Address(email) => write!(f, "address {}", hashed(&email.key())),
            Self::Organization(id) => write!(f, "organization {id}"),
            Self::Creator(id) => write!(f, "creator {id}"),
            Self::Link(text) => write!(f, "link {}", hashed(text)),
            Self::Instance => f.write_str("instance"),
        }
    }
}

fn hashed(text: &str) -> String {
    auth::key::new_token("", auth::key::hash(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_reads_as_it_is_written() {
        for text in ["on", "off", "20"] {
            assert_eq!(text.parse::<HourlyLimits>().expect("a setting").to_string(), text);
        }
        for text in ["", "0", "-1", "yes", "1001", "2.5"] {
            assert!(text.parse::<HourlyLimits>().is_err(), "{text}");
        }
    }
}
