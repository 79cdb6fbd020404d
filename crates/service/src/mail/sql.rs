use sqlx::types::Json;

use super::MailClass;
use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{InviteId, MailId, OrganizationId};
use crate::transaction::WriteTx;

/// A mail and where it belongs in the queue.
#[derive(sqlx::FromRow)]
pub(super) struct Waiting {
    pub(super) id: MailId,
    pub(super) class: MailClass,
    pub(super) source: String,
}

/// The position behind all that the source `$3` has waiting in the class `$2`. A source that has nothing waiting starts where
/// the queue is now, rather than at the beginning: so it comes before all but the first of every other, and nobody who
/// waits is overtaken again and again by sources that come later.
macro_rules! next_position {
    () => {
        "(SELECT coalesce(max(first.position), 0) FROM ( \
           SELECT min(q.position) AS position FROM email_outbox q WHERE q.class = $2 AND q.position IS NOT NULL \
           UNION ALL \
           SELECT max(q.position) + 1 AS position FROM email_outbox q \
           WHERE q.class = $2 AND q.source = $3 AND q.position IS NOT NULL) AS first)"
    };
}

pub(super) async fn insert(
    db: &mut WriteTx,
    waiting: &Waiting,
    recipient: &str,
    content: &[u8],
    invite: Option<InviteId>,
) -> Result<()> {
    const SQL: &str = concat!(
        "INSERT INTO email_outbox (id, class, source, recipient, content, invite_id, attempts, next_attempt_at, created_at, \
         position) \
         VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $7, ",
        next_position!(),
        ")"
    );
    let now = db.now;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(waiting.id)
            .bind(waiting.class)
            .bind(&waiting.source)
            .bind(recipient)
            .bind(content)
            .bind(invite)
            .bind(now)
    )?;
    Ok(())
}

/// The first of a class that is none of these sources'. Looks at so many only: sources take turns, so what has waited for its
/// turn is among the first, however much the busy ones have waiting.
pub(super) async fn head(db: &mut Session, class: MailClass, busy: [&str; 2]) -> Result<Option<MailId>> {
    const SQL: &str = "SELECT id FROM ( \
           SELECT id, source, position FROM email_outbox WHERE class = $1 AND position IS NOT NULL \
           ORDER BY position, id LIMIT 1000 \
         ) AS first WHERE source NOT IN ($2, $3) ORDER BY position, id LIMIT 1";
    let [one, other] = busy;
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(class).bind(one).bind(other).fetch_optional(conn))?)
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: MailId,
    pub(super) recipient: String,
    pub(super) content: Vec<u8>,
    pub(super) invite_id: Option<InviteId>,
    pub(super) source: String,
    pub(super) attempts: i64,
    pub(super) created_at: Time,
}

/// Takes one out of the queue and keeps others from it until `lease_until`. `None`: somebody else has taken it.
pub(super) async fn take(db: &mut WriteTx, id: MailId, lease_until: Time) -> Result<Option<Row>> {
    const SQL: &str = "UPDATE email_outbox SET position = NULL, next_attempt_at = $2, attempts = attempts + 1 \
        WHERE id = $1 AND position IS NOT NULL \
        RETURNING id, recipient, content, invite_id, source, attempts, created_at";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(id).bind(lease_until).fetch_optional(conn))?)
}

pub(super) async fn is_put_off_until(db: &mut Session, now: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM email_outbox WHERE position IS NULL AND next_attempt_at <= $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(now).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// Some of those that are due again, those first that have been for longest.
pub(super) async fn lock_put_off(db: &mut WriteTx) -> Result<Vec<Waiting>> {
    macro_rules! put_off {
        ($rest:literal) => {
            concat!(
                "SELECT id, class, source FROM email_outbox WHERE position IS NULL AND next_attempt_at <= $1 \
                 ORDER BY next_attempt_at LIMIT 100",
                $rest
            )
        };
    }
    let sql = db.pick(put_off!(""), put_off!(" FOR NO KEY UPDATE SKIP LOCKED"));
    let now = db.now;
    Ok(on!(db, conn => sqlx::query_as(sql).bind(now).fetch_all(conn))?)
}

pub(super) async fn requeue(db: &mut WriteTx, waiting: &Waiting) -> Result<()> {
    const SQL: &str = concat!(
        "UPDATE email_outbox SET position = ",
        next_position!(),
        " WHERE id = $1"
    );
    let Waiting { id, class, source } = waiting;
    changed!(db, sqlx::query(SQL).bind(id).bind(class).bind(source))?;
    Ok(())
}

pub(super) async fn put_off(db: &mut WriteTx, id: MailId, next: Option<Time>, error: &str) -> Result<()> {
    const SQL: &str = "UPDATE email_outbox SET next_attempt_at = $2, last_error = $3 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(next).bind(error))?;
    Ok(())
}

pub(super) async fn delete(db: &mut WriteTx, id: MailId) -> Result<()> {
    changed!(db, sqlx::query("DELETE FROM email_outbox WHERE id = $1").bind(id))?;
    Ok(())
}

/// An invite that is gone needs no mail.
pub(crate) async fn delete_of_invite(db: &mut WriteTx, invite: InviteId) -> Result<()> {
    changed!(
        db,
        sqlx::query("DELETE FROM email_outbox WHERE invite_id = $1").bind(invite)
    )?;
    Ok(())
}

/// The same for those that these addresses have.
pub(crate) async fn delete_of_targets(db: &mut WriteTx, organization: OrganizationId, keys: &[&str]) -> Result<()> {
    macro_rules! delete {
        ($keys:literal) => {
            concat!(
                "DELETE FROM email_outbox WHERE invite_id IN (SELECT id FROM invite \
                 WHERE organization_id = $1 AND target_email IN (SELECT ",
                $keys,
                "))"
            )
        };
    }
    let sql = db.pick(
        delete!("value FROM json_each($2)"),
        delete!("jsonb_array_elements_text($2)"),
    );
    changed!(db, sqlx::query(sql).bind(organization).bind(Json(keys)))?;
    Ok(())
}

pub(super) async fn delete_given_up(db: &mut WriteTx, before: Time) -> Result<u64> {
    const SQL: &str = "DELETE FROM email_outbox WHERE position IS NULL AND next_attempt_at IS NULL AND created_at < $1";
    Ok(changed!(db, sqlx::query(SQL).bind(before))?)
}
