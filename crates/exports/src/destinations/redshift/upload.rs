//! What an attempt at a delivery asks of Redshift, step by step: statements of many rows, or files, all in one transaction.

use std::time::Duration;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use service::batch_exports::destination::PropertiesType;
use tokio_postgres::types::{ToSql, Type};

use super::column::Kind;
use super::files::Files;
use super::insert::{Block, statement};
use super::statements::{self, BEGIN, LIMITS, Shape};
use super::table;
use super::values::Values;
use crate::destinations::sql::{Session, Table, TableWrite};
use crate::destinations::staging::{Attempt, ClaimTime, LedgerEntry};
use crate::{Delivery, Error, Receipt};

/// How rows get in.
pub(super) enum LoadMethod {
    Insert(Block),
    Copy(Box<Files>),
}

/// How rows are written, and how they get from the stage into the table.
pub(super) struct Plan {
    shape: Shape,
    values: Values,
    kinds: Vec<Kind>,
}

pub(super) struct Rows {
    session: Session,
    table: Table,
    /// What JSON is kept as in a table that we make.
    json: PropertiesType,
    delivery: Delivery,
    method: LoadMethod,
    /// The row at hand.
    row: Vec<Option<String>>,
    /// Of the rows that were inserted.
    inserted: u64,
}

impl Rows {
    pub(super) fn new(
        session: Session,
        table: &Table,
        json: PropertiesType,
        method: LoadMethod,
        delivery: &Delivery,
    ) -> Self {
        Self {
            session,
            table: table.clone(),
            json,
            delivery: delivery.clone(),
            method,
            row: Vec::new(),
            inserted: 0,
        }
    }

    /// Goes all the way but for the commit, without a row, in the transaction that is open.
    pub(super) async fn rehearse(mut self) -> Result<(), Error> {
        let plan = self.plan(false).await?;
        self.create_stage(&plan).await?;
        if let LoadMethod::Copy(files) = &mut self.method {
            files.rehearse().await?;
        }
        self.session.run("load rows", &plan.shape.rehearsal()).await?;
        self.remember(&plan.shape, 0).await?;
        self.session.run("roll back", "ROLLBACK").await?;
        self.session.close().await;
        Ok(())
    }

    async fn add(&mut self, plan: &Plan) -> Result<(), Error> {
        match &mut self.method {
            LoadMethod::Insert(block) => {
                block.add(&mut self.row);
                if block.is_full(plan.kinds.len()) {
                    self.insert(plan).await?;
                }
                Ok(())
            }
            LoadMethod::Copy(files) => {
                files.add(&self.row).await?;
                self.row.clear();
                Ok(())
            }
        }
    }

    async fn insert(&mut self, plan: &Plan) -> Result<(), Error> {
        let LoadMethod::Insert(block) = &mut self.method else {
            return Ok(());
        };
        let block = std::mem::take(block);
        let rows = block.values().len() / plan.kinds.len();
        if rows == 0 {
            return Ok(());
        }
        let sql = statement(&plan.shape.first(), &plan.kinds, rows);
        let parameters = block
            .values()
            .iter()
            .map(|value| (value as &(dyn ToSql + Sync), Type::VARCHAR));
        let parameters: Vec<_> = parameters.collect();
        self.session.change("load rows", &sql, &parameters).await?;
        self.inserted += block.bytes();
        Ok(())
    }

    async fn copy(&mut self, plan: &Plan) -> Result<(), Error> {
        let LoadMethod::Copy(files) = &mut self.method else {
            return Ok(());
        };
        match files.finish(&plan.shape.first()).await? {
            Some(sql) => self.session.run_secretly("load rows from the bucket", &sql).await,
            None => Ok(()),
        }
    }

    async fn remember(&mut self, shape: &Shape, rows: u64) -> Result<(), Error> {
        let doing = "write into hedgerow_ledger";
        let mut values = table::key(&self.delivery);
        let [forget, remember] = shape.remember();
        self.session.change(doing, &forget, &table::texts(&values)).await?;
        values.extend([self.delivery.run.0.to_string(), rows.to_string(), self.now().await?]);
        self.session.change(doing, &remember, &table::texts(&values)).await?;
        Ok(())
    }

    /// Asked for alone, because Redshift knows the time only in statements without tables.
    async fn now(&mut self) -> Result<String, Error> {
        let sql = "SELECT CAST(CURRENT_TIMESTAMP AS VARCHAR(64))";
        let rows = self.session.ask("read its clock", sql, &[]).await?;
        let unread = |cause| Error::retryable("the database's clock could not be read", cause);
        rows.first()
            .map_or(Ok(String::new()), |row| row.try_get(0).map_err(unread))
    }
}

#[async_trait]
impl Attempt for Rows {
    type Plan = Plan;

    const CLAIM: ClaimTime = ClaimTime::BeforeLedger;

    async fn prepare(&mut self) -> Result<(), Error> {
        self.session.run("set a time limit", LIMITS).await?;
        table::make_missing(&self.session, &self.table, &self.delivery, self.json).await
    }

    /// Before anything is read: what is seen from here on is what others have committed.
    async fn claim(&mut self) -> Result<(), Error> {
        self.session.run("start a transaction", BEGIN).await?;
        let lock = statements::lock(&self.table);
        self.session.run("lock the table hedgerow_ledger", &lock).await
    }

    async fn ledger_entry(&mut self) -> Result<LedgerEntry, Error> {
        let is_delivered = table::is_delivered(&self.session, &self.table, &self.delivery).await?;
        Ok(LedgerEntry::delivered(is_delivered))
    }

    async fn leave(&mut self) -> Result<(), Error> {
        self.session.run("end a transaction", "ROLLBACK").await
    }

    async fn plan(&mut self, was_delivered: bool) -> Result<Plan, Error> {
        let columns = table::columns(&self.session, &self.table).await?;
        let values = Values::new(&self.delivery.schema, &columns)?;
        let write = TableWrite::new(&self.table, &self.delivery, values.names(), was_delivered)?;
        Ok(Plan {
            shape: Shape(write),
            kinds: values.kinds(),
            values,
        })
    }

    async fn create_stage(&mut self, plan: &Plan) -> Result<(), Error> {
        match plan.shape.stage() {
            Some(sql) => self.session.run("create a temporary table", &sql).await,
            None => Ok(()),
        }
    }

    async fn write(&mut self, plan: &mut Plan, rows: RecordBatch) -> Result<(), Error> {
        for row in 0..rows.num_rows() {
            plan.values.spell(&rows, row, &mut self.row);
            self.add(plan).await?;
        }
        Ok(())
    }

    async fn flush(&mut self, plan: &mut Plan) -> Result<(), Error> {
        self.insert(plan).await?;
        self.copy(plan).await
    }

    fn bytes(&self) -> u64 {
        match &self.method {
            LoadMethod::Insert(_) => self.inserted,
            LoadMethod::Copy(files) => files.bytes,
        }
    }

    async fn commit(&mut self, plan: &Plan, receipt: Receipt) -> Result<(), Error> {
        for sql in plan.shape.unstage() {
            self.session.run("insert rows into the table", &sql).await?;
        }
        self.remember(&plan.shape, receipt.rows).await?;
        self.session.run("commit the rows", "COMMIT").await?;
        plan.values.report(&self.delivery);
        Ok(())
    }

    /// The temporary table ends with the session; files in the bucket do not.
    async fn clear(&mut self) {
        if let LoadMethod::Copy(files) = &mut self.method {
            files.clear().await;
        }
    }

    /// If it does not work out, the end of the connection takes everything back as well.
    async fn roll_back(&mut self) {
        let _ = tokio::time::timeout(Duration::from_secs(5), self.session.run("roll back", "ROLLBACK")).await;
    }

    async fn close(self) {
        self.session.close().await;
    }
}
