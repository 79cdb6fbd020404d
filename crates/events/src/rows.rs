//! Rows on their way from an engine: Arrow batches through a channel that holds few.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use hogql::{Query, Type};
use tokio::sync::mpsc;

use crate::Result;
use crate::sqlite::interrupt::StopOnDrop;

/// How many batches wait between the engine and whoever takes them.
const WAITING: usize = 4;

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
    pub fn channel(schema: SchemaRef) -> (Sender, Self) {
        let (sender, batches) = mpsc::channel(WAITING);
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
            made.with_metadata([("json".to_owned(), "true".to_owned())].into())
        } else {
            made
        }
    };
    Arc::new(Schema::new(query.fields.iter().map(field).collect::<Vec<_>>()))
}
