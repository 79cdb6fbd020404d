use auth::key::SecretHash;

use super::Listed;
use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{OrganizationId, SessionId, UserId, UserUuid};
use crate::level::Level;
use crate::text::Email;
use crate::transaction::WriteTx;

pub(super) struct Row {
    pub(super) id: SessionId,
    pub(super) user: UserId,
    pub(super) hash: SecretHash,
    pub(super) expires_at: Time,
    pub(super) method: &'static str,
    pub(super) has_second_factor: bool,
    pub(super) authenticated_by: Option<OrganizationId>,
    pub(super) address: String,
    pub(super) user_agent: String,
}

pub(super) async fn insert(db: &mut WriteTx, row: &Row) -> Result<()> {
    const SQL: &str = "INSERT INTO session (id, user_id, secret_hash, created_at, last_used_at, expires_at, method, \
        has_second_factor, organization_id, address, user_agent) VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10)";
    let now = db.now;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(row.id)
            .bind(row.user)
            .bind(row.hash.as_slice())
            .bind(now)
            .bind(row.expires_at)
            .bind(row.method)
            .bind(row.has_second_factor)
            .bind(row.authenticated_by)
            .bind(&row.address)
            .bind(&row.user_agent)
    )?;
    Ok(())
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct SessionOwner {
    pub(crate) session_id: SessionId,
    pub(crate) user_id: UserId,
    pub(crate) uuid: UserUuid,
    pub(crate) email: String,
    pub(crate) is_operator: bool,
    pub(crate) current_organization_id: Option<OrganizationId>,
    pub(crate) last_used_at: Time,
    pub(crate) expires_at: Time,
    pub(crate) has_second_factor: bool,
    pub(crate) authenticated_by: Option<OrganizationId>,
    pub(crate) provider_of: Option<OrganizationId>,
    pub(crate) authenticated_at: Time,
    /// The user's level in the organization that was asked about.
    pub(crate) level: Option<Level>,
    /// Whether that organization asks for a second factor.
    pub(crate) enforce_2fa: Option<bool>,
}

pub(crate) async fn owner(
    db: &mut Session,
    hash: &SecretHash,
    organization: Option<OrganizationId>,
) -> Result<Option<SessionOwner>> {
    const SQL: &str = "SELECT s.id AS session_id, s.user_id, u.uuid, u.email, u.is_operator, u.current_organization_id, s.last_used_at, \
        s.expires_at, s.has_second_factor, s.organization_id AS authenticated_by, \
        CASE WHEN s.method <> 'recovery_code' THEN s.organization_id END AS provider_of, \
        coalesce(s.authenticated_at, s.created_at) AS authenticated_at, m.level, o.enforce_2fa \
        FROM session s JOIN app_user u ON u.id = s.user_id \
        LEFT JOIN member m ON m.user_id = u.id AND m.organization_id = $2 \
        LEFT JOIN organization o ON o.id = m.organization_id WHERE s.secret_hash = $1";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(hash.as_slice()).bind(organization).fetch_optional(conn))?)
}

#[derive(sqlx::FromRow)]
pub(super) struct Ties {
    pub(super) belongs_elsewhere: bool,
    pub(super) needs_second_factor: bool,
}

/// What the organizations that somebody belongs to mean for a session.
pub(super) async fn ties(db: &mut Session, user: UserId, authenticated_by: Option<OrganizationId>) -> Result<Ties> {
    const SQL: &str = "SELECT \
        EXISTS (SELECT 1 FROM member m WHERE m.user_id = $1 AND m.organization_id <> $2) AS belongs_elsewhere, \
        EXISTS (SELECT 1 FROM member m JOIN organization o ON o.id = m.organization_id \
            WHERE m.user_id = $1 AND o.enforce_2fa) AS needs_second_factor";
    let authenticated_by = authenticated_by.unwrap_or(OrganizationId::NONE);
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(user).bind(authenticated_by).fetch_one(conn))?)
}

pub(super) async fn of_user(db: &mut Session, user: UserId, alive_since: Time, now: Time) -> Result<Vec<Listed>> {
    const SQL: &str = "SELECT id, method, has_second_factor, address, user_agent, created_at, last_used_at, expires_at \
        FROM session WHERE user_id = $1 AND last_used_at > $2 AND expires_at > $3 ORDER BY id DESC";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(user).bind(alive_since).bind(now).fetch_all(conn))?)
}

pub(crate) async fn is_there(db: &mut Session, id: SessionId) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM session WHERE id = $1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).bind(id).fetch_optional(conn))?;
    Ok(found.is_some())
}

pub(super) async fn touch(db: &mut WriteTx, id: SessionId) -> Result<()> {
    const SQL: &str = "UPDATE session SET last_used_at = $2 WHERE id = $1";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(id).bind(now))?;
    Ok(())
}

pub(super) async fn renew(db: &mut WriteTx, id: SessionId, hash: &SecretHash, has_second_factor: bool) -> Result<()> {
    const SQL: &str = "UPDATE session SET secret_hash = $2, has_second_factor = $3 WHERE id = $1";
    changed!(
        db,
        sqlx::query(SQL).bind(id).bind(hash.as_slice()).bind(has_second_factor)
    )?;
    Ok(())
}

pub(super) async fn confirm(db: &mut WriteTx, id: SessionId, hash: &SecretHash) -> Result<()> {
    const SQL: &str = "UPDATE session SET secret_hash = $2, authenticated_at = $3 WHERE id = $1";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(id).bind(hash.as_slice()).bind(now))?;
    Ok(())
}

pub(super) async fn delete(db: &mut WriteTx, hash: &SecretHash) -> Result<()> {
    changed!(
        db,
        sqlx::query("DELETE FROM session WHERE secret_hash = $1").bind(hash.as_slice())
    )?;
    Ok(())
}

pub(super) async fn delete_one(db: &mut WriteTx, user: UserId, id: SessionId) -> Result<bool> {
    const SQL: &str = "DELETE FROM session WHERE user_id = $1 AND id = $2";
    Ok(changed!(db, sqlx::query(SQL).bind(user).bind(id))? > 0)
}

/// All sessions of somebody but the one to keep, if there is one to keep.
pub(crate) async fn delete_others(db: &mut WriteTx, user: UserId, kept: Option<SessionId>) -> Result<()> {
    const SQL: &str = "DELETE FROM session WHERE user_id = $1 AND id <> $2";
    let kept = kept.unwrap_or(SessionId(uuid::Uuid::nil()));
    changed!(db, sqlx::query(SQL).bind(user).bind(kept))?;
    Ok(())
}

pub(crate) async fn delete_of_user(db: &mut WriteTx, user: UserId) -> Result<()> {
    delete_others(db, user, None).await
}

/// Those that an organization's identity provider opened for somebody.
pub(crate) async fn delete_vouched(db: &mut WriteTx, user: UserId, organization: OrganizationId) -> Result<()> {
    const SQL: &str = "DELETE FROM session WHERE user_id = $1 AND organization_id = $2 AND method <> 'recovery_code'";
    changed!(db, sqlx::query(SQL).bind(user).bind(organization))?;
    Ok(())
}

/// Sessions of people with addresses on a domain that were opened in another way than the one that counts from now on.
/// What an owner opened with a recovery code stays: it is for when nothing else works.
pub(crate) async fn delete_of_domain(db: &mut WriteTx, domain: &str, method: &str) -> Result<()> {
    const SQL: &str = "DELETE FROM session WHERE method <> $2 AND method <> 'recovery_code' \
        AND user_id IN (SELECT id FROM app_user WHERE email_key LIKE $1)";
    changed!(db, sqlx::query(SQL).bind(Email::keys_on(domain)).bind(method))?;
    Ok(())
}

pub(super) async fn delete_over(db: &mut WriteTx) -> Result<u64> {
    let now = db.now;
    Ok(changed!(
        db,
        sqlx::query("DELETE FROM session WHERE expires_at < $1").bind(now)
    )?)
}

/// All but so many of the newest. The one that was just opened stays, whatever the clock says.
pub(super) async fn delete_oldest(db: &mut WriteTx, user: UserId, opened: SessionId, most: i64) -> Result<()> {
    // Ids are time-ordered.
    const SQL: &str = "DELETE FROM session WHERE user_id = $1 AND id <> $2 AND id <= \
        (SELECT id FROM session WHERE user_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $3)";
    changed!(db, sqlx::query(SQL).bind(user).bind(opened).bind(most))?;
    Ok(())
}
