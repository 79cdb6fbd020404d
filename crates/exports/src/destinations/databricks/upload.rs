//! A delivery under way.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;

use super::client::Client;
use super::sql::Names;
use crate::destinations::staging::{Claim, Column, Spool, WriteMode};
use crate::{Error, Receipt, Upload};

/// What is to happen.
pub(super) struct Plan {
    pub(super) claim: Claim,
    pub(super) mode: WriteMode,
    pub(super) written: Vec<Column>,
    /// Those that hold JSON in the table.
    pub(super) variants: Vec<String>,
    /// The table says when rows arrived.
    pub(super) is_stamped: bool,
    /// Columns that the table lacks are added to it.
    pub(super) evolves: bool,
}

pub(super) struct Loading {
    client: Arc<Client>,
    names: Names,
    plan: Plan,
    spool: Spool,
    files: u32,
    bytes: u64,
}

/// Removes what an attempt left behind, or what we need no more.
pub(super) async fn clear(client: &Client, names: &Names, attempt: &str) {
    for statement in names.drop_all(attempt) {
        if let Err(error) = client.run(&statement).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a stage was left behind");
        }
    }
}

impl Loading {
    pub(super) fn new(client: Arc<Client>, names: Names, plan: Plan, spool: Spool) -> Self {
        Self {
            client,
            names,
            plan,
            spool,
            files: 0,
            bytes: 0,
        }
    }

    async fn send(&mut self, file: Bytes) -> Result<(), Error> {
        let path = self
            .names
            .path(&self.plan.claim.attempt, &format!("{}.parquet", self.files));
        self.files += 1;
        self.bytes += file.len() as u64;
        self.client.put(&path, file).await
    }

    async fn load(&mut self) -> Result<(), Error> {
        if let Some(file) = self.spool.finish().await? {
            self.send(file).await?;
        }
        if self.files > 0 {
            self.client.run(&self.names.copy(&self.plan.claim)).await?;
        }
        self.check_count().await?;
        if self.is_overtaken().await? {
            return Err(overtaken("the claim was taken over"));
        }
        self.client.run(&self.names.merge(&self.plan)).await?;
        let rows = self.spool.rows();
        self.client
            .run(&self.names.commit_claim(&self.plan.claim, rows))
            .await?;
        Ok(())
    }

    async fn check_count(&mut self) -> Result<(), Error> {
        let rows = self.client.run(&self.names.count(&self.plan.claim)).await?;
        let counted = rows.first().and_then(|row| row.first().cloned().flatten());
        let sent = self.spool.rows();
        if counted.as_deref() == Some(&*sent.to_string()) {
            return Ok(());
        }
        let cause = format!("{sent} rows were sent, {counted:?} are on the stage");
        Err(Error::retryable(
            "not all rows reached Databricks; it will be retried",
            cause,
        ))
    }

    async fn is_overtaken(&mut self) -> Result<bool, Error> {
        let rows = self.client.run(&self.names.ledger_entry(&self.plan.claim)).await?;
        let attempt = rows.first().and_then(|row| row.first().cloned().flatten());
        Ok(attempt.as_deref() != Some(&self.plan.claim.attempt))
    }

    async fn end(&mut self) {
        clear(&self.client, &self.names, &self.plan.claim.attempt).await;
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
        let outcome = match self.load().await {
            Ok(()) => Ok(Receipt {
                rows: self.spool.rows(),
                bytes: self.bytes,
            }),
            // Whoever claimed the interval after us took our stage away, which looks like an error of its own.
            Err(error) if self.is_overtaken().await.unwrap_or(false) => Err(overtaken(error)),
            Err(error) => Err(error),
        };
        self.end().await;
        outcome
    }

    async fn abort(mut self: Box<Self>) {
        self.end().await;
    }
}

fn overtaken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable("another worker is delivering the same interval", cause)
}
