//! From the bytes of an `ArrowStream` to batches of one schema and one size.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;
use bytes::Bytes;
use outbound::Chunks;

use super::client::refusal;
use crate::rows::Portion;
use crate::{Error, Result, Sender};

/// A stream without this at its end was cut off. The decoder takes the end of any message for the end.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// Where an exception is looked for: the server writes it behind what it has sent.
const TAIL: usize = 8 * 1024;

/// Sends all rows on. Ends early, and thereby closes the connection, when nobody takes them any more.
pub(super) async fn pump(mut chunks: Chunks, schema: SchemaRef, portion: Portion, sender: &Sender) -> Result<()> {
    let mut reader = Reader::new(schema, portion);
    loop {
        let chunk = tokio::select! {
            chunk = chunks.next() => chunk?,
            () = sender.closed() => return Ok(()),
        };
        let Some(chunk) = chunk else { break };
        for batch in reader.take(chunk)? {
            if sender.send(Ok(batch)).await.is_err() {
                return Ok(());
            }
        }
    }
    if let Some(batch) = reader.finish()? {
        let _ = sender.send(Ok(batch)).await;
    }
    Ok(())
}

struct Reader {
    decoder: StreamDecoder,
    schema: SchemaRef,
    whole: BatchCoalescer,
    tail: Vec<u8>,
    portion: Portion,
    /// Of a message that is not whole yet.
    pending: usize,
}

impl Reader {
    fn new(schema: SchemaRef, portion: Portion) -> Self {
        Self {
            decoder: StreamDecoder::new(),
            whole: BatchCoalescer::new(schema.clone(), portion.rows),
            schema,
            tail: Vec::new(),
            portion,
            pending: 0,
        }
    }

    fn take(&mut self, chunk: Bytes) -> Result<Vec<RecordBatch>> {
        self.remember(&chunk);
        self.pending += chunk.len();
        if self.pending > self.portion.message {
            return Err(Error::TooLarge);
        }
        let mut buffer = Buffer::from(chunk);
        let mut complete = Vec::new();
        while !buffer.is_empty() {
            let decoded = self
                .decoder
                .decode(&mut buffer)
                .map_err(|error| self.explained(error.into()))?;
            if let Some(batch) = decoded {
                self.pending = buffer.len();
                self.push(&conformed(&batch, &self.schema)?)?;
                complete.extend(std::iter::from_fn(|| self.whole.next_completed_batch()));
            }
        }
        Ok(complete)
    }

    /// Rows that are large go on in batches of few.
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let (rows, bytes) = (batch.num_rows(), batch.get_array_memory_size());
        if bytes > self.portion.row && (0..rows).any(|row| row_bytes(batch, row) > self.portion.row) {
            return Err(Error::TooLarge);
        }
        if bytes <= self.portion.bytes {
            return Ok(self.whole.push_batch(batch.clone())?);
        }
        let step = (rows / bytes.div_ceil(self.portion.bytes)).max(1);
        for start in (0..rows).step_by(step) {
            self.whole.push_batch(batch.slice(start, step.min(rows - start)))?;
            self.whole.finish_buffered_batch()?;
        }
        Ok(())
    }

    /// What is left; there must have been a proper end.
    fn finish(mut self) -> Result<Option<RecordBatch>> {
        self.decoder.finish().map_err(|error| self.explained(error.into()))?;
        if !self.tail.ends_with(&END) {
            return Err(self.explained(Error::CutOff));
        }
        self.whole.finish_buffered_batch()?;
        Ok(self.whole.next_completed_batch())
    }

    fn remember(&mut self, chunk: &[u8]) {
        self.tail.extend_from_slice(&chunk[chunk.len().saturating_sub(TAIL)..]);
        let excess = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..excess);
    }

    /// The server's own error if it wrote one.
    fn explained(&self, error: Error) -> Error {
        refusal(&String::from_utf8_lossy(&self.tail), None).unwrap_or(error)
    }
}

fn row_bytes(batch: &RecordBatch, row: usize) -> usize {
    let texts = batch
        .columns()
        .iter()
        .filter(|column| column.data_type() == &DataType::Utf8);
    let length = |column: &dyn Array| usize::try_from(column.as_string::<i32>().value_length(row)).unwrap_or(0);
    texts.map(|column| length(column)).sum()
}

/// The same rows with the schema that was promised. The statement asks for its types; only the name of the zone is the server's own.
fn conformed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match field.data_type() {
        DataType::Timestamp(_, zone) => in_zone(column, zone.clone()),
        _ => column.clone(),
    });
    Ok(RecordBatch::try_new(schema.clone(), columns.collect())?)
}

/// A time is in UTC inside, whatever its zone is called.
fn in_zone(column: &ArrayRef, zone: Option<Arc<str>>) -> ArrayRef {
    match column.as_primitive_opt::<TimestampMicrosecondType>() {
        Some(times) => Arc::new(times.clone().with_timezone_opt(zone)),
        None => column.clone(),
    }
}
