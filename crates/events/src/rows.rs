//! Rows on their way from an engine: Arrow batches through a channel that holds few.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use hogql::{Query, Type};
use tokio::sync::mpsc;

use crate::Result;
use crate::sqlite::interrupt::StopOnDrop;

/// What a row of an export's query has at most.
pub const MAX_ROW_BYTES: usize = 16 << 20;

/// What a single event has at most, read as it is kept: more than a request brings, with its person besides.
const MAX_STORED_BYTES: usize = 256 << 20;

/// What an event has at most that is read together with others.
const MAX_SMALL_BYTES: usize = 256 << 10;

/// How much is read at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portion {
    /// How many rows a batch has, but the last.
    pub(crate) rows: usize,
    /// A batch of very large rows ends early: with `waiting`, this bounds what a reader holds in all.
    pub(crate) bytes: usize,
    /// A row of more bytes ends the scan: a query can name a large column hundreds of times.
    pub(crate) row: usize,
    /// Of a row of more bytes than this, what may be long is left out: null is in its place.
    pub(crate) whole_row: usize,
    /// How many rows ClickHouse sends in one message, and how many bytes we take for one.
    pub(crate) block: usize,
    pub(crate) message: usize,
    /// How many batches wait between the engine and whoever takes them.
    waiting: usize,
}

impl Portion {
    /// For those who pass on every row.
    pub(crate) const LARGE: Self = Self {
        rows: 8192,
        bytes: 4 << 20,
        row: MAX_ROW_BYTES,
        whole_row: usize::MAX,
        block: 8192,
        message: 256 << 20,
        waiting: 2,
    };
    /// For those who may stop after a few rows, and of whom there are many: nothing is to be read in vain, nor what is large.
    pub(crate) const SMALL: Self = Self {
        rows: 32,
        bytes: MAX_SMALL_BYTES,
        row: MAX_STORED_BYTES,
        whole_row: MAX_SMALL_BYTES,
        block: 32,
        message: 32 * MAX_SMALL_BYTES + (1 << 20),
        waiting: 1,
    };
    /// For those who read a single row.
    pub(crate) const ONE: Self = Self {
        rows: 1,
        bytes: MAX_STORED_BYTES,
        row: MAX_STORED_BYTES,
        whole_row: usize::MAX,
        block: 1,
        message: MAX_STORED_BYTES + (1 << 20),
        waiting: 1,
    };

    /// For those who show a few rows, and not more bytes than these.
    pub(crate) const fn shown(bytes: usize) -> Self {
        Self {
            rows: 1,
            bytes,
            row: bytes,
            whole_row: usize::MAX,
            block: 8192,
            // With what Arrow itself takes for hundreds of columns.
            message: 2 * bytes + (1 << 20),
            waiting: 1,
        }
    }
}

/// The result of a scan. Every batch has the same schema.
#[derive(Debug)]
pub struct Rows {
    pub schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch>>,
    /// Ends the reading of an engine that has to be told.
    _stop: Option<StopOnDrop>,
}

/// The engine's end. An error is the last thing sent.
pub type Sender = mpsc::Sender<Result<RecordBatch>>;

impl Rows {
    pub(crate) fn channel(schema: SchemaRef, portion: Portion) -> (Sender, Self) {
        let (sender, batches) = mpsc::channel(portion.waiting);
        let rows = Self {
            schema,
            batches,
            _stop: None,
        };
        (sender, rows)
    }

    pub(crate) fn stopping(self, stop: StopOnDrop) -> Self {
        Self {
            _stop: Some(stop),
            ..self
        }
    }

    /// The next batch; none after the last.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.batches.recv().await
    }
}

const JSON: &str = "json";

/// Whether a column of [`schema`] is JSON.
pub(crate) fn is_json(field: &Field) -> bool {
    field.metadata().contains_key(JSON)
}

/// What a query's rows look like: text and JSON as `Utf8` (JSON marked by the metadata `json`), the rest as one would
/// expect. Every column may be null.
pub fn schema(query: &Query) -> SchemaRef {
    let field = |field: &hogql::Field| {
        let kind = match field.kind {
            Type::Text | Type::Json => DataType::Utf8,
            Type::Int => DataType::Int64,
            Type::Float => DataType::Float64,
            Type::Bool => DataType::Boolean,
            Type::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        };
        let made = Field::new(&field.alias, kind, true);
        if field.kind == Type::Json {
            made.with_metadata([(JSON.to_owned(), "true".to_owned())].into())
        } else {
            made
        }
    };
    Arc::new(Schema::new(query.fields.iter().map(field).collect::<Vec<_>>()))
}
