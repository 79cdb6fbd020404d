use auth::key::SecretHash;

use crate::clock::Time;
use crate::db::{Session, Writing, changed, on};
use crate::error::Result;
use crate::id::{OrganizationId, SessionId, UserId, UserUuid};
use crate::level::Level;

pub(super) async fn insert(db: &mut Writing, user: UserId, hash: &SecretHash, expires_at: Time) -> Result<()> {
    const SQL: &str = "INSERT INTO session (id, user_id, secret_hash, created_at, last_used_at, expires_at) \
        VALUES ($1, $2, $3, $4, $4, $5)";
    let (id, now) = (SessionId(db.uuid()), db.now);
    changed!(
        db,
        sqlx::query(SQL)
            .bind(id)
            .bind(user)
            .bind(hash.as_slice())
            .bind(now)
            .bind(expires_at)
    )?;
    Ok(())
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct Holder {
    pub(crate) session_id: SessionId,
    pub(crate) user_id: UserId,
    pub(crate) uuid: UserUuid,
    pub(crate) email: String,
    pub(crate) current_organization_id: Option<OrganizationId>,
    pub(crate) last_used_at: Time,
    pub(crate) expires_at: Time,
    /// The user's level in the organization that was asked about.
    pub(crate) level: Option<Level>,
}

pub(crate) async fn holder(
    db: &mut Session,
    hash: &SecretHash,
    organization: Option<OrganizationId>,
) -> Result<Option<Holder>> {
    const SQL: &str = "SELECT s.id AS session_id, s.user_id, u.uuid, u.email, u.current_organization_id, s.last_used_at, \
        s.expires_at, m.level FROM session s JOIN app_user u ON u.id = s.user_id \
        LEFT JOIN member m ON m.user_id = u.id AND m.organization_id = $2 WHERE s.secret_hash = $1";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(hash.as_slice()).bind(organization).fetch_optional(conn))?)
}

pub(super) async fn touch(db: &mut Writing, id: SessionId) -> Result<()> {
    const SQL: &str = "UPDATE session SET last_used_at = $2 WHERE id = $1";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(id).bind(now))?;
    Ok(())
}

pub(super) async fn delete(db: &mut Writing, hash: &SecretHash) -> Result<()> {
    changed!(
        db,
        sqlx::query("DELETE FROM session WHERE secret_hash = $1").bind(hash.as_slice())
    )?;
    Ok(())
}

pub(crate) async fn delete_of_user(db: &mut Writing, user: UserId) -> Result<()> {
    changed!(db, sqlx::query("DELETE FROM session WHERE user_id = $1").bind(user))?;
    Ok(())
}

pub(super) async fn delete_over(db: &mut Writing) -> Result<u64> {
    let now = db.now;
    Ok(changed!(
        db,
        sqlx::query("DELETE FROM session WHERE expires_at < $1").bind(now)
    )?)
}
