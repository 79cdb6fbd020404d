//! Inserts whose answer is waited for, whose repeat is harmless, and which end in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use bytes::Bytes;
use uuid::Uuid;

use super::client::{Client, Statement, identifier};
use crate::{Error, Result, Time};

/// What an append may take from its call to its last attempt's end, at the server too. Between this and
/// [`SETTLED_AFTER`](super::SETTLED_AFTER) there is room for clocks that differ.
pub(super) const IN_ALL: Duration = Duration::from_secs(20);
/// Less than this is no time for an insert.
const LEAST: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 3;

/// Where inserts go, and until when.
#[derive(Debug, Clone)]
pub(super) struct Inserter {
    pub client: Client,
    pub settings: Arc<[(String, String)]>,
}

impl Inserter {
    /// Stores rows in one part, or not at all. `since` is when the first of their callers came.
    pub(super) async fn insert(&self, table: &str, rows: &RecordBatch, since: Instant) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let body = ipc(rows)?;
        let token = Uuid::now_v7();
        let names: Vec<_> = rows
            .schema()
            .fields()
            .iter()
            .map(|field| identifier(field.name()))
            .collect();
        let sql = format!(
            "INSERT INTO {} ({}) FORMAT ArrowStream",
            identifier(table),
            names.join(", ")
        );
        let mut attempt = 1;
        loop {
            let left = IN_ALL.saturating_sub(since.elapsed());
            if left < LEAST {
                return Err(Error::TooSlow);
            }
            match self.once(&sql, &body, token, left).await {
                Err(error) if error.is_retryable() && attempt < ATTEMPTS => {
                    tracing::warn!(%error, attempt, "retrying an insert");
                    tokio::time::sleep(Duration::from_millis(100) * attempt).await;
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    async fn once(&self, sql: &str, body: &Bytes, token: Uuid, time: Duration) -> Result<()> {
        let mut statement = Statement::new(sql)
            .with(body.clone())
            // Rounded down to whole seconds for the server: it gives up before we do.
            .within(time.saturating_sub(Duration::from_secs(1)))
            .set("insert_deduplication_token", token)
            // Rows that wait at the server, or at one of its nodes, could come after the line.
            .set("async_insert", 0)
            .set("insert_distributed_sync", 1);
        for (name, value) in &*self.settings {
            statement = statement.set(name, value);
        }
        self.client.run(statement).await
    }
}

fn ipc(rows: &RecordBatch) -> Result<Bytes> {
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &rows.schema(), options)?;
    writer.write(rows)?;
    writer.finish()?;
    Ok(writer.into_inner()?.into())
}

pub(super) fn times(times: impl Iterator<Item = Time>) -> ArrayRef {
    let micros = times.map(|time| time.timestamp_micros());
    Arc::new(TimestampMicrosecondArray::from_iter_values(micros).with_timezone("UTC"))
}

pub(super) fn texts<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

/// ClickHouse reads ids from their text.
pub(super) fn ids(ids: impl Iterator<Item = Uuid>) -> ArrayRef {
    texts(ids.map(|id| id.to_string()))
}
