use auth::key::SecretHash;
use boxed::boxed;
use chrono::TimeDelta;

use super::sql::{self, Row};
use super::{Claim, Claimed, StoredResponse};
use crate::Service;
use crate::clock::Time;
use crate::error::{Error, Result};
use crate::retention::delete_oldest;

/// How long a response is kept.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// After this long without a response the request that claimed the token is dead.
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

    /// Stores the response for whoever asks again.
    #[boxed]
    pub async fn store_response(&self, claim: &Claim, response: &StoredResponse) -> Result<()> {
        let has_room = self.core.stored_responses.has_room(claim.user, &response.body);
        let body = has_room.then_some(response.body.as_slice());
        let mut db = self.write_unchecked().await?;
        sql::save_response(&mut db, claim, response, body).await?;
        db.commit_unrecorded().await
    }

    /// Gives the token back: nothing was done, so the same request may be tried again.
    #[boxed]
    pub async fn release(&self, claim: &Claim) -> Result<()> {
        let mut db = self.write_unchecked().await?;
        sql::delete_running(&mut db, claim).await?;
        db.commit_unrecorded().await
    }

    /// Deletes old responses and tells how many.
    #[boxed]
    pub async fn delete_old_idempotent_responses(&self) -> Result<u64> {
        self.delete_older_than(KEPT, delete_oldest!("idempotency")).await
    }
}

impl Row {
    fn is_over(&self, now: Time) -> bool {
        let age = now - self.created_at;
        age >= KEPT || (self.state == "running" && age >= ABANDONED)
    }

    fn replay(self, body_hash: &SecretHash, now: Time) -> Result<StoredResponse> {
        if self.body_hash != body_hash {
            let detail = "This Idempotency-Key was already used for a different request. Use a new key for each \
                          request.";
            return Err(Error::Conflict {
                code: "idempotency_key_reused",
                detail: detail.to_owned(),
            });
        }
        match (self.status, self.headers, self.body) {
            (Some(status), Some(headers), Some(body)) => Ok(StoredResponse {
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
