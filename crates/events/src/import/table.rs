//! Parquet, with columns by the names that exports give them.

use std::fs::File;
use std::sync::atomic::Ordering;

use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use serde_json::Value;

use super::columns::Column;
use super::item::Item;
use super::row::{OpenError, Progress, Row};
use crate::{Incoming, Time};

const ROWS: usize = 1024;
const NAMES: [&str; 6] = [
    "event",
    "distinct_id",
    "properties",
    "timestamp",
    "uuid",
    "elements_chain",
];

/// The rows of a file.
pub(super) fn open(file: File, bytes: u64, progress: Progress, now: Time) -> Result<Table, OpenError> {
    // The types of the file itself are few; those that a writer adds for its own language are many.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)?;
    for needed in ["event", "distinct_id"] {
        if builder.schema().column_with_name(needed).is_none() {
            return Err(OpenError::NoColumn(needed));
        }
    }
    let wanted = ProjectionMask::columns(builder.parquet_schema(), NAMES);
    let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    let reader = builder.with_projection(wanted).with_batch_size(ROWS).build()?;
    Ok(Table {
        reader,
        batch: Vec::new().into_iter(),
        number: 0,
        progress,
        now,
        bytes,
        rows: rows.max(1),
        has_failed: false,
    })
}

pub(super) struct Table {
    reader: ParquetRecordBatchReader,
    batch: std::vec::IntoIter<Result<Incoming, String>>,
    number: u64,
    progress: Progress,
    now: Time,
    bytes: u64,
    rows: u64,
    has_failed: bool,
}

impl Iterator for Table {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            if let Some(row) = self.batch.next() {
                self.number += 1;
                return Some((self.number, row));
            }
            if self.has_failed {
                return None;
            }
            // Parquet is not read from front to back; the share of the rows is the best there is.
            let read = u128::from(self.bytes) * u128::from(self.number) / u128::from(self.rows);
            self.progress
                .store(u64::try_from(read).unwrap_or(self.bytes), Ordering::Relaxed);
            let rows = match self.reader.next()? {
                Ok(batch) => rows(&batch, self.now),
                Err(error) => {
                    self.has_failed = true;
                    vec![Err(format!("the rest of the file cannot be read: {error}"))]
                }
            };
            self.batch = rows.into_iter();
        }
    }
}

fn rows(batch: &RecordBatch, now: Time) -> Vec<Result<Incoming, String>> {
    let columns = match Columns::of(batch) {
        Ok(columns) => columns,
        Err(why) => return vec![Err(why); batch.num_rows()],
    };
    (0..batch.num_rows()).map(|row| columns.event(row, now)).collect()
}

/// The columns of a batch that are read.
struct Columns {
    event: Option<Column>,
    distinct_id: Option<Column>,
    properties: Option<Column>,
    timestamp: Option<Column>,
    uuid: Option<Column>,
    elements_chain: Option<Column>,
}

impl Columns {
    fn of(batch: &RecordBatch) -> Result<Self, String> {
        let column = |name: &str| {
            let column = batch.column_by_name(name);
            // Some writers give a column of nothing a type of its own.
            let column = column
                .filter(|column| column.data_type() != &DataType::Null)
                .map(Column::of);
            column
                .transpose()
                .map_err(|kind| format!("the column {name} has an unsupported type: {kind}"))
        };
        Ok(Self {
            event: column("event")?,
            distinct_id: column("distinct_id")?,
            properties: column("properties")?,
            timestamp: column("timestamp")?,
            uuid: column("uuid")?,
            elements_chain: column("elements_chain")?,
        })
    }

    fn event(&self, row: usize, now: Time) -> Result<Incoming, String> {
        let text = |column: &Option<Column>| column.as_ref().and_then(|column| column.text(row));
        let time = self.timestamp.as_ref().and_then(|column| column.time(row));
        let item = Item {
            event: text(&self.event),
            distinct_id: text(&self.distinct_id).map(Value::String),
            properties: text(&self.properties).map(Value::String),
            // What is no time is a text, which may be that of one.
            timestamp: if time.is_none() { text(&self.timestamp) } else { None },
            uuid: text(&self.uuid),
            elements_chain: text(&self.elements_chain),
            ..Item::default()
        };
        item.into_incoming(time.unwrap_or(now))
    }
}
