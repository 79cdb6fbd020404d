//! A delivery under way: statements of many rows, all in one transaction.

use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tokio_postgres::types::{ToSql, Type};

use super::super::sql::Session;
use super::files::Files;
use super::insert::{Block, statement};
use super::statements::Shape;
use super::table;
use super::values::{Kind, Values};
use crate::{Delivery, Error, Receipt, Upload};

/// How rows get in.
pub(super) enum LoadMethod {
    Insert(Block),
    Copy(Box<Files>),
}

pub(super) struct Rows {
    session: Session,
    delivery: Delivery,
    shape: Shape,
    values: Values,
    kinds: Vec<Kind>,
    mode: LoadMethod,
    /// The row at hand.
    row: Vec<Option<String>>,
    receipt: Receipt,
}

impl Rows {
    pub(super) async fn begin(
        session: Session,
        delivery: &Delivery,
        shape: Shape,
        values: Values,
        mode: LoadMethod,
    ) -> Result<Self, Error> {
        if let Some(sql) = shape.stage() {
            session.run("create a temporary table", &sql).await?;
        }
        Ok(Self {
            session,
            delivery: delivery.clone(),
            shape,
            kinds: values.kinds(),
            values,
            mode,
            row: Vec::new(),
            receipt: Receipt::default(),
        })
    }

    /// Goes all the way but for the commit, without a row.
    pub(super) async fn rehearse(mut self) -> Result<(), Error> {
        if let LoadMethod::Copy(files) = &mut self.mode {
            files.rehearse().await?;
        }
        self.session.run("load rows", &self.shape.rehearsal()).await?;
        self.remember().await?;
        self.session.run("roll back", "ROLLBACK").await?;
        self.session.close().await;
        Ok(())
    }

    async fn add(&mut self) -> Result<(), Error> {
        self.receipt.rows += 1;
        match &mut self.mode {
            LoadMethod::Insert(block) => {
                block.add(&mut self.row);
                if block.is_full(self.kinds.len()) {
                    self.insert().await?;
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

    async fn insert(&mut self) -> Result<(), Error> {
        let LoadMethod::Insert(block) = &mut self.mode else {
            return Ok(());
        };
        let block = std::mem::take(block);
        let rows = block.values().len() / self.kinds.len();
        if rows == 0 {
            return Ok(());
        }
        let sql = statement(&self.shape.first(), &self.kinds, rows);
        let parameters = block
            .values()
            .iter()
            .map(|value| (value as &(dyn ToSql + Sync), Type::VARCHAR));
        let parameters: Vec<_> = parameters.collect();
        self.session.change("load rows", &sql, &parameters).await?;
        self.receipt.bytes += block.bytes();
        Ok(())
    }

    async fn copy(&mut self) -> Result<(), Error> {
        let LoadMethod::Copy(files) = &mut self.mode else {
            return Ok(());
        };
        let statement = files.finish(&self.shape.first()).await?;
        self.receipt.bytes = files.bytes;
        match statement {
            Some(sql) => self.session.run_secretly("load rows from the bucket", &sql).await,
            None => Ok(()),
        }
    }

    async fn try_commit(&mut self) -> Result<(), Error> {
        self.insert().await?;
        self.copy().await?;
        for sql in self.shape.unstage() {
            self.session.run("insert rows into the table", &sql).await?;
        }
        self.remember().await?;
        self.session.run("commit the rows", "COMMIT").await
    }

    async fn clear(&mut self) {
        if let LoadMethod::Copy(files) = &mut self.mode {
            files.clear().await;
        }
    }

    async fn remember(&mut self) -> Result<(), Error> {
        let doing = "write into hedgerow_ledger";
        let mut values = table::key(&self.delivery);
        let [forget, remember] = self.shape.remember();
        self.session.change(doing, &forget, &table::texts(&values)).await?;
        values.extend([
            self.delivery.run.0.to_string(),
            self.receipt.rows.to_string(),
            self.now().await?,
        ]);
        self.session.change(doing, &remember, &table::texts(&values)).await?;
        Ok(())
    }

    /// Asked for by itself, because Redshift knows the time only in statements without tables.
    async fn now(&mut self) -> Result<String, Error> {
        let sql = "SELECT CAST(CURRENT_TIMESTAMP AS VARCHAR(64))";
        let rows = self.session.ask("read its clock", sql, &[]).await?;
        let unread = |cause| Error::retryable("the database's clock could not be read", cause);
        rows.first()
            .map_or(Ok(String::new()), |row| row.try_get(0).map_err(unread))
    }
}

#[async_trait]
impl Upload for Rows {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error> {
        for row in 0..rows.num_rows() {
            self.values.spell(&rows, row, &mut self.row);
            self.add().await?;
        }
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<Receipt, Error> {
        let done = self.try_commit().await;
        self.clear().await;
        done?;
        self.values.report(&self.delivery);
        let receipt = self.receipt;
        self.session.close().await;
        Ok(receipt)
    }

    async fn abort(mut self: Box<Self>) {
        self.clear().await;
        // If it does not work out, the end of the connection takes everything back as well.
        let _ = tokio::time::timeout(Duration::from_secs(5), self.session.run("roll back", "ROLLBACK")).await;
        self.session.close().await;
    }
}
