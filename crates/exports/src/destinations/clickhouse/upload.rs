//! What an attempt at a delivery asks of ClickHouse, step by step: blocks of bounded size into a stage, which is moved over.

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_select::coalesce::BatchCoalescer;
use async_trait::async_trait;
use bytes::Bytes;
use events::clickhouse::{Statement, identifier};

use super::names::Names;
use super::session::Session;
use super::target::{self, Target};
use super::{commit, ledger};
use crate::destinations::staging::{Attempt, ClaimTime, LedgerEntry, StagedRows};
use crate::{Delivery, Error, Receipt};

/// A block is sent when it has so many rows or bytes.
const BLOCK_ROWS: usize = 64 * 1024;
const BLOCK_BYTES: usize = 32 * 1024 * 1024;

pub(super) struct Stage {
    session: Session,
    names: Names,
    target: Target,
    delivery: Delivery,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    bytes: u64,
}

impl Stage {
    pub(super) fn new(session: Session, names: Names, target: Target, delivery: &Delivery) -> Self {
        Self {
            session,
            names,
            target,
            delivery: delivery.clone(),
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            bytes: 0,
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        let waiting = std::mem::take(&mut self.waiting);
        let rows = std::mem::take(&mut self.waiting_rows);
        self.waiting_bytes = 0;
        if rows == 0 {
            return Ok(());
        }
        let body = packed(&waiting).map_err(|cause| Error::retryable("the rows could not be encoded", cause))?;
        self.bytes += body.len() as u64;
        insert(&self.session, &self.names.stage, &self.delivery, body).await
    }
}

#[async_trait]
impl Attempt for Stage {
    /// All of it follows from the table, which is known from the start.
    type Plan = ();

    const CLAIM: ClaimTime = ClaimTime::BeforeCommit;
    const INCOMPLETE: &'static str =
        "the staging table in ClickHouse does not contain all rows that were sent; it will be retried";

    async fn prepare(&mut self) -> Result<(), Error> {
        ledger::create(&self.session).await
    }

    /// What an earlier attempt had put together is moved over first, whichever it was.
    async fn finish_earlier(&mut self) -> Result<(), Error> {
        commit::finish_broken_off(&self.session, &self.names, &self.target, &self.delivery).await
    }

    async fn claim(&mut self) -> Result<(), Error> {
        commit::make_ready(&self.session, &self.names, self.delivery.is_resend).await
    }

    async fn ledger_entry(&mut self) -> Result<LedgerEntry, Error> {
        let is_delivered = ledger::has(&self.session, &self.delivery).await?;
        Ok(LedgerEntry::delivered(is_delivered))
    }

    async fn leave(&mut self) -> Result<(), Error> {
        commit::clear(&self.session, &self.names).await
    }

    async fn plan(&mut self, was_delivered: bool) -> Result<(), Error> {
        if was_delivered && !self.target.can_replace(&self.delivery) {
            return Err(Error::plain(
                "the interval was delivered before, and without a column uuid its rows cannot be told from others and \
                 replaced; add uuid to the query and to the table",
            ));
        }
        Ok(())
    }

    /// The ledger names no attempts: their stages are found by their names.
    async fn clear_earlier(&mut self, _: Option<&str>) -> Result<(), Error> {
        commit::clear(&self.session, &self.names).await
    }

    async fn create_stage(&mut self, (): &()) -> Result<(), Error> {
        let Names { stage, target, .. } = &self.names;
        let sql = if self.target.takes_parts {
            format!("CREATE TABLE {} AS {}", identifier(stage), identifier(target))
        } else {
            target::loose_stage(stage, &self.delivery.schema)
        };
        self.session.sql("create a stage", sql).await
    }

    async fn write(&mut self, (): &mut (), rows: RecordBatch) -> Result<(), Error> {
        self.waiting_rows += rows.num_rows();
        self.waiting_bytes += rows.get_array_memory_size();
        self.waiting.push(rows);
        if self.waiting_rows >= BLOCK_ROWS || self.waiting_bytes >= BLOCK_BYTES {
            self.send().await?;
        }
        Ok(())
    }

    async fn flush(&mut self, (): &mut ()) -> Result<(), Error> {
        self.send().await
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn count(&mut self, (): &()) -> Result<StagedRows, Error> {
        let counted = commit::count(&self.session, &self.names.stage).await?;
        Ok(if self.target.is_replacing {
            StagedRows::Merged(counted)
        } else {
            StagedRows::Exactly(Some(counted))
        })
    }

    async fn commit(&mut self, (): &(), receipt: Receipt) -> Result<(), Error> {
        let Self {
            session,
            names,
            target,
            delivery,
            ..
        } = self;
        commit::finish(session, names, target, delivery, receipt, delivery.is_resend).await
    }

    /// A commit drops the stage itself. After one that failed the stage stays: if it was complete, the next attempt finishes it.
    async fn clear(&mut self) {}

    async fn roll_back(&mut self) {
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
fn packed(batches: &[RecordBatch]) -> Result<Bytes, arrow_schema::ArrowError> {
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
