use auth::key::SecretHash;
use boxed::boxed;
use chrono::TimeDelta;

use super::sql::{self, Row};
use super::{Answer, Claim, Claimed};
use crate::Service;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::retention::delete_oldest;

/// How long an answer is kept.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// After this long without an answer the request that claimed the token is dead.
const ABANDONED: TimeDelta = TimeDelta::minutes(2);

impl Service {
    #[boxed]
    pub async fn claim(&self, claim: &Claim, body_hash: &SecretHash) -> Result<Claimed> {
        let mut db = self.write_unchecked().await?;
        let now = db.now;
        if sql::insert(&mut db, claim, body_hash, now).await? {
            db.commit_unrecorded().await?;
            return Ok(Claimed::Now);
        }
        let Some(row) = sql::find(&mut db, claim).await? else {
            // It was given back just now; whoever did so may be trying again.
            return Err(in_progress());
        };
        if row.is_over(now) {
            sql::delete(&mut db, claim).await?;
            sql::insert(&mut db, claim, body_hash, now).await?;
            db.commit_unrecorded().await?;
            return Ok(Claimed::Now);
        }
        row.replay(body_hash, now).map(Claimed::Before)
    }

    /// Keeps the answer for whoever asks again.
    #[boxed]
    pub async fn answer(&self, claim: &Claim, answer: &Answer) -> Result<()> {
        let has_room = self.core.kept_answers.has_room(claim.user, &answer.body);
        let body = has_room.then_some(answer.body.as_slice());
        let mut db = self.write_unchecked().await?;
        sql::save_answer(&mut db, claim, answer, body).await?;
        db.commit_unrecorded().await
    }

    /// Gives the token back: nothing was done, so the same request may be tried again.
    #[boxed]
    pub async fn release(&self, claim: &Claim) -> Result<()> {
        let mut db = self.write_unchecked().await?;
        sql::delete_running(&mut db, claim).await?;
        db.commit_unrecorded().await
    }

    /// Clears old answers away and tells how many.
    #[boxed]
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
                    code: "idempotency_response_lost",
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
