use auth::key::SecretHash;
use sqlx::types::Json;

use super::{Claim, StoredResponse};
use crate::clock::Time;
use crate::db::{Session, changed, on};
use crate::error::{Error, Result};

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    pub(super) body_hash: Vec<u8>,
    pub(super) state: String,
    pub(super) status: Option<i16>,
    pub(super) headers: Option<Json<Vec<(String, String)>>>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) created_at: Time,
}

/// Marks the claim as done, in the transaction that does it.
pub(crate) async fn settle(db: &mut Session, claim: &Claim) -> Result<()> {
    const SQL: &str = "UPDATE idempotency SET state = 'committed' \
        WHERE user_id = $1 AND route = $2 AND token = $3 AND state = 'running'";
    match changed!(
        db,
        sqlx::query(SQL).bind(claim.user).bind(&claim.route).bind(&claim.token)
    )? {
        0 => Err(Error::Conflict {
            code: "idempotency_in_progress",
            detail: "Another request is using this Idempotency-Key.".to_owned(),
        }),
        _ => Ok(()),
    }
}

pub(super) async fn insert(db: &mut Session, claim: &Claim, body_hash: &SecretHash, now: Time) -> Result<bool> {
    const SQL: &str = "INSERT INTO idempotency (user_id, route, token, body_hash, state, created_at) \
        VALUES ($1, $2, $3, $4, 'running', $5) ON CONFLICT (user_id, route, token) DO NOTHING";
    let query = changed!(
        db,
        sqlx::query(SQL)
            .bind(claim.user)
            .bind(&claim.route)
            .bind(&claim.token)
            .bind(body_hash.as_slice())
            .bind(now)
    )?;
    Ok(query == 1)
}

pub(super) async fn find(db: &mut Session, claim: &Claim) -> Result<Option<Row>> {
    const SQLITE: &str = "SELECT body_hash, state, status, headers, body, created_at FROM idempotency \
        WHERE user_id = $1 AND route = $2 AND token = $3";
    const POSTGRES: &str = "SELECT body_hash, state, status, headers, body, created_at FROM idempotency \
        WHERE user_id = $1 AND route = $2 AND token = $3 FOR NO KEY UPDATE";
    let sql = db.pick(SQLITE, POSTGRES);
    Ok(on!(db, conn =>
        sqlx::query_as(sql).bind(claim.user).bind(&claim.route).bind(&claim.token).fetch_optional(conn))?)
}

/// Stores a response; its body only if there is room for it.
pub(super) async fn save_response(
    db: &mut Session,
    claim: &Claim,
    response: &StoredResponse,
    body: Option<&[u8]>,
) -> Result<()> {
    const SQL: &str = "UPDATE idempotency SET state = 'answered', status = $4, headers = $5, body = $6 \
        WHERE user_id = $1 AND route = $2 AND token = $3";
    let status = i16::try_from(response.status).unwrap_or_default();
    changed!(
        db,
        sqlx::query(SQL)
            .bind(claim.user)
            .bind(&claim.route)
            .bind(&claim.token)
            .bind(status)
            .bind(Json(&response.headers))
            .bind(body)
    )?;
    Ok(())
}

/// What is committed stays claimed, even if the response went wrong afterwards.
pub(super) async fn delete_running(db: &mut Session, claim: &Claim) -> Result<()> {
    const SQL: &str = "DELETE FROM idempotency \
        WHERE user_id = $1 AND route = $2 AND token = $3 AND state = 'running'";
    changed!(
        db,
        sqlx::query(SQL).bind(claim.user).bind(&claim.route).bind(&claim.token)
    )?;
    Ok(())
}

pub(super) async fn delete(db: &mut Session, claim: &Claim) -> Result<()> {
    const SQL: &str = "DELETE FROM idempotency WHERE user_id = $1 AND route = $2 AND token = $3";
    changed!(
        db,
        sqlx::query(SQL).bind(claim.user).bind(&claim.route).bind(&claim.token)
    )?;
    Ok(())
}
