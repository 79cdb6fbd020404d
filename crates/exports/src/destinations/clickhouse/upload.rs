//! A delivery under way: blocks of bounded size into a stage.

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use async_trait::async_trait;
use bytes::Bytes;
use events::clickhouse::{Statement, identifier};

use super::commit;
use super::names::Names;
use super::session::Session;
use super::target::{self, Target};
use crate::{Delivery, Error, Receipt, Upload};

/// A block is sent when it has so many rows or bytes.
const BLOCK_ROWS: usize = 64 * 1024;
const BLOCK_BYTES: usize = 32 * 1024 * 1024;

pub(super) struct Staged {
    session: Session,
    names: Names,
    target: Target,
    delivery: Delivery,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    receipt: Receipt,
}

impl Staged {
    /// Makes the stage.
    pub(super) async fn begin(
        session: Session,
        names: Names,
        target: Target,
        delivery: &Delivery,
    ) -> Result<Self, Error> {
        let sql = if target.takes_parts {
            format!(
                "CREATE TABLE {} AS {}",
                identifier(&names.stage),
                identifier(&names.target)
            )
        } else {
            target::loose_stage(&names.stage, &delivery.schema)
        };
        session.sql("create a stage", sql).await?;
        Ok(Self {
            session,
            names,
            target,
            delivery: delivery.clone(),
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            receipt: Receipt::default(),
        })
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let waiting = std::mem::take(&mut self.waiting);
        let rows = std::mem::take(&mut self.waiting_rows);
        self.waiting_bytes = 0;
        if rows == 0 {
            return Ok(());
        }
        let body = packed(&waiting).map_err(|cause| Error::retryable("the rows could not be encoded", cause))?;
        self.receipt.rows += rows as u64;
        self.receipt.bytes += body.len() as u64;
        insert(&self.session, &self.names.stage, &self.delivery, body).await
    }
}

#[async_trait]
impl Upload for Staged {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error> {
        self.waiting_rows += rows.num_rows();
        self.waiting_bytes += rows.get_array_memory_size();
        self.waiting.push(rows);
        if self.waiting_rows >= BLOCK_ROWS || self.waiting_bytes >= BLOCK_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<Receipt, Error> {
        self.flush().await?;
        let staged = commit::count(&self.session, &self.names.stage).await?;
        let sent = self.receipt.rows;
        if staged > sent || (staged < sent && !self.target.is_replacing) {
            return Err(Error::retryable(
                "the staging table in ClickHouse does not contain all rows that were sent; it will be retried",
                format!("{staged} instead of {sent}"),
            ));
        }
        let Self {
            session,
            names,
            target,
            delivery,
            receipt,
            ..
        } = *self;
        commit::make_ready(&session, &names, delivery.is_resend).await?;
        commit::finish(&session, &names, &target, &delivery, receipt, delivery.is_resend).await?;
        Ok(receipt)
    }

    async fn abort(self: Box<Self>) {
        if let Err(error) = commit::drop_table(&self.session, &self.names.stage).await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "a stage stays behind until the next attempt"
            );
        }
    }
}

/// Sends one block. It is not sent again if the answer is lost: the whole attempt is, into a stage of its own.
pub(super) async fn insert(session: &Session, table: &str, delivery: &Delivery, body: Bytes) -> Result<(), Error> {
    let sql = format!(
        "INSERT INTO {} ({}) FORMAT ArrowStream",
        identifier(table),
        target::names(&delivery.schema)
    );
    let statement = Statement::new(sql)
        .with(body)
        .set("async_insert", 0)
        // Rows that are equal are not one row sent twice.
        .set("insert_deduplicate", 0);
    session.run("load rows into a staging table", statement).await
}

/// The batches as one block.
fn packed(batches: &[RecordBatch]) -> Result<Bytes, arrow::error::ArrowError> {
    let schema = batches[0].schema();
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options)?;
    let mut whole = BatchCoalescer::new(schema, batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        whole.push_batch(batch.clone())?;
    }
    whole.finish_buffered_batch()?;
    while let Some(block) = whole.next_completed_batch() {
        writer.write(&block)?;
    }
    writer.finish()?;
    Ok(writer.into_inner()?.into())
}
