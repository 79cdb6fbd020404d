//! What an attempt at a delivery asks of Snowflake, step by step.

use arrow_array::RecordBatch;
use async_trait::async_trait;
use service::batch_exports::destination::Snowflake as Config;

use super::answer::Outcome;
use super::errors::is_missing;
use super::session::Session;
use super::sql::{self, Names};
use super::stage;
use crate::destinations::staging::{
    Attempt, Claim, ClaimTime, Column, FILE_SIZE, LEDGER, LedgerEntry, ParquetFile, Spool, StagedRows, WriteMode,
    columns, overtaken, stage_name,
};
use crate::{Delivery, Error, Receipt};

/// How rows get from the stage into the table.
pub(super) struct Plan {
    mode: WriteMode,
    /// The columns that the table has.
    written: Vec<Column>,
    /// Those that hold JSON in the table.
    variants: Vec<String>,
}

pub(super) struct Loading {
    session: Session,
    names: Names,
    table_name: String,
    delivery: Delivery,
    claim: Claim,
    /// All columns of the delivery.
    staged: Vec<Column>,
    spool: Spool,
}

/// Drops the stage table of an attempt. Its stage for files ends with the session.
pub(super) async fn clear(session: &mut Session, names: &Names, attempt: &str) {
    let drop_table = names.drop_table(&stage_name(attempt));
    if let Err(error) = session.run(&drop_table).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a stage table was left behind"
        );
    }
}

impl Loading {
    pub(super) fn new(session: Session, config: &Config, names: &Names, delivery: &Delivery) -> Self {
        let staged = columns(&delivery.schema, |name| sql::renamed(name, delivery.is_custom));
        Self {
            session,
            names: names.clone(),
            table_name: config.table_name.clone(),
            claim: Claim::new(delivery, &config.table_name),
            spool: Spool::new(&delivery.schema, &staged, FILE_SIZE),
            delivery: delivery.clone(),
            staged,
        }
    }

    async fn send(&mut self, file: ParquetFile) -> Result<(), Error> {
        let name = format!("{}.parquet", file.number);
        let location = stage::location(self.session.run(&sql::put(&self.claim, &name)).await?)?;
        stage::send(&self.session, location, &name, file.content).await
    }

    /// The table's columns; it is created if it is not there.
    async fn table(&mut self) -> Result<Outcome, Error> {
        let look = self.names.look(&self.table_name);
        match self.session.run(&look).await {
            Err(error) if is_missing(&error) => {
                self.session.run(&self.names.create_table(&self.staged)).await?;
                self.session.run(&look).await
            }
            other => other,
        }
    }

    async fn move_rows(&mut self, plan: &Plan, rows: u64) -> Result<(), Error> {
        // First, because it waits for whoever else is committing the same interval.
        let commit_claim = self.names.commit_claim(&self.claim, rows);
        let claimed = self.session.run(&commit_claim).await?.changed()?;
        if claimed != 1 {
            return Err(overtaken("the claim was taken over"));
        }
        let Plan {
            mode,
            written,
            variants,
        } = plan;
        for statement in self.names.load(&self.claim, *mode, written, variants) {
            self.session.run(&statement).await?;
        }
        self.session.run("COMMIT").await.map(drop)
    }
}

#[async_trait]
impl Attempt for Loading {
    type Plan = Plan;

    const CLAIM: ClaimTime = ClaimTime::AfterPlan;
    /// COPY leaves out what it takes for loaded already; nothing may be missing.
    const INCOMPLETE: &'static str = "not all rows reached Snowflake's stage; it will be retried";

    fn name(&self) -> Option<&str> {
        Some(&self.claim.attempt)
    }

    /// A role that may not create tables can still write into those that somebody made for it.
    async fn prepare(&mut self) -> Result<(), Error> {
        sql::check_columns(&self.staged)?;
        match self.session.run(&self.names.look(LEDGER)).await {
            Err(error) if is_missing(&error) => self.session.run(&self.names.create_ledger()).await.map(drop),
            other => other.map(drop),
        }
    }

    async fn claim(&mut self) -> Result<(), Error> {
        self.session.run(&self.names.claim(&self.claim)).await.map(drop)
    }

    async fn ledger_entry(&mut self) -> Result<LedgerEntry, Error> {
        let entry = self.session.run(&self.names.ledger_entry(&self.claim)).await?;
        Ok(LedgerEntry::of(entry.rows()?))
    }

    async fn plan(&mut self, _: bool) -> Result<Plan, Error> {
        let table = self.table().await?;
        let existing = table.column_names();
        let written = self.staged.iter().filter(|column| existing.contains(&column.name));
        let written: Vec<Column> = written.cloned().collect();
        Ok(Plan {
            mode: WriteMode::of(&self.delivery, &written)?,
            written,
            variants: table.variant_names(),
        })
    }

    async fn clear_earlier(&mut self, attempt: Option<&str>) -> Result<(), Error> {
        if let Some(attempt) = attempt {
            clear(&mut self.session, &self.names, attempt).await;
        }
        Ok(())
    }

    async fn create_stage(&mut self, _: &Plan) -> Result<(), Error> {
        let create_table = self.names.create_stage_table(&self.claim, &self.staged);
        self.session.run(&create_table).await?;
        self.session.run(&sql::create_stage(&self.claim)).await.map(drop)
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
            self.session.run(&self.names.copy(&self.claim)).await?;
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.spool.bytes()
    }

    async fn count(&mut self, _: &Plan) -> Result<StagedRows, Error> {
        let counted = self.session.run(&self.names.count(&self.claim)).await?;
        Ok(StagedRows::Exactly(Some(counted.changed()?)))
    }

    async fn commit(&mut self, plan: &Plan, receipt: Receipt) -> Result<(), Error> {
        self.session.run("BEGIN").await?;
        let moved = self.move_rows(plan, receipt.rows).await;
        if moved.is_err() {
            // The end of the session would do the same, a little later.
            let _ = self.session.run("ROLLBACK").await;
        }
        moved
    }

    async fn clear(&mut self) {
        clear(&mut self.session, &self.names, &self.claim.attempt).await;
    }

    async fn close(self) {
        self.session.close().await;
    }
}
