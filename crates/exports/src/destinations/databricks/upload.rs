//! What an attempt at a delivery asks of Databricks, step by step.

use std::sync::Arc;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use service::batch_exports::destination::Databricks as Config;

use super::client::Client;
use super::plan::Plan;
use super::sql::{self, Names};
use super::table;
use crate::destinations::staging::{
    Attempt, Claim, ClaimTime, Column, FILE_SIZE, LedgerEntry, ParquetFile, Spool, StagedRows, WriteMode, columns,
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
            claim: Claim::new(delivery, &config.table_name),
            spool: Spool::new(&delivery.schema, &staged, FILE_SIZE),
            delivery: delivery.clone(),
            staged,
        }
    }

    async fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.client.run(sql).await.map(drop)
    }

    async fn send(&mut self, file: ParquetFile) -> Result<(), Error> {
        let name = format!("{}.parquet", file.number);
        let path = self.names.path(&self.claim.attempt, &name);
        self.client.put(&path, file.content).await
    }

    /// The columns of the table, which is created if it is not there.
    async fn table(&mut self) -> Result<Vec<(String, String)>, Error> {
        if let Some(table) = table::columns(&self.client, &self.names).await? {
            return Ok(table);
        }
        let (uses_variant, is_custom) = (self.config.use_variant_type, self.delivery.is_custom);
        let create = self.names.create_table(&self.staged, uses_variant, is_custom);
        self.client.run(&create).await?;
        let table = table::columns(&self.client, &self.names).await?;
        Ok(table.unwrap_or_default())
    }
}

#[async_trait]
impl Attempt for Loading {
    type Plan = Plan;

    const CLAIM: ClaimTime = ClaimTime::AfterPlan;
    /// The MERGE does not read the ledger, so it would not notice.
    const RECHECKS_CLAIM: bool = true;
    const INCOMPLETE: &'static str = "not all rows reached Databricks; it will be retried";

    fn name(&self) -> Option<&str> {
        Some(&self.claim.attempt)
    }

    async fn prepare(&mut self) -> Result<(), Error> {
        sql::check_columns(&self.staged)?;
        self.run(&self.names.create_ledger()).await
    }

    async fn claim(&mut self) -> Result<(), Error> {
        self.run(&self.names.claim(&self.claim)).await
    }

    async fn ledger_entry(&mut self) -> Result<LedgerEntry, Error> {
        let rows = self.client.run(&self.names.ledger_entry(&self.claim)).await?;
        Ok(LedgerEntry::of(rows))
    }

    async fn plan(&mut self, _: bool) -> Result<Plan, Error> {
        let table = self.table().await?;
        let Self { config, delivery, .. } = self;
        let has = |name: &str| table.iter().any(|(column, _)| column.eq_ignore_ascii_case(name));
        let evolves = config.use_automatic_schema_evolution;
        let written = self.staged.iter().filter(|column| evolves || has(&column.name));
        let written: Vec<Column> = written.cloned().collect();
        let mode = WriteMode::of(delivery, &written)?;
        if mode != WriteMode::Persons && !written.iter().any(|column| column.name == "uuid") {
            return Err(Error::plain(
                "Databricks cannot write rows and the ledger in one transaction, so rows need a uuid to be delivered exactly once; add uuid to the query",
            ));
        }
        let is_variant = |column: &&Column| {
            let found = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(&column.name));
            found.map_or(config.use_variant_type, |(_, kind)| {
                kind.eq_ignore_ascii_case("variant")
            })
        };
        let variants = written.iter().filter(is_variant);
        Ok(Plan {
            variants: variants.map(|column| column.name.clone()).collect(),
            is_stamped: has(sql::INGESTED) && !delivery.is_custom,
            mode,
            written,
            evolves,
        })
    }

    async fn clear_earlier(&mut self, attempt: Option<&str>) -> Result<(), Error> {
        if let Some(attempt) = attempt {
            table::clear(&self.client, &self.names, attempt).await;
        }
        Ok(())
    }

    async fn create_stage(&mut self, _: &Plan) -> Result<(), Error> {
        self.run(&self.names.create_stage(&self.claim, &self.staged)).await?;
        self.run(&self.names.create_volume(&self.claim.attempt)).await
    }

    async fn write(&mut self, _: &mut Plan, rows: RecordBatch) -> Result<(), Error> {
        match self.spool.push(&rows).await? {
            Some(file) => self.send(file).await,
            None => Ok(()),
        }
    }

    async fn flush(&mut self, _: &mut Plan) -> Result<(), Error> {
        if let Some(file) = self.spool.finish().await? {
            self.send(file).await?;
        }
        if self.spool.files() > 0 {
            self.run(&self.names.copy(&self.claim)).await?;
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.spool.bytes()
    }

    async fn count(&mut self, _: &Plan) -> Result<StagedRows, Error> {
        let rows = self.client.run(&self.names.count(&self.claim)).await?;
        Ok(StagedRows::of(&rows))
    }

    /// Two statements, as there is no transaction over two tables. Ended between them, the next attempt does both again.
    async fn commit(&mut self, plan: &Plan, receipt: Receipt) -> Result<(), Error> {
        self.run(&self.names.merge(&self.claim, plan)).await?;
        self.run(&self.names.commit_claim(&self.claim, receipt.rows)).await
    }

    async fn clear(&mut self) {
        table::clear(&self.client, &self.names, &self.claim.attempt).await;
    }
}
