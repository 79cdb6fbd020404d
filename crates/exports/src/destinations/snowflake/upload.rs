//! A delivery under way.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;

use super::session::Session;
use super::sql::Names;
use super::{sql, stage};
use crate::destinations::staging::{Claim, Column, Spool, WriteMode, stage_name};
use crate::{Error, Receipt, Upload};

/// What is to happen.
pub(super) struct Plan {
    pub(super) claim: Claim,
    pub(super) mode: WriteMode,
    /// All columns of the delivery.
    pub(super) staged: Vec<Column>,
    /// Those that the table has.
    pub(super) written: Vec<Column>,
    /// Those that hold JSON in the table.
    pub(super) variants: Vec<String>,
}

pub(super) struct Loading {
    session: Session,
    names: Names,
    plan: Plan,
    spool: Spool,
    files: u32,
    bytes: u64,
}

impl Loading {
    pub(super) fn new(session: Session, names: Names, plan: Plan, spool: Spool) -> Self {
        Self {
            session,
            names,
            plan,
            spool,
            files: 0,
            bytes: 0,
        }
    }

    async fn send(&mut self, file: Bytes) -> Result<(), Error> {
        let name = format!("{}.parquet", self.files);
        self.files += 1;
        self.bytes += file.len() as u64;
        let place = self.session.run(&sql::put(&self.plan.claim, &name)).await?;
        stage::send(&self.session, place, &name, file).await
    }

    async fn load(&mut self) -> Result<(), Error> {
        if let Some(file) = self.spool.finish().await? {
            self.send(file).await?;
        }
        if self.files > 0 {
            self.session.run(&self.names.copy(&self.plan.claim)).await?;
        }
        self.check_count().await?;
        self.session.run("BEGIN").await?;
        let moved = self.move_rows().await;
        if moved.is_err() {
            // The end of the session would do the same, a little later.
            let _ = self.session.run("ROLLBACK").await;
        }
        moved
    }

    /// COPY leaves out what it takes for loaded already; nothing may be missing.
    async fn check_count(&mut self) -> Result<(), Error> {
        let counted = self.session.run(&self.names.count(&self.plan.claim)).await?.changed()?;
        let sent = self.spool.rows();
        if counted == sent {
            return Ok(());
        }
        let cause = format!("{sent} rows were sent, {counted} are on the stage");
        Err(Error::retryable(
            "not all rows reached Snowflake's stage; it will be retried",
            cause,
        ))
    }

    async fn move_rows(&mut self) -> Result<(), Error> {
        let Plan {
            claim,
            mode,
            written,
            variants,
            ..
        } = &self.plan;
        let rows = self.spool.rows();
        // First, because it waits for whoever else is committing the same interval.
        let claimed = self
            .session
            .run(&self.names.commit_claim(claim, rows))
            .await?
            .changed()?;
        if claimed != 1 {
            return Err(overtaken("the claim was taken over"));
        }
        for statement in self.names.load(claim, *mode, written, variants) {
            self.session.run(&statement).await?;
        }
        self.session.run("COMMIT").await?;
        Ok(())
    }

    /// Whoever claimed the interval after us took our stage away, which looks like an error of its own.
    async fn explain(&mut self, error: Error) -> Error {
        let entry = self.session.run(&self.names.ledger_entry(&self.plan.claim)).await;
        let rows = entry.and_then(|entry| entry.rows()).unwrap_or_default();
        match rows.first().and_then(|row| row.first()) {
            Some(Some(attempt)) if *attempt != self.plan.claim.attempt => overtaken(error),
            _ => error,
        }
    }

    async fn end(mut self: Box<Self>) {
        let drop_table = self.names.drop_table(&stage_name(&self.plan.claim.attempt));
        if let Err(error) = self.session.run(&drop_table).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a stage table was left behind"
            );
        }
        self.session.close().await;
    }
}

#[async_trait]
impl Upload for Loading {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error> {
        match self.spool.push(&rows).await? {
            Some(file) => self.send(file).await,
            None => Ok(()),
        }
    }

    async fn commit(mut self: Box<Self>) -> Result<Receipt, Error> {
        let loaded = self.load().await;
        let receipt = Receipt {
            rows: self.spool.rows(),
            bytes: self.bytes,
        };
        let outcome = match loaded {
            Ok(()) => Ok(receipt),
            Err(error) => Err(self.explain(error).await),
        };
        self.end().await;
        outcome
    }

    async fn abort(self: Box<Self>) {
        self.end().await;
    }
}

fn overtaken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable("another worker is delivering the same interval", cause)
}
