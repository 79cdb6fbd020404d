//! What an attempt at a delivery asks of `BigQuery`, step by step.

use std::sync::Arc;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use service::batch_exports::destination::BigQuery as Config;

use super::client::Client;
use super::plan::Plan;
use super::sql::{self, Names};
use super::tables;
use crate::destinations::staging::{
    Attempt, Claim, ClaimTime, Column, FILE_SIZE, LEDGER, LedgerEntry, ParquetFile, Spool, StagedRows, WriteMode,
    columns, stage_name,
};
use crate::{Delivery, Error, Receipt};

pub(super) struct Loading {
    client: Arc<Client>,
    config: Config,
    names: Names,
    delivery: Delivery,
    claim: Claim,
    /// All columns of the delivery.
    staged: Vec<Column>,
    spool: Spool,
}

impl Loading {
    pub(super) fn new(client: Arc<Client>, config: &Config, names: &Names, delivery: &Delivery) -> Self {
        let staged = columns(&delivery.schema, str::to_owned);
        Self {
            client,
            config: config.clone(),
            names: names.clone(),
            claim: Claim::new(delivery, &config.table_id),
            spool: Spool::new(&delivery.schema, &staged, FILE_SIZE),
            delivery: delivery.clone(),
            staged,
        }
    }

    fn stage(&self) -> String {
        stage_name(&self.claim.attempt)
    }

    async fn send(&mut self, file: ParquetFile) -> Result<(), Error> {
        let job = format!("hedgerow_load_{}_{}", self.claim.attempt, file.number);
        self.client.load(&self.stage(), &job, file.content).await
    }
}

#[async_trait]
impl Attempt for Loading {
    type Plan = Plan;

    const CLAIM: ClaimTime = ClaimTime::AfterPlan;
    const INCOMPLETE: &'static str = "not all rows reached BigQuery; it will be retried";

    fn name(&self) -> Option<&str> {
        Some(&self.claim.attempt)
    }

    async fn prepare(&mut self) -> Result<(), Error> {
        sql::check_columns(&self.staged)?;
        self.client.locate(&self.config.dataset_id).await?;
        self.client.ensure(LEDGER, &tables::ledger()).await.map(drop)
    }

    async fn claim(&mut self) -> Result<(), Error> {
        self.client.run(&self.names.claim(&self.claim)).await
    }

    async fn ledger_entry(&mut self) -> Result<LedgerEntry, Error> {
        let rows = self.client.rows(&self.names.ledger_entry(&self.claim)).await?;
        Ok(LedgerEntry::of(rows))
    }

    async fn plan(&mut self, _: bool) -> Result<Plan, Error> {
        let is_custom = self.delivery.is_custom;
        let wanted = tables::table(&self.staged, self.config.use_json_type, is_custom);
        let table = self.client.ensure(&self.config.table_id, &wanted).await?;
        let written = self.staged.iter().filter(|column| table.has(&column.name));
        let written: Vec<Column> = written.cloned().collect();
        Ok(Plan {
            mode: WriteMode::of(&self.delivery, &written)?,
            written,
            table,
            is_custom,
        })
    }

    async fn clear_earlier(&mut self, attempt: Option<&str>) -> Result<(), Error> {
        if let Some(attempt) = attempt {
            self.client.remove(&stage_name(attempt)).await;
        }
        Ok(())
    }

    async fn create_stage(&mut self, _: &Plan) -> Result<(), Error> {
        self.client.create(&self.stage(), &tables::stage(&self.staged)).await
    }

    async fn write(&mut self, _: &mut Plan, rows: RecordBatch) -> Result<(), Error> {
        match self.spool.push(&rows).await? {
            Some(file) => self.send(file).await,
            None => Ok(()),
        }
    }

    async fn flush(&mut self, _: &mut Plan) -> Result<(), Error> {
        match self.spool.finish().await? {
            Some(file) => self.send(file).await,
            None => Ok(()),
        }
    }

    fn bytes(&self) -> u64 {
        self.spool.bytes()
    }

    async fn count(&mut self, _: &Plan) -> Result<StagedRows, Error> {
        let rows = self.client.rows(&self.names.count(&self.claim)).await?;
        Ok(StagedRows::of(&rows))
    }

    async fn commit(&mut self, plan: &Plan, receipt: Receipt) -> Result<(), Error> {
        self.client
            .run(&self.names.commit(&self.claim, plan, receipt.rows))
            .await
    }

    async fn clear(&mut self) {
        self.client.remove(&self.stage()).await;
    }
}
