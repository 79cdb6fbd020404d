use crate::clock::Time;
use crate::db::{Session, Writing, changed, on};
use crate::error::Result;
use crate::id::{InviteId, MailId};

pub(super) async fn insert(
    db: &mut Writing,
    id: MailId,
    recipient: &str,
    content: &[u8],
    invite: Option<InviteId>,
) -> Result<()> {
    const SQL: &str = "INSERT INTO mail (id, recipient, content, invite_id, attempts, next_attempt_at, created_at) \
        VALUES ($1, $2, $3, $4, 0, $5, $5)";
    let now = db.now;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(recipient)
            .bind(content)
            .bind(invite)
            .bind(now)
    )?;
    Ok(())
}

/// Whether there is anything to do: asking costs less than writing.
pub(super) async fn is_due(db: &mut Session, now: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM mail WHERE next_attempt_at <= $1 LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(now).fetch_optional(conn))?;
    Ok(found.is_some())
}

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: MailId,
    pub(super) recipient: String,
    pub(super) content: Vec<u8>,
    pub(super) invite_id: Option<InviteId>,
    pub(super) attempts: i64,
    pub(super) created_at: Time,
}

/// Takes one that is due and keeps others from it until `lease_until`.
pub(super) async fn take(db: &mut Writing, lease_until: Time) -> Result<Option<Row>> {
    let sql = db.pick(
        "UPDATE mail SET next_attempt_at = $2, attempts = attempts + 1 WHERE id = \
         (SELECT id FROM mail WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT 1) \
         RETURNING id, recipient, content, invite_id, attempts, created_at",
        "UPDATE mail SET next_attempt_at = $2, attempts = attempts + 1 WHERE id = \
         (SELECT id FROM mail WHERE next_attempt_at <= $1 ORDER BY next_attempt_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) \
         RETURNING id, recipient, content, invite_id, attempts, created_at",
    );
    let now = db.now;
    Ok(on!(db, conn => sqlx::query_as(sql).bind(now).bind(lease_until).fetch_optional(conn))?)
}

pub(super) async fn put_off(db: &mut Writing, id: MailId, next: Option<Time>, error: &str) -> Result<()> {
    const SQL: &str = "UPDATE mail SET next_attempt_at = $2, last_error = $3 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(id).bind(next).bind(error))?;
    Ok(())
}

pub(super) async fn delete(db: &mut Writing, id: MailId) -> Result<()> {
    changed!(db, sqlx::query("DELETE FROM mail WHERE id = $1").bind(id))?;
    Ok(())
}

/// An invite that is gone needs no mail.
pub(crate) async fn delete_of_invite(db: &mut Writing, invite: InviteId) -> Result<()> {
    changed!(db, sqlx::query("DELETE FROM mail WHERE invite_id = $1").bind(invite))?;
    Ok(())
}

pub(super) async fn delete_given_up(db: &mut Writing, before: Time) -> Result<u64> {
    const SQL: &str = "DELETE FROM mail WHERE next_attempt_at IS NULL AND created_at < $1";
    Ok(changed!(db, sqlx::query(SQL).bind(before))?)
}
