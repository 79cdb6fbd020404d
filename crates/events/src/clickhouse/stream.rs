//! From the bytes of an `ArrowStream` to batches of one schema and one size.

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::compute::{BatchCoalescer, cast};
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use bytes::Bytes;
use outbound::Chunks;

use super::client::refusal;
use crate::{Error, Result, Sender};

/// How many rows a batch has, but for the last.
pub(super) const BATCH: usize = 8192;
/// A stream without this at its end was cut off. The decoder takes the end of any message for the end.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// Where an exception is looked for: the server writes it behind what it has sent.
const TAIL: usize = 8 * 1024;

/// Sends all rows on. Ends early, and thereby closes the connection, when nobody takes them any more.
pub(super) async fn pump(mut chunks: Chunks, schema: SchemaRef, sender: &Sender) -> Result<()> {
    let mut reader = Reader::new(schema);
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
}

impl Reader {
    fn new(schema: SchemaRef) -> Self {
        Self {
            decoder: StreamDecoder::new(),
            whole: BatchCoalescer::new(schema.clone(), BATCH),
            schema,
            tail: Vec::new(),
        }
    }

    fn take(&mut self, chunk: Bytes) -> Result<Vec<RecordBatch>> {
        self.remember(&chunk);
        let mut buffer = Buffer::from(chunk);
        let mut complete = Vec::new();
        while !buffer.is_empty() {
            let decoded = self
                .decoder
                .decode(&mut buffer)
                .map_err(|error| self.explained(error.into()))?;
            if let Some(batch) = decoded {
                self.whole.push_batch(conformed(&batch, &self.schema)?)?;
                complete.extend(std::iter::from_fn(|| self.whole.next_completed_batch()));
            }
        }
        Ok(complete)
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

/// The same rows in just the columns that were promised.
fn conformed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns
        .map(|(column, field)| cast(column, field.data_type()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
