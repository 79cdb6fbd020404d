use auth::key::SecretHash;

use crate::db::{Session, changed, on};
use crate::error::Result;
use crate::id::UserId;
use crate::transaction::WriteTx;

pub(crate) async fn is_set_up(db: &mut Session, user: UserId) -> Result<bool> {
    const SQL: &str = "SELECT totp_confirmed_at IS NOT NULL FROM app_user WHERE id = $1";
    let found: Option<bool> = on!(db, conn => sqlx::query_scalar(SQL).bind(user).fetch_optional(conn))?;
    Ok(found.unwrap_or(false))
}

/// Tells whether there was none yet that counts.
pub(super) async fn put_secret(db: &mut WriteTx, user: UserId, encrypted: &[u8]) -> Result<bool> {
    const SQL: &str = "UPDATE app_user SET totp_secret = $2, totp_last_step = NULL \
        WHERE id = $1 AND totp_confirmed_at IS NULL";
    Ok(changed!(db, sqlx::query(SQL).bind(user).bind(encrypted))? > 0)
}

#[derive(sqlx::FromRow)]
pub(super) struct Totp {
    #[sqlx(rename = "totp_secret")]
    pub(super) secret: Vec<u8>,
    #[sqlx(rename = "totp_last_step")]
    pub(super) last_step: Option<i64>,
}

/// Keeps two requests from using one code.
pub(super) async fn lock(db: &mut WriteTx, user: UserId) -> Result<Option<Totp>> {
    let sql = db.pick(
        "SELECT totp_secret, totp_last_step FROM app_user WHERE id = $1 AND totp_secret IS NOT NULL",
        "SELECT totp_secret, totp_last_step FROM app_user WHERE id = $1 AND totp_secret IS NOT NULL FOR NO KEY UPDATE",
    );
    Ok(on!(db, conn => sqlx::query_as(sql).bind(user).fetch_optional(conn))?)
}

pub(super) async fn note_step(db: &mut WriteTx, user: UserId, step: i64) -> Result<()> {
    const SQL: &str = "UPDATE app_user SET totp_last_step = $2 WHERE id = $1";
    changed!(db, sqlx::query(SQL).bind(user).bind(step))?;
    Ok(())
}

pub(super) async fn confirm(db: &mut WriteTx, user: UserId) -> Result<()> {
    const SQL: &str = "UPDATE app_user SET totp_confirmed_at = $2, updated_at = $2 WHERE id = $1";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(user).bind(now))?;
    Ok(())
}

pub(crate) async fn remove(db: &mut WriteTx, user: UserId) -> Result<()> {
    const SQL: &str = "UPDATE app_user SET totp_secret = NULL, totp_confirmed_at = NULL, totp_last_step = NULL, \
        updated_at = $2 WHERE id = $1";
    let now = db.now;
    changed!(db, sqlx::query(SQL).bind(user).bind(now))?;
    delete_backup_codes(db, user).await
}

pub(super) async fn insert_backup_code(db: &mut WriteTx, user: UserId, hash: &SecretHash) -> Result<()> {
    const SQL: &str = "INSERT INTO backup_code (user_id, code_hash) VALUES ($1, $2)";
    changed!(db, sqlx::query(SQL).bind(user).bind(hash.as_slice()))?;
    Ok(())
}

pub(super) async fn take_backup_code(db: &mut WriteTx, user: UserId, hash: &SecretHash) -> Result<bool> {
    const SQL: &str = "DELETE FROM backup_code WHERE user_id = $1 AND code_hash = $2";
    Ok(changed!(db, sqlx::query(SQL).bind(user).bind(hash.as_slice()))? > 0)
}

pub(super) async fn delete_backup_codes(db: &mut WriteTx, user: UserId) -> Result<()> {
    changed!(db, sqlx::query("DELETE FROM backup_code WHERE user_id = $1").bind(user))?;
    Ok(())
}
