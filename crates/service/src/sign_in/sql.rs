use auth::key::SecretHash;
use uuid::Uuid;

use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::{OrganizationId, UserId};
use crate::text::Email;
use crate::transaction::WriteTx;
use crate::users::User;
use crate::users::sql::user_columns;

pub(super) async fn locked_until(db: &mut Session, email: &SecretHash) -> Result<Option<Time>> {
    const SQL: &str = "SELECT locked_until FROM sign_in_failure WHERE email_hash = $1";
    let found: Option<Option<Time>> =
        on!(db, conn => sqlx::query_scalar(SQL).bind(email.as_slice()).fetch_optional(conn))?;
    Ok(found.flatten())
}

/// How many failures that makes, and until when the address is locked.
pub(super) async fn add_failure(db: &mut WriteTx, email: &SecretHash) -> Result<(i64, Option<Time>)> {
    const SQL: &str = "INSERT INTO sign_in_failure (email_hash, failures, last_at) VALUES ($1, 1, $2) \
        ON CONFLICT (email_hash) DO UPDATE SET failures = sign_in_failure.failures + 1, last_at = excluded.last_at \
        RETURNING failures, locked_until";
    let now = db.now;
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(email.as_slice()).bind(now).fetch_one(conn))?)
}

/// Takes one back that was none, and the lock that came with it.
pub(super) async fn take_failure_back(db: &mut WriteTx, email: &SecretHash, most: i64) -> Result<()> {
    const SQL: &str = "UPDATE sign_in_failure SET failures = failures - 1, \
        locked_until = CASE WHEN failures % $2 = 0 THEN NULL ELSE locked_until END \
        WHERE email_hash = $1 AND failures > 0";
    changed!(db, sqlx::query(SQL).bind(email.as_slice()).bind(most))?;
    Ok(())
}

pub(super) async fn lock(db: &mut WriteTx, email: &SecretHash, until: Time) -> Result<()> {
    const SQL: &str = "UPDATE sign_in_failure SET locked_until = $2 WHERE email_hash = $1";
    changed!(db, sqlx::query(SQL).bind(email.as_slice()).bind(until))?;
    Ok(())
}

pub(super) async fn forget_failures(db: &mut WriteTx, email: &SecretHash) -> Result<()> {
    const SQL: &str = "DELETE FROM sign_in_failure WHERE email_hash = $1";
    changed!(db, sqlx::query(SQL).bind(email.as_slice()))?;
    Ok(())
}

pub(super) async fn forget_old_failures(db: &mut WriteTx, before: Time) -> Result<()> {
    const SQL: &str = "DELETE FROM sign_in_failure WHERE last_at < $1";
    changed!(db, sqlx::query(SQL).bind(before))?;
    Ok(())
}

/// Whether the account was signed in to from this network lately.
pub(super) async fn is_known(db: &mut Session, account_and_network: &SecretHash) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM known_network WHERE hash = $1";
    let found: Option<i32> =
        on!(db, conn => sqlx::query_scalar(SQL).bind(account_and_network.as_slice()).fetch_optional(conn))?;
    Ok(found.is_some())
}

pub(super) async fn remember_network(db: &mut WriteTx, account_and_network: &SecretHash) -> Result<()> {
    const SQL: &str = "INSERT INTO known_network (hash, last_at) VALUES ($1, $2) \
        ON CONFLICT (hash) DO UPDATE SET last_at = excluded.last_at";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(account_and_network.as_slice()).bind(now))?;
    Ok(())
}

pub(super) async fn forget_networks(db: &mut WriteTx, before: Time) -> Result<()> {
    const SQL: &str = "DELETE FROM known_network WHERE last_at < $1";
    changed!(db, sqlx::query(SQL).bind(before))?;
    Ok(())
}

pub(super) async fn insert_challenge(
    db: &mut WriteTx,
    hash: &SecretHash,
    user: UserId,
    expires_at: Time,
) -> Result<()> {
    const SQL: &str = "INSERT INTO challenge (secret_hash, user_id, tries, expires_at) VALUES ($1, $2, 0, $3)";
    const CLEAR: &str = "DELETE FROM challenge WHERE expires_at < $1 OR user_id = $2";
    let now = db.now;
    // One at a time: many would be many more guesses.
    changed!(db, sqlx::query(CLEAR).bind(now).bind(user))?;
    changed!(db, sqlx::query(SQL).bind(hash.as_slice()).bind(user).bind(expires_at))?;
    Ok(())
}

/// Whose password was right, if the challenge still stands.
pub(super) async fn challenged(db: &mut WriteTx, hash: &SecretHash) -> Result<Option<User>> {
    const SQL: &str = concat!(
        "SELECT ",
        user_columns!(),
        " FROM challenge c JOIN app_user u ON u.id = c.user_id WHERE c.secret_hash = $1 AND c.expires_at > $2"
    );
    let now = db.now;
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(hash.as_slice()).bind(now).fetch_optional(conn))?)
}

/// Counts a wrong code; after too many the challenge is gone.
pub(super) async fn count_try(db: &mut WriteTx, hash: &SecretHash, most: i64) -> Result<()> {
    const COUNT: &str = "UPDATE challenge SET tries = tries + 1 WHERE secret_hash = $1";
    const END: &str = "DELETE FROM challenge WHERE secret_hash = $1 AND tries >= $2";
    changed!(db, sqlx::query(COUNT).bind(hash.as_slice()))?;
    changed!(db, sqlx::query(END).bind(hash.as_slice()).bind(most))?;
    Ok(())
}

pub(super) async fn delete_challenge(db: &mut WriteTx, hash: &SecretHash) -> Result<()> {
    const SQL: &str = "DELETE FROM challenge WHERE secret_hash = $1";
    changed!(db, sqlx::query(SQL).bind(hash.as_slice()))?;
    Ok(())
}

pub(super) async fn insert_reset(db: &mut WriteTx, hash: &SecretHash, user: UserId, expires_at: Time) -> Result<()> {
    const SQL: &str = "INSERT INTO password_reset (secret_hash, user_id, expires_at) VALUES ($1, $2, $3)";
    changed!(db, sqlx::query(SQL).bind(hash.as_slice()).bind(user).bind(expires_at))?;
    Ok(())
}

pub(super) async fn reset_of(db: &mut Session, hash: &SecretHash, now: Time) -> Result<Option<User>> {
    const SQL: &str = concat!(
        "SELECT ",
        user_columns!(),
        " FROM password_reset r JOIN app_user u ON u.id = r.user_id WHERE r.secret_hash = $1 AND r.expires_at > $2"
    );
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(hash.as_slice()).bind(now).fetch_optional(conn))?)
}

pub(super) async fn insert_reset_request(db: &mut WriteTx, id: Uuid, email: &[u8], request: &str) -> Result<()> {
    const SQL: &str = "INSERT INTO password_reset_request (id, email, request_id, created_at) VALUES ($1, $2, $3, $4)";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(id).bind(email).bind(request).bind(now))?;
    Ok(())
}

/// Asking costs less than writing.
pub(super) async fn has_reset_requests(db: &mut Session) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM password_reset_request LIMIT 1";
    let found: Option<i32> = on!(db, conn => sqlx::query_scalar(SQL).fetch_optional(conn))?;
    Ok(found.is_some())
}

#[derive(sqlx::FromRow)]
pub(super) struct ResetRequest {
    pub(super) id: Uuid,
    /// Encrypted.
    pub(super) email: Vec<u8>,
    pub(super) request_id: String,
}

pub(super) async fn take_reset_request(db: &mut WriteTx) -> Result<Option<ResetRequest>> {
    let sql = db.pick(
        "DELETE FROM password_reset_request WHERE id = (SELECT id FROM password_reset_request ORDER BY id LIMIT 1) \
         RETURNING id, email, request_id",
        "DELETE FROM password_reset_request WHERE id = (SELECT id FROM password_reset_request ORDER BY id LIMIT 1 \
         FOR UPDATE SKIP LOCKED) RETURNING id, email, request_id",
    );
    Ok(on!(db, conn => sqlx::query_as(sql).fetch_optional(conn))?)
}

/// Somebody asked a moment ago, and the link is on its way.
pub(super) async fn has_reset_since(db: &mut Session, user: UserId, expires_after: Time) -> Result<bool> {
    const SQL: &str = "SELECT 1 FROM password_reset WHERE user_id = $1 AND expires_at > $2 LIMIT 1";
    let found: Option<i32> =
        on!(db, conn => sqlx::query_scalar(SQL).bind(user).bind(expires_after).fetch_optional(conn))?;
    Ok(found.is_some())
}

/// Everything that waits for somebody to go on signing in.
pub(crate) async fn delete_pending(db: &mut WriteTx, user: UserId) -> Result<()> {
    changed!(db, sqlx::query("DELETE FROM challenge WHERE user_id = $1").bind(user))?;
    delete_resets(db, user).await
}

/// Uses a reset link up. Of two who come at once, one finds it.
pub(super) async fn take_reset(db: &mut WriteTx, hash: &SecretHash) -> Result<Option<UserId>> {
    const SQL: &str = "DELETE FROM password_reset WHERE secret_hash = $1 AND expires_at > $2 RETURNING user_id";
    let now = db.now;
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(hash.as_slice()).bind(now).fetch_optional(conn))?)
}

pub(crate) async fn delete_resets(db: &mut WriteTx, user: UserId) -> Result<()> {
    changed!(
        db,
        sqlx::query("DELETE FROM password_reset WHERE user_id = $1").bind(user)
    )?;
    Ok(())
}

pub(super) async fn insert_recovery_code(
    db: &mut WriteTx,
    organization: OrganizationId,
    user: UserId,
    hash: &SecretHash,
) -> Result<()> {
    const SQL: &str =
        "INSERT INTO recovery_code (organization_id, user_id, code_hash, created_at) VALUES ($1, $2, $3, $4)";
    let now = db.now;
    changed!(
        db,
        sqlx::query(SQL)
            .bind(organization)
            .bind(user)
            .bind(hash.as_slice())
            .bind(now)
    )?;
    Ok(())
}

/// Those of all organizations.
pub(crate) async fn delete_all_recovery_codes(db: &mut WriteTx, user: UserId) -> Result<()> {
    const SQL: &str = "DELETE FROM recovery_code WHERE user_id = $1";
    changed!(db, sqlx::query(SQL).bind(user))?;
    Ok(())
}

pub(crate) async fn delete_recovery_codes(db: &mut WriteTx, organization: OrganizationId, user: UserId) -> Result<()> {
    const SQL: &str = "DELETE FROM recovery_code WHERE organization_id = $1 AND user_id = $2";
    changed!(db, sqlx::query(SQL).bind(organization).bind(user))?;
    Ok(())
}

/// The organization whose owner may use this code.
pub(super) async fn organization_of_code(db: &mut Session, hash: &SecretHash) -> Result<Option<OrganizationId>> {
    const SQL: &str = "SELECT organization_id FROM recovery_code WHERE code_hash = $1";
    Ok(on!(db, conn => sqlx::query_scalar(SQL).bind(hash.as_slice()).fetch_optional(conn))?)
}

/// Uses a code up. Only a present owner's is good.
pub(super) async fn take_recovery_code(
    db: &mut WriteTx,
    email: &Email,
    hash: &SecretHash,
) -> Result<Option<(OrganizationId, UserId)>> {
    const SQL: &str = "DELETE FROM recovery_code WHERE code_hash = $2 AND user_id = \
        (SELECT id FROM app_user WHERE email_key = $1) AND EXISTS (SELECT 1 FROM member m \
            WHERE m.organization_id = recovery_code.organization_id AND m.user_id = recovery_code.user_id \
            AND m.level = 15) RETURNING organization_id, user_id";
    Ok(on!(db, conn => sqlx::query_as(SQL).bind(email.key()).bind(hash.as_slice()).fetch_optional(conn))?)
}
