//! A delivery under way.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;

use super::client::Client;
use super::sql::Names;
use super::tables::Table;
use crate::destinations::staging::{Claim, Column, Spool, WriteMode, stage_name};
use crate::{Error, Receipt, Upload};

/// What is to happen.
pub(super) struct Plan {
    pub(super) claim: Claim,
    pub(super) mode: WriteMode,
    /// The columns that the table has.
    pub(super) written: Vec<Column>,
    pub(super) table: Table,
    pub(super) is_custom: bool,
}

pub(super) struct Loading {
    client: Arc<Client>,
    names: Names,
    plan: Plan,
    spool: Spool,
    files: u32,
    bytes: u64,
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
        let attempt = &self.plan.claim.attempt;
        let job = format!("hedgerow_load_{attempt}_{}", self.files);
        self.files += 1;
        self.bytes += file.len() as u64;
        self.client.load(&stage_name(attempt), &job, file).await
    }

    async fn load(&mut self) -> Result<(), Error> {
        if let Some(file) = self.spool.finish().await? {
            self.send(file).await?;
        }
        self.check_count().await?;
        self.client.run(&self.names.commit(&self.plan, self.spool.rows())).await
    }

    /// A load whose answer was lost may have happened twice, or not at all.
    async fn check_count(&mut self) -> Result<(), Error> {
        let rows = self.client.rows(&self.names.count(&self.plan.claim)).await?;
        let counted = rows.first().and_then(|row| row.first().cloned().flatten());
        let sent = self.spool.rows();
        if counted.as_deref() == Some(&*sent.to_string()) {
            return Ok(());
        }
        let cause = format!("{sent} rows were sent, {counted:?} are on the stage");
        Err(Error::retryable(
            "not all rows reached BigQuery; it will be retried",
            cause,
        ))
    }

    /// Whoever claimed the interval after us took our stage away, which looks like an error of its own.
    async fn explain(&mut self, error: Error) -> Error {
        let rows = self
            .client
            .rows(&self.names.ledger_entry(&self.plan.claim))
            .await
            .unwrap_or_default();
        match rows.first().and_then(|row| row.first()) {
            Some(Some(attempt)) if *attempt != self.plan.claim.attempt => {
                Error::retryable("another worker is delivering the same interval", error)
            }
            _ => error,
        }
    }

    async fn end(&mut self) {
        self.client.remove(&stage_name(&self.plan.claim.attempt)).await;
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
        let outcome = match loaded {
            Ok(()) => Ok(Receipt {
                rows: self.spool.rows(),
                bytes: self.bytes,
            }),
            Err(error) => Err(self.explain(error).await),
        };
        self.end().await;
        outcome
    }

    async fn abort(mut self: Box<Self>) {
        self.end().await;
    }
}
