//! How much one person, one organization and the whole instance may do in an hour of what costs others something: email to
//! strangers, accounts, keys. Counted in the transaction of the deed, so the limits hold on all replicas, and what fails or is a
//! dry run uses nothing up.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use chrono::{DurationRound, TimeDelta};

use crate::Service;
use crate::clock::Time;
use crate::db::{Writing, changed, on};
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId};
use crate::sign_in::network;

const HOUR: TimeDelta = TimeDelta::hours(1);

/// Whether the limits hold, and how generous they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourlyLimits(Option<i64>);

impl HourlyLimits {
    pub const OFF: Self = Self(None);
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
    PasswordReset,
    /// New ones and new values of old ones.
    ApiKey,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Invite => "invite",
            Self::SignUp => "sign_up",
            Self::PasswordReset => "password_reset",
            Self::ApiKey => "api_key",
        }
    }

    /// What people call them.
    fn plural(self) -> &'static str {
        match self {
            Self::Invite => "invites",
            Self::SignUp => "new accounts",
            Self::PasswordReset => "password resets",
            Self::ApiKey => "new API keys",
        }
    }
}

/// Whom it is counted for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject {
    User(UserId),
    Network(IpAddr),
    Organization(OrganizationId),
    Instance,
}

impl Subject {
    /// How often in an hour: far more than honest use needs.
    fn most(self) -> i64 {
        match self {
            Self::User(_) | Self::Network(_) => 200,
            Self::Organization(_) => 500,
            Self::Instance => 2000,
        }
    }

    fn called(self) -> &'static str {
        match self {
            Self::User(_) => "each person",
            Self::Network(_) => "each network",
            Self::Organization(_) => "each organization",
            Self::Instance => "this server",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => write!(f, "user {id}"),
            // A hash: the table shall not list who was here.
            Self::Network(address) => {
                let hash = auth::key::hash(&network(*address).to_string());
                write!(f, "network {}", auth::key::new_token("", hash))
            }
            Self::Organization(id) => write!(f, "organization {id}"),
            Self::Instance => f.write_str("instance"),
        }
    }
}

/// Uses up `count` of what each of the subjects, and the instance, has left in this hour. Does so for all of them or fails.
///
/// Call it with subjects in the order of [`Subject`], after locking the organization: two who count for each other's
/// subjects in another order would wait for each other.
pub(crate) async fn take(
    db: &mut Writing,
    limits: HourlyLimits,
    action: Action,
    count: usize,
    subjects: &[Subject],
) -> Result<()> {
    let Some(factor) = limits.0 else { return Ok(()) };
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    for subject in subjects.iter().copied().chain([Subject::Instance]) {
        let (used, starts_at) = add(db, action, subject, count).await?;
        let most = subject.most() * factor;
        if used > most {
            return Err(Error::LimitReached {
                detail: format!("{} can have {most} {} an hour", subject.called(), action.plural()),
                wait: (starts_at + HOUR - db.now).to_std().unwrap_or_default(),
            });
        }
    }
    Ok(())
}

/// How much that makes in the hour under way, and when it began. A replica whose clock is behind counts for the later hour.
async fn add(db: &mut Writing, action: Action, subject: Subject, count: i64) -> Result<(i64, Time)> {
    const SQL: &str = "INSERT INTO hourly_count (action, subject, starts_at, used) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (action, subject) DO UPDATE SET \
        used = CASE WHEN excluded.starts_at > hourly_count.starts_at THEN excluded.used \
            ELSE hourly_count.used + excluded.used END, \
        starts_at = CASE WHEN excluded.starts_at > hourly_count.starts_at THEN excluded.starts_at \
            ELSE hourly_count.starts_at END RETURNING used, starts_at";
    let starts_at = db.now.duration_trunc(HOUR).unwrap_or(db.now);
    Ok(on!(db, conn => sqlx::query_as(SQL)
        .bind(action.as_str())
        .bind(subject.to_string())
        .bind(starts_at)
        .bind(count)
        .fetch_one(conn))?)
}

impl Service {
    /// Forgets networks that have been quiet; people and organizations are as many as there are.
    pub async fn forget_old_counts(&self) -> Result<()> {
        const SQL: &str = "DELETE FROM hourly_count WHERE subject LIKE 'network %' AND starts_at < $1";
        let mut db = self.write().await?;
        let before = db.now - TimeDelta::days(1);
        changed!(db, sqlx::query(SQL).bind(before))?;
        db.commit_unrecorded().await
    }
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
