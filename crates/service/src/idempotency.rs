//! Doing a thing once, however often it is asked for.
//!
//! A token is claimed before the write, settled in the write's own transaction, and answered
//! after it. A crash in between can lose the answer but never do the write twice.

use std::fmt;
use std::num::NonZeroU32;

use auth::key::SecretHash;
use chrono::TimeDelta;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use sqlx::types::Json;

use crate::Service;
use crate::clock::Time;
use crate::db::{Session, WriteTx, changed, on};
use crate::error::{Error, Result};
use crate::id::UserId;
use crate::retention::delete_oldest;

/// How long an answer is kept.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// After this long without an answer the request that claimed the token is dead.
const ABANDONED: TimeDelta = TimeDelta::minutes(2);

/// A token that this request has claimed.
#[derive(Debug, Clone)]
pub struct Claim {
    pub user: UserId,
    /// The method and path: the same token may be used for another route.
    pub route: String,
    pub token: String,
}

/// What was answered the first time.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Longer answers are not kept: whoever asks again is told that it was done.
const LONGEST_BODY: usize = 64 * 1024;

/// How many bytes of answers are kept for each person: so many an hour. It is for each process, and forgotten with it.
pub(crate) struct KeptBytes(DefaultKeyedRateLimiter<UserId>);

impl KeptBytes {
    const AN_HOUR: NonZeroU32 = NonZeroU32::new(64 * 1024 * 1024).expect("not zero");
    /// Past this many people those that have been quiet are forgotten, so that memory stays bounded.
    const REMEMBERED: usize = 10_000;

    /// Whether there is room for a body of this person. If so, it is counted.
    fn has_room(&self, user: UserId, body: &[u8]) -> bool {
        if self.0.len() > Self::REMEMBERED {
            self.0.retain_recent();
        }
        let bytes = u32::try_from(body.len()).ok().and_then(NonZeroU32::new);
        body.len() <= LONGEST_BODY && bytes.is_none_or(|bytes| matches!(self.0.check_key_n(&user, bytes), Ok(Ok(()))))
    }
}

impl Default for KeptBytes {
    fn default() -> Self {
        Self(RateLimiter::keyed(Quota::per_hour(Self::AN_HOUR)))
    }
}

impl fmt::Debug for KeptBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBytes").finish_non_exhaustive()
    }
}

/// What came of an attempt to claim a token.
#[derive(Debug)]
pub enum Claimed {
    /// It is ours: go on, then answer.
    Now,
    /// It was used before, for the same request.
    Before(Answer),
}

#[derive(sqlx::FromRow)]
struct Row {
    body_hash: Vec<u8>,
    state: String,
    status: Option<i16>,
    headers: Option<Json<Vec<(String, String)>>>,
    body: Option<Vec<u8>>,
    created_at: Time,
}

impl Service {
    pub async fn claim(&self, claim: &Claim, body_hash: &SecretHash) -> Result<Claimed> {
        let mut db = self.write().await?;
        if insert(&mut db, claim, body_hash).await? {
            db.commit_unrecorded().await?;
            return Ok(Claimed::Now);
        }
        let Some(row) = find(&mut db, claim).await? else {
            // It was given back just now; whoever did so may be trying again.
            return Err(in_progress());
        };
        if row.is_over(db.now) {
            delete(&mut db, claim).await?;
            insert(&mut db, claim, body_hash).await?;
            db.commit_unrecorded().await?;
            return Ok(Claimed::Now);
        }
        row.replay(body_hash, db.now).map(Claimed::Before)
    }

    /// Keeps the answer for whoever asks again.
    pub async fn answer(&self, claim: &Claim, answer: &Answer) -> Result<()> {
        const SQL: &str = "UPDATE idempotency SET state = 'answered', status = $4, headers = $5, body = $6 \
            WHERE user_id = $1 AND route = $2 AND token = $3";
        let status = i16::try_from(answer.status).unwrap_or_default();
        let has_room = self.core.kept_answers.has_room(claim.user, &answer.body);
        let body = has_room.then_some(&answer.body);
        let mut db = self.write().await?;
        changed!(
            db,
            sqlx::query(SQL)
                .bind(claim.user)
                .bind(&claim.route)
                .bind(&claim.token)
                .bind(status)
                .bind(Json(&answer.headers))
                .bind(body)
        )?;
        db.commit_unrecorded().await
    }

    /// Gives the token back: nothing was done, so the same request may be tried again.
    pub async fn release(&self, claim: &Claim) -> Result<()> {
        // What is committed stays claimed, even if the answer went wrong afterwards.
        const SQL: &str = "DELETE FROM idempotency \
            WHERE user_id = $1 AND route = $2 AND token = $3 AND state = 'running'";
        let mut db = self.write().await?;
        changed!(
            db,
            sqlx::query(SQL).bind(claim.user).bind(&claim.route).bind(&claim.token)
        )?;
        db.commit_unrecorded().await
    }

    /// Clears old answers away and tells how many.
    pub async fn forget_old_answers(&self) -> Result<u64> {
        self.delete_older_than(KEPT, delete_oldest!("idempotency")).await
    }
}

impl Row {
    fn is_over(&self, now: Time) -> bool {
        let age = now - self.created_at;
        age >= KEPT || (self.state == "running" && age >= ABANDONED)
    }

    fn replay(self, body_hash: &SecretHash, now: Time) -> Result<Answer> {
        if self.body_hash != body_hash {
            let detail = "This Idempotency-Key was already used for a different request. Use a new key for each \
                          request.";
            return Err(Error::Conflict {
                code: "idempotency_key_reused",
                detail: detail.to_owned(),
            });
        }
        match (self.status, self.headers, self.body) {
            (Some(status), Some(headers), Some(body)) => Ok(Answer {
                status: status.unsigned_abs(),
                headers: headers.0,
                body,
            }),
            _ if self.state == "answered" || (self.state == "committed" && now - self.created_at >= ABANDONED) => {
                let detail = "This request was processed, but its response is no longer available. Retrieve the \
                              resource instead.";
                Err(Error::Conflict {
                    code: "idempotency_answer_lost",
                    detail: detail.to_owned(),
                })
            }
            _ => Err(in_progress()),
        }
    }
}

fn in_progress() -> Error {
    Error::Conflict {
        code: "idempotency_in_progress",
        detail: "A request with this Idempotency-Key is still in progress. Try again shortly.".to_owned(),
    }
}

/// Marks the claim as done, in the transaction that does it.
pub(crate) async fn settle(db: &mut WriteTx, claim: &Claim) -> Result<()> {
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

async fn insert(db: &mut WriteTx, claim: &Claim, body_hash: &SecretHash) -> Result<bool> {
    const SQL: &str = "INSERT INTO idempotency (user_id, route, token, body_hash, state, created_at) \
        VALUES ($1, $2, $3, $4, 'running', $5) ON CONFLICT (user_id, route, token) DO NOTHING";
    let now = db.now;
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

async fn find(db: &mut Session, claim: &Claim) -> Result<Option<Row>> {
    const SQLITE: &str = "SELECT body_hash, state, status, headers, body, created_at FROM idempotency \
        WHERE user_id = $1 AND route = $2 AND token = $3";
    const POSTGRES: &str = "SELECT body_hash, state, status, headers, body, created_at FROM idempotency \
        WHERE user_id = $1 AND route = $2 AND token = $3 FOR NO KEY UPDATE";
    let sql = db.pick(SQLITE, POSTGRES);
    Ok(on!(db, conn =>
        sqlx::query_as(sql).bind(claim.user).bind(&claim.route).bind(&claim.token).fetch_optional(conn))?)
}

async fn delete(db: &mut WriteTx, claim: &Claim) -> Result<()> {
    const SQL: &str = "DELETE FROM idempotency WHERE user_id = $1 AND route = $2 AND token = $3";
    changed!(
        db,
        sqlx::query(SQL).bind(claim.user).bind(&claim.route).bind(&claim.token)
    )?;
    Ok(())
}
