//! Exactly once, for destinations that hold rows in tables.
//!
//! An attempt at a delivery claims its interval, writes the rows to a stage that nobody reads, counts them there, commits them
//! together with a row of the ledger, and clears the stage. The order of these steps, and what follows from the outcome of each,
//! is decided in this file and nowhere else. A destination fills in its statements and requests, as an [`Attempt`].
//!
//! Three rules make it exactly once:
//!
//! - An interval that the ledger has is not delivered again, unless it is resent: then its rows are replaced.
//! - Of several attempts at an interval only one can commit, because only one holds the claim at that moment. How it is held
//!   differs, and with it when it is made: see [`ClaimTime`].
//! - Rows and the ledger's row become visible together; where a destination has no transaction over both, its commit can be
//!   repeated without an effect.
//!
//! Destinations that hold files do not take part: their ledger is the manifest, and every attempt writes files of the same names
//! (`files`). Neither does HTTP, where nothing can be taken back.

use arrow_array::RecordBatch;
use async_trait::async_trait;

use super::claim::{LedgerEntry, is_attempt};
use crate::{Delivery, Error, Receipt, Upload};

/// When an attempt claims its interval. From then on no other attempt can commit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimTime {
    /// With a lock that lasts until the end of the transaction. The ledger is read under it: whoever waited for the lock sees what
    /// the other one committed.
    BeforeLedger,
    /// In the ledger, by the attempt's name. That takes the interval from an earlier attempt, so it comes when everything that can
    /// be checked has been: an attempt that cannot succeed does not stop one that can.
    AfterPlan,
    /// With the name of the complete stage, which only one table can have. Until then attempts do not affect each other.
    BeforeCommit,
}

/// What was counted on the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StagedRows {
    /// Not counted: rows are lost or repeated only together with the transaction.
    Uncounted,
    /// So many; none: the answer was not a number.
    Exactly(Option<u64>),
    /// So many, and it can be fewer than were sent: rows with the same key become one.
    Merged(u64),
}

impl StagedRows {
    /// From the answer to a query for a count.
    pub(crate) fn of(rows: &[Vec<Option<String>>]) -> Self {
        let counted = rows.first().and_then(|row| row.first()?.as_deref());
        Self::Exactly(counted.and_then(|counted| counted.parse().ok()))
    }

    fn are_complete(self, sent: u64) -> bool {
        match self {
            Self::Uncounted => true,
            Self::Exactly(counted) => counted == Some(sent),
            Self::Merged(counted) => counted <= sent,
        }
    }
}

/// One attempt at a delivery: what a destination does at each step, in the order in which the steps are taken.
///
/// A step that fails ends the attempt. An attempt can be dropped after any of them; what it leaves is cleared by the next one.
#[async_trait]
pub(crate) trait Attempt: Send + Sized + 'static {
    /// How the rows get from the stage into the table.
    type Plan: Send + Sync + 'static;

    const CLAIM: ClaimTime;
    /// Reads the claim once more before the commit: for a commit that would not refuse an attempt that has lost its claim.
    const RECHECKS_CLAIM: bool = false;
    /// What the owner reads if the stage does not have the rows that were sent.
    const INCOMPLETE: &'static str = "not all rows reached the destination; it will be retried";

    /// What the ledger calls this attempt; none: it names no attempts, and the claim is a lock or the name of a table.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Creates what has to exist before the ledger can be read.
    async fn prepare(&mut self) -> Result<(), Error>;

    /// Finishes the commit of an earlier attempt that ended in the middle of it, for commits that take several statements and no
    /// transaction.
    async fn finish_earlier(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// At the time that [`Attempt::CLAIM`] says.
    async fn claim(&mut self) -> Result<(), Error>;

    /// What the ledger has of the interval.
    async fn ledger_entry(&mut self) -> Result<LedgerEntry, Error>;

    /// The interval was delivered by an earlier attempt: ends what was begun.
    async fn leave(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Creates or reads the table, and decides how rows get into it. An interval that was delivered is being resent.
    async fn plan(&mut self, was_delivered: bool) -> Result<Self::Plan, Error>;

    /// Clears the stage of the earlier attempt that the ledger named, or those of all earlier attempts. It is for the destination
    /// to say whether a stage that stays is an error.
    async fn clear_earlier(&mut self, _attempt: Option<&str>) -> Result<(), Error> {
        Ok(())
    }

    async fn create_stage(&mut self, plan: &Self::Plan) -> Result<(), Error>;

    /// Takes rows, and sends to the stage what is enough for a request.
    async fn write(&mut self, plan: &mut Self::Plan, rows: RecordBatch) -> Result<(), Error>;

    /// Sends the rest: after it, all rows are on the stage.
    async fn flush(&mut self, plan: &mut Self::Plan) -> Result<(), Error>;

    /// How much has been sent.
    fn bytes(&self) -> u64;

    async fn count(&mut self, _plan: &Self::Plan) -> Result<StagedRows, Error> {
        Ok(StagedRows::Uncounted)
    }

    /// Makes the rows visible, together with the ledger's row.
    async fn commit(&mut self, plan: &Self::Plan, receipt: Receipt) -> Result<(), Error>;

    /// Clears the stage once nobody needs it, after a commit that worked, one that did not, and before a rollback.
    async fn clear(&mut self) {}

    /// Takes back what [`Attempt::clear`] does not.
    async fn roll_back(&mut self) {}

    /// The end, of whatever kind.
    async fn close(self) {}
}

/// Begins a delivery. None: an earlier attempt has committed it.
pub(crate) async fn begin<A: Attempt>(mut attempt: A, delivery: &Delivery) -> Result<Option<Box<dyn Upload>>, Error> {
    match open(&mut attempt, delivery.is_resend).await {
        Ok(Some(plan)) => Ok(Some(Box::new(Staged { attempt, plan, rows: 0 }))),
        Ok(None) => {
            attempt.close().await;
            Ok(None)
        }
        Err(error) => {
            attempt.close().await;
            Err(error)
        }
    }
}

async fn open<A: Attempt>(attempt: &mut A, is_resend: bool) -> Result<Option<A::Plan>, Error> {
    attempt.prepare().await?;
    attempt.finish_earlier().await?;
    if A::CLAIM == ClaimTime::BeforeLedger {
        attempt.claim().await?;
    }
    let entry = attempt.ledger_entry().await?;
    if entry.is_delivered && !is_resend {
        attempt.leave().await?;
        return Ok(None);
    }
    let plan = attempt.plan(entry.is_delivered).await?;
    if A::CLAIM == ClaimTime::AfterPlan {
        attempt.claim().await?;
    }
    // What becomes part of a statement is a name that we gave, and nothing that somebody wrote into the ledger.
    let earlier = entry.attempt.as_deref().filter(|name| is_attempt(name));
    attempt.clear_earlier(earlier).await?;
    attempt.create_stage(&plan).await?;
    Ok(Some(plan))
}

/// A delivery in progress.
struct Staged<A: Attempt> {
    attempt: A,
    plan: A::Plan,
    rows: u64,
}

#[async_trait]
impl<A: Attempt> Upload for Staged<A> {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error> {
        let count = rows.num_rows() as u64;
        self.attempt.write(&mut self.plan, rows).await?;
        self.rows += count;
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<Receipt, Error> {
        let outcome = match self.try_to_commit().await {
            Ok(receipt) => Ok(receipt),
            Err(error) => Err(explained(&mut self.attempt, error).await),
        };
        self.attempt.clear().await;
        self.attempt.close().await;
        outcome
    }

    async fn abort(mut self: Box<Self>) {
        self.attempt.clear().await;
        self.attempt.roll_back().await;
        self.attempt.close().await;
    }
}

impl<A: Attempt> Staged<A> {
    async fn try_to_commit(&mut self) -> Result<Receipt, Error> {
        let Self { attempt, plan, rows } = self;
        attempt.flush(plan).await?;
        let receipt = Receipt {
            rows: *rows,
            bytes: attempt.bytes(),
        };
        // A request whose answer was lost may have happened twice, or not at all.
        let staged = attempt.count(plan).await?;
        if !staged.are_complete(receipt.rows) {
            let cause = format!("{rows} rows were sent, on the stage: {staged:?}");
            return Err(Error::retryable(A::INCOMPLETE, cause));
        }
        if A::RECHECKS_CLAIM && holder(attempt).await?.as_deref() != attempt.name() {
            return Err(overtaken("the claim was taken over"));
        }
        if A::CLAIM == ClaimTime::BeforeCommit {
            attempt.claim().await?;
        }
        attempt.commit(plan, receipt).await?;
        Ok(receipt)
    }
}

/// Whoever claimed the interval after us cleared our stage, which looks like an error of its own.
async fn explained<A: Attempt>(attempt: &mut A, error: Error) -> Error {
    match holder(attempt).await {
        Ok(Some(other)) if attempt.name() != Some(&*other) => overtaken(error),
        _ => error,
    }
}

/// The attempt that the ledger names; none where it names none.
async fn holder<A: Attempt>(attempt: &mut A) -> Result<Option<String>, Error> {
    if attempt.name().is_none() {
        return Ok(None);
    }
    Ok(attempt.ledger_entry().await?.attempt)
}

/// The error of an attempt that has lost its claim.
pub(crate) fn overtaken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable("another worker is delivering the same interval", cause)
}

#[cfg(test)]
mod tests;
