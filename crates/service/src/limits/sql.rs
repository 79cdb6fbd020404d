use chrono::{DurationRound, TimeDelta};
use sqlx::types::Json;

use super::{Action, HourlyLimits, Subject};
use crate::clock::Time;
use crate::db::{changed, on};
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId};
use crate::organizations;
use crate::transaction::WriteTx;

const HOUR: TimeDelta = TimeDelta::hours(1);

/// Whoever is established and has used less than this is not held to the limit of the whole instance: otherwise a few who use
/// it up would keep everybody else out.
const OWN_SHARE: i64 = 20;
/// How old that is, so that nobody creates accounts to have their shares.
const ESTABLISHED_AFTER: TimeDelta = TimeDelta::days(1);

/// What was counted in the hour in progress is added to.
macro_rules! on_conflict {
    () => {
        "ON CONFLICT (action, subject) DO UPDATE SET \
         used = CASE WHEN hourly_count.starts_at BETWEEN excluded.starts_at AND $5 \
             THEN hourly_count.used + excluded.used ELSE excluded.used END, \
         starts_at = CASE WHEN hourly_count.starts_at BETWEEN excluded.starts_at AND $5 \
             THEN hourly_count.starts_at ELSE excluded.starts_at END RETURNING used, starts_at"
    };
}

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
    let creator = creator_of(db, subjects).await?.map(Subject::Creator);
    let mut most_used = 0;
    for subject in subjects.iter().copied().chain(creator) {
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
async fn creator_of(db: &mut WriteTx, subjects: &[Subject<'_>]) -> Result<Option<UserId>> {
    match organization_of(subjects) {
        Some(organization) => organizations::sql::creator(db, organization).await,
        None => Ok(None),
    }
}

/// Whether the person has proven their address and been here for a while, or acts for an organization that has. Networks are
/// not asked for that: nobody creates them.
async fn are_established(db: &mut WriteTx, subjects: &[Subject<'_>]) -> Result<bool> {
    const PERSON: &str = "SELECT EXISTS (SELECT 1 FROM app_user \
        WHERE id = $1 AND created_at <= $2 AND is_email_verified) \
        OR EXISTS (SELECT 1 FROM app_user u JOIN member m ON m.user_id = u.id \
            JOIN organization o ON o.id = m.organization_id LEFT JOIN app_user c ON c.id = o.created_by \
            WHERE u.id = $1 AND u.created_at < $3 AND (o.id = $4 OR $5) AND o.created_at <= $2 \
            AND (c.id IS NULL OR c.is_email_verified))";
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

/// The same of each of these subjects, which are of one kind and no two of them the same.
pub(crate) async fn take_of_each(
    db: &mut WriteTx,
    limits: HourlyLimits,
    action: Action,
    subjects: &[Subject<'_>],
) -> Result<()> {
    let (Some(factor), Some(&subject)) = (limits.0, subjects.first()) else {
        return Ok(());
    };
    // `WHERE true`, or SQLite takes what follows for a join.
    macro_rules! add_each {
        ($from:literal, $subject:literal) => {
            concat!(
                "INSERT INTO hourly_count (action, subject, starts_at, used) SELECT $1, ",
                $subject,
                ", $3, $4 FROM ",
                $from,
                " WHERE true ",
                on_conflict!()
            )
        };
    }
    let sql = db.pick(
        add_each!("json_each($2)", "value"),
        add_each!("jsonb_array_elements_text($2) AS each (subject)", "each.subject"),
    );
    let names: Vec<String> = subjects.iter().map(ToString::to_string).collect();
    let starts_at = hour_of(db.now);
    let used: Vec<(i64, Time)> = on!(db, conn => sqlx::query_as(sql)
        .bind(action.as_str())
        .bind(Json(&names))
        .bind(starts_at)
        .bind(1_i64)
        .bind(starts_at + HOUR)
        .fetch_all(conn))?;
    for (amount, starts_at) in used {
        let used = Used {
            action,
            subject,
            amount,
            starts_at,
        };
        used.expect_within(db, factor)?;
    }
    Ok(())
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

/// How much of something was used in the hour in progress.
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

/// What that makes in the hour in progress. A replica whose clock is behind counts for the later hour; an hour that is farther
/// ahead was written by a clock that was wrong, and no longer counts.
async fn add<'a>(db: &mut WriteTx, action: Action, subject: Subject<'a>, count: i64) -> Result<Used<'a>> {
    const SQL: &str = concat!(
        "INSERT INTO hourly_count (action, subject, starts_at, used) VALUES ($1, $2, $3, $4) ",
        on_conflict!()
    );
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

/// Forgets networks, addresses and links that were last counted before then.
pub(super) async fn forget_quiet(db: &mut WriteTx, before: Time) -> Result<()> {
    const SQL: &str = "DELETE FROM hourly_count WHERE starts_at < $1 \
        AND (subject LIKE 'network %' OR subject LIKE 'address %' OR subject LIKE 'link %')";
    changed!(db, sqlx::query(SQL).bind(before))?;
    Ok(())
}
