//! How much one person, one organization and the whole instance may do in an hour of what costs others something: email to
//! strangers, accounts, keys. Counted in the transaction of the deed, so the limits hold on all replicas, and what fails or is a
//! dry run uses nothing up.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::str::FromStr;

use chrono::{DurationRound, TimeDelta};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};

use crate::Service;
use crate::access::Caller;
use crate::clock::Time;
use crate::db::{WriteTx, changed, on};
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId};
use crate::operators;
use crate::sign_in::network;
use crate::text::Email;

const HOUR: TimeDelta = TimeDelta::hours(1);

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
    Founder(UserId),
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
            Self::Founder(_) | Self::Instance => 2000,
            Self::Recipient(..) | Self::Address(_) => 10,
            Self::Link(_) => 30,
        }
    }

    fn called(self) -> &'static str {
        match self {
            Self::User(_) => "Each user",
            Self::Network(_) => "Each network",
            Self::Organization(_) => "Each organization",
            Self::Founder(_) => "All organizations of a user",
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
            Self::Founder(id) => write!(f, "founder {id}"),
            Self::Link(text) => write!(f, "link {}", hashed(text)),
            Self::Instance => f.write_str("instance"),
        }
    }
}

fn hashed(text: &str) -> String {
    auth::key::new_token("", auth::key::hash(text))
}

/// Whoever is established and has used less than this is not held to the limit of the whole instance: otherwise a few who use
/// it up would keep everybody else out.
const OWN_SHARE: i64 = 20;
/// How old that is, so that nobody creates accounts to have their shares.
const ESTABLISHED_AFTER: TimeDelta = TimeDelta::days(1);

/// Uses up `count` of what each of the subjects, and the instance, has left in this hour. Does so for all of them or fails.
///
/// Call it with subjects in the order of [`Subject`], after locking the organization: two who count for each other's
/// subjects in another order would wait for each other.
pub(crate) async fn take(
    db: &mut WriteTx,
    limits: HourlyLimits,
    action: Action,
    count: usize,
    subjects: &[Subject<'_>],
) -> Result<()> {
    let Some(factor) = limits.0 else { return Ok(()) };
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let founder = founder_of(db, subjects).await?.map(Subject::Founder);
    let mut most_used = 0;
    for subject in subjects.iter().copied().chain(founder) {
        let used = add(db, action, subject, count).await?;
        used.expect_within(db, factor)?;
        most_used = most_used.max(used.amount);
    }
    let used = add(db, action, Subject::Instance, count).await?;
    let is_within = used.expect_within(db, factor);
    if is_within.is_err() && most_used <= OWN_SHARE * factor && are_established(db, subjects).await? {
        return Ok(());
    }
    is_within
}

/// Who created the organization that is among the subjects.
async fn founder_of(db: &mut WriteTx, subjects: &[Subject<'_>]) -> Result<Option<UserId>> {
    const SQL: &str = "SELECT founded_by FROM organization WHERE id = $1";
    let Some(organization) = organization_of(subjects) else {
        return Ok(None);
    };
    let found: Option<Option<UserId>> =
        on!(db, conn => sqlx::query_scalar(SQL).bind(organization).fetch_optional(conn))?;
    Ok(found.flatten())
}

/// Whether the person has proven their address and been here for a while, or acts for an organization that has. Networks are
/// not asked for that: nobody creates them.
async fn are_established(db: &mut WriteTx, subjects: &[Subject<'_>]) -> Result<bool> {
    const PERSON: &str = "SELECT EXISTS (SELECT 1 FROM app_user \
        WHERE id = $1 AND created_at <= $2 AND is_email_verified) \
        OR EXISTS (SELECT 1 FROM app_user u JOIN member m ON m.user_id = u.id \
            JOIN organization o ON o.id = m.organization_id LEFT JOIN app_user f ON f.id = o.founded_by \
            WHERE u.id = $1 AND u.created_at < $3 AND (o.id = $4 OR $5) AND o.created_at <= $2 \
            AND (f.id IS NULL OR f.is_email_verified))";
    const ORGANIZATION: &str = "SELECT EXISTS (SELECT 1 FROM organization WHERE id = $1 AND created_at <= $2)";
    let (hour, old) = (hour_of(db.now), db.now - ESTABLISHED_AFTER);
    let user = subjects.iter().find_map(|subject| match subject {
        Subject::User(id) => Some(*id),
        _ => None,
    });
    let organization = organization_of(subjects);
    Ok(match (user, organization) {
        (Some(user), _) => on!(db, conn => sqlx::query_scalar(PERSON)
            .bind(user)
            .bind(old)
            .bind(hour)
            .bind(organization.unwrap_or(OrganizationId::NONE))
            .bind(organization.is_none())
            .fetch_one(conn))?,
        (None, Some(organization)) => {
            on!(db, conn => sqlx::query_scalar(ORGANIZATION).bind(organization).bind(old).fetch_one(conn))?
        }
        (None, None) => true,
    })
}

fn organization_of(subjects: &[Subject<'_>]) -> Option<OrganizationId> {
    subjects.iter().find_map(|subject| match subject {
        Subject::Organization(id) => Some(*id),
        _ => None,
    })
}

/// Counts a password that is to be judged and hashed for whoever has a link, whatever becomes of it.
pub(crate) async fn take_link_attempt(db: &mut WriteTx, limits: HourlyLimits, link: &str) -> Result<()> {
    take_of(db, limits, Action::LinkAttempt, Subject::Link(link)).await
}

/// The same of one subject alone, once.
pub(crate) async fn take_of(
    db: &mut WriteTx,
    limits: HourlyLimits,
    action: Action,
    subject: Subject<'_>,
) -> Result<()> {
    let Some(factor) = limits.0 else { return Ok(()) };
    let used = add(db, action, subject, 1).await?;
    used.expect_within(db, factor)
}

/// Uses up as many of `count` as the subject has left, and tells how many these are.
pub(crate) async fn take_up_to(
    db: &mut WriteTx,
    limits: HourlyLimits,
    action: Action,
    count: usize,
    subject: Subject<'_>,
) -> Result<usize> {
    let Some(factor) = limits.0 else { return Ok(count) };
    let wanted = i64::try_from(count).unwrap_or(i64::MAX);
    let used = add(db, action, subject, wanted).await?;
    let too_many = (used.amount - action.most(subject) * factor).clamp(0, wanted);
    Ok(usize::try_from(wanted - too_many).unwrap_or_default())
}

/// Fails if the subject has none left, and uses nothing up.
pub(crate) async fn expect_left(
    db: &mut WriteTx,
    limits: HourlyLimits,
    action: Action,
    subject: Subject<'_>,
) -> Result<()> {
    let Some(factor) = limits.0 else { return Ok(()) };
    let mut used = add(db, action, subject, 0).await?;
    used.amount += 1;
    used.expect_within(db, factor)
}

/// How much of something was used in the hour under way.
struct Used<'a> {
    action: Action,
    subject: Subject<'a>,
    amount: i64,
    starts_at: Time,
}

impl Used<'_> {
    fn expect_within(&self, db: &WriteTx, factor: i64) -> Result<()> {
        let most = self.action.most(self.subject) * factor;
        if self.amount <= most {
            return Ok(());
        }
        Err(Error::LimitReached {
            detail: format!(
                "{} can have at most {most} {} per hour",
                self.subject.called(),
                self.action.plural()
            ),
            wait: (self.starts_at + HOUR - db.now).to_std().unwrap_or_default(),
        })
    }
}

/// What that makes in the hour under way. A replica whose clock is behind counts for the later hour; an hour that is farther
/// ahead was written by a clock that was wrong, and no longer counts.
async fn add<'a>(db: &mut WriteTx, action: Action, subject: Subject<'a>, count: i64) -> Result<Used<'a>> {
    const SQL: &str = "INSERT INTO hourly_count (action, subject, starts_at, used) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (action, subject) DO UPDATE SET \
        used = CASE WHEN hourly_count.starts_at BETWEEN excluded.starts_at AND $5 \
            THEN hourly_count.used + excluded.used ELSE excluded.used END, \
        starts_at = CASE WHEN hourly_count.starts_at BETWEEN excluded.starts_at AND $5 \
            THEN hourly_count.starts_at ELSE excluded.starts_at END RETURNING used, starts_at";
    let starts_at = hour_of(db.now);
    let (amount, starts_at) = on!(db, conn => sqlx::query_as(SQL)
        .bind(action.as_str())
        .bind(subject.to_string())
        .bind(starts_at)
        .bind(count)
        .bind(starts_at + HOUR)
        .fetch_one(conn))?;
    Ok(Used {
        action,
        subject,
        amount,
        starts_at,
    })
}

fn hour_of(now: Time) -> Time {
    now.duration_trunc(HOUR).unwrap_or(now)
}

impl Service {
    /// Counts one more of what stays in the activity log and in lists, also when it is deleted again. Operators create any number.
    pub(crate) async fn count_created<P>(&self, db: &mut WriteTx, caller: &Caller<P>, action: Action) -> Result<()> {
        let subjects = [Subject::User(caller.user), Subject::Organization(caller.organization)];
        match take(db, self.core.instance.hourly_limits, action, 1, &subjects).await {
            // In the same transaction: whoever holds the writer waits for no other turn.
            Err(Error::LimitReached { .. }) if operators::sql::is_operator(db, caller.user).await? => Ok(()),
            counted => counted,
        }
    }

    /// Forgets networks, addresses and links that have been quiet; people and organizations are as many as there are.
    pub async fn forget_old_counts(&self) -> Result<()> {
        const SQL: &str = "DELETE FROM hourly_count WHERE starts_at < $1 \
            AND (subject LIKE 'network %' OR subject LIKE 'address %' OR subject LIKE 'link %')";
        let mut db = self.write().await?;
        let before = db.now - TimeDelta::days(1);
        changed!(db, sqlx::query(SQL).bind(before))?;
        db.commit_unrecorded().await
    }
}

/// How many organizations somebody creates: each has a share of what organizations take turns at. Kept by each process, as the
/// database would have to be asked at every one.
pub(crate) struct Founding(Option<DefaultKeyedRateLimiter<UserId>>);

impl Founding {
    const AN_HOUR: u32 = 200;
    /// Past this many people those that have been quiet are forgotten, so that memory stays bounded.
    const REMEMBERED: usize = 10_000;

    pub(crate) fn new(limits: HourlyLimits) -> Self {
        let most = limits.scaled(Self::AN_HOUR);
        Self(
            most.and_then(NonZeroU32::new)
                .map(|most| RateLimiter::keyed(Quota::per_hour(most))),
        )
    }

    /// Counts one; `Err` with the time to wait if there were too many.
    pub(crate) fn count(&self, user: UserId) -> Result<()> {
        let Some(limiter) = &self.0 else { return Ok(()) };
        if limiter.len() > Self::REMEMBERED {
            limiter.retain_recent();
        }
        let wait = |until: NotUntil<_>| until.wait_time_from(DefaultClock::default().now());
        limiter.check_key(&user).map_err(|until| Error::LimitReached {
            detail: "Each user can create a few hundred organizations per hour. Operators of the instance have no \
                     limit"
                .to_owned(),
            wait: wait(until),
        })
    }
}

impl fmt::Debug for Founding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Founding").finish_non_exhaustive()
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
