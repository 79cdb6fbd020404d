//! Rows of SQLite into columns of Arrow, without anything in between. Every row of every export passes here.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, SchemaRef};
use hogql::{Query, Type};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use uuid::Uuid;

use crate::rows::{Portion, is_json};
use crate::{Error, Result, schema};

/// IDs and names of events are never longer.
const MAX_NAME_BYTES: usize = 4096;

pub(super) struct Batch {
    schema: SchemaRef,
    columns: Vec<Column>,
    portion: Portion,
    rows: usize,
    bytes: usize,
    /// Whether the last row is not whole. SQLite has read all of it nevertheless: others behind it would be read in vain.
    is_cut: bool,
    /// Whether the next row is too large to be in it.
    is_closed: bool,
}

enum Column {
    Text(StringBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Bool(BooleanBuilder),
    Time(TimestampMicrosecondBuilder),
}

impl Batch {
    pub(super) fn new(query: &Query, portion: Portion) -> Self {
        Self {
            schema: schema(query),
            columns: query
                .fields
                .iter()
                .map(|field| Column::new(field.kind, portion.rows))
                .collect(),
            portion,
            rows: 0,
            bytes: 0,
            is_cut: false,
            is_closed: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_cut || self.is_closed || self.rows == self.portion.rows || self.bytes >= self.portion.bytes
    }

    /// Whether a large row fits, or begins the next batch: a batch and a large row would be twice what a reader is to hold.
    pub(super) fn has_room(&mut self, row: &Row<'_>, places: &[usize]) -> Result<bool> {
        let (bytes, portion) = (row_bytes(row, places)?, self.portion);
        let is_large = (portion.bytes / 8..=portion.whole_row).contains(&bytes);
        self.is_closed = is_large && !self.is_empty() && self.bytes + bytes > portion.bytes;
        Ok(!self.is_closed)
    }

    /// Adds a row; `places` says in which column of the statement each of ours is.
    pub(super) fn push(&mut self, row: &Row<'_>, places: &[usize]) -> Result<()> {
        let most = self.bytes + self.portion.row;
        let is_whole = self.is_whole(row, places)?;
        let fields = self.schema.fields().iter();
        for ((column, field), &place) in self.columns.iter_mut().zip(fields).zip(places) {
            let value = match row.get_ref(place)? {
                value if !is_whole && may_be_long(field, value) => ValueRef::Null,
                value => value,
            };
            if self.bytes + size(value) > most {
                return Err(Error::TooLarge);
            }
            self.bytes += column.push(value);
        }
        self.rows += 1;
        self.is_cut = !is_whole;
        Ok(())
    }

    /// Whether it is small enough that nothing of it is left out.
    fn is_whole(&self, row: &Row<'_>, places: &[usize]) -> Result<bool> {
        let limit = self.portion.whole_row;
        Ok(limit == usize::MAX || row_bytes(row, places)? <= limit)
    }

    /// The rows so far; afterwards there are none.
    pub(super) fn take(&mut self) -> Result<RecordBatch> {
        let arrays = {
            let rows = self.portion.rows;
            self.columns.iter_mut().map(|column| column.finish(rows)).collect()
        };
        self.rows = 0;
        self.bytes = 0;
        self.is_cut = false;
        self.is_closed = false;
        Ok(RecordBatch::try_new(self.schema.clone(), arrays)?)
    }
}

impl Column {
    fn new(kind: Type, rows: usize) -> Self {
        match kind {
            Type::Text | Type::Json => Self::Text(StringBuilder::with_capacity(rows, 16 * rows)),
            Type::Int => Self::Int(Int64Builder::with_capacity(rows)),
            Type::Float => Self::Float(Float64Builder::with_capacity(rows)),
            Type::Bool => Self::Bool(BooleanBuilder::with_capacity(rows)),
            Type::Time => Self::Time(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC")),
        }
    }

    /// Adds a value, and says how many bytes it took. What cannot be of the column's type is null.
    fn push(&mut self, value: ValueRef<'_>) -> usize {
        match self {
            Self::Text(builder) => return push_text(builder, value),
            Self::Int(builder) => builder.append_option(int(value)),
            Self::Float(builder) => builder.append_option(float(value)),
            Self::Bool(builder) => builder.append_option(int(value).map(|value| value != 0)),
            Self::Time(builder) => builder.append_option(int(value)),
        }
        8
    }

    fn finish(&mut self, rows: usize) -> ArrayRef {
        match self {
            Self::Text(builder) => {
                let array = builder.finish();
                // The next batch is about as large as this one.
                *builder = StringBuilder::with_capacity(rows, array.value_data().len() + array.value_data().len() / 16);
                Arc::new(array)
            }
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Bool(builder) => Arc::new(builder.finish()),
            Self::Time(builder) => Arc::new(builder.finish()),
        }
    }
}

/// JSON always: so whoever reads a row can see that it is not whole.
fn may_be_long(field: &Field, value: ValueRef<'_>) -> bool {
    is_json(field) || size(value) > MAX_NAME_BYTES
}

fn row_bytes(row: &Row<'_>, places: &[usize]) -> Result<usize> {
    let mut bytes = 0;
    for &place in places {
        bytes += size(row.get_ref(place)?);
    }
    Ok(bytes)
}

/// Before anything of it is copied.
fn size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

fn push_text(builder: &mut StringBuilder, value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null => builder.append_null(),
        ValueRef::Text(bytes) => {
            match std::str::from_utf8(bytes) {
                Ok(text) => builder.append_value(text),
                Err(_) => builder.append_value(String::from_utf8_lossy(bytes)),
            }
            return bytes.len();
        }
        // The only blobs are ids.
        ValueRef::Blob(bytes) => match Uuid::from_slice(bytes) {
            Ok(uuid) => builder.append_value(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
            Err(_) => builder.append_null(),
        },
        ValueRef::Integer(number) => push_written(builder, number),
        ValueRef::Real(number) => push_written(builder, number),
    }
    36
}

fn push_written(builder: &mut StringBuilder, number: impl std::fmt::Display) {
    write!(builder, "{number}").expect("writing to memory does not fail");
    builder.append_value("");
}

fn int(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a number with a fraction is cut, one too large saturates"
        )]
        ValueRef::Real(number) => Some(number as i64),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}

fn float(value: ValueRef<'_>) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "a float is what was asked for")]
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}
