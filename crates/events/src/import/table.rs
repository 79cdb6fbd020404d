//! Parquet, with columns by the names that exports give them.

use std::fs::File;
use std::sync::atomic::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use chrono::DateTime;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use serde_json::Value;
use uuid::Uuid;

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
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
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

/// The columns of a batch, each as the one type it is read as.
struct Columns {
    event: Option<ArrayRef>,
    distinct_id: Option<ArrayRef>,
    properties: Option<ArrayRef>,
    timestamp: Option<ArrayRef>,
    timestamp_as_told: Option<ArrayRef>,
    uuid: Option<ArrayRef>,
    elements_chain: Option<ArrayRef>,
}

impl Columns {
    fn of(batch: &RecordBatch) -> Result<Self, String> {
        let as_type = |name: &str, kind: &DataType| {
            let column = batch.column_by_name(name).map(|column| cast(column, kind));
            column
                .transpose()
                .map_err(|_| format!("the column {name} has an unsupported type"))
        };
        // A time with a zone is in UTC inside; without the zone's name nothing needs to be looked up.
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        let uuid = match batch.column_by_name("uuid") {
            Some(column) if column.data_type() == &DataType::FixedSizeBinary(16) => Some(column.clone()),
            _ => as_type("uuid", &DataType::Utf8)?,
        };
        Ok(Self {
            event: as_type("event", &DataType::Utf8)?,
            distinct_id: as_type("distinct_id", &DataType::Utf8)?,
            properties: as_type("properties", &DataType::Utf8)?,
            timestamp: as_type("timestamp", &time)?,
            timestamp_as_told: batch.column_by_name("timestamp").cloned(),
            uuid,
            elements_chain: as_type("elements_chain", &DataType::Utf8)?,
        })
    }

    fn event(&self, row: usize, now: Time) -> Result<Incoming, String> {
        let item = Item {
            event: text(self.event.as_ref(), row),
            distinct_id: text(self.distinct_id.as_ref(), row).map(Value::String),
            properties: text(self.properties.as_ref(), row).map(Value::String),
            uuid: uuid(self.uuid.as_ref(), row),
            elements_chain: text(self.elements_chain.as_ref(), row),
            ..Item::default()
        };
        item.into_incoming(self.time(row)?.unwrap_or(now))
    }

    fn time(&self, row: usize) -> Result<Option<Time>, String> {
        let column = present(self.timestamp.as_ref(), row);
        let micros = column.map(|column| column.as_primitive::<TimestampMicrosecondType>().value(row));
        let time = micros.and_then(DateTime::from_timestamp_micros);
        // Casting makes null of what it does not understand.
        if time.is_none() && present(self.timestamp_as_told.as_ref(), row).is_some() {
            return Err("invalid timestamp; use a format such as 2026-01-31T12:00:00Z".to_owned());
        }
        Ok(time)
    }
}

fn present(column: Option<&ArrayRef>, row: usize) -> Option<&ArrayRef> {
    column.filter(|column| column.is_valid(row))
}

fn text(column: Option<&ArrayRef>, row: usize) -> Option<String> {
    Some(present(column, row)?.as_string::<i32>().value(row).to_owned())
}

fn uuid(column: Option<&ArrayRef>, row: usize) -> Option<String> {
    let column = present(column, row)?;
    match column.as_fixed_size_binary_opt() {
        Some(bytes) => Uuid::from_slice(bytes.value(row)).ok().map(|uuid| uuid.to_string()),
        None => text(Some(column), row),
    }
}
