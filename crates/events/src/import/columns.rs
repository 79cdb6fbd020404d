//! A column of a Parquet file, as texts or times.

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    ArrowPrimitiveType, ArrowTimestampType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use chrono::NaiveDateTime;
use uuid::Uuid;

use crate::Time;

/// A column of a type that can be read.
pub(super) struct Column {
    values: ArrayRef,
    read: Read,
}

type Read = fn(&dyn Array, usize) -> Cell;

enum Cell {
    Text(String),
    Time(Time),
}

impl Column {
    /// The types that a Parquet file can have a name, a number or a time in; the name of any other is returned.
    pub(super) fn of(values: &ArrayRef) -> Result<Self, DataType> {
        let read: Read = match values.data_type() {
            DataType::Utf8 => |values: &dyn Array, row| Cell::text(values.as_string::<i32>().value(row)),
            // Texts that the writer has not marked as such.
            DataType::Binary => |values: &dyn Array, row| {
                Cell::Text(String::from_utf8_lossy(values.as_binary::<i32>().value(row)).into_owned())
            },
            DataType::FixedSizeBinary(16) => |values: &dyn Array, row| {
                let uuid = Uuid::from_slice(values.as_fixed_size_binary().value(row));
                Cell::text(&uuid.expect("it has 16 bytes"))
            },
            DataType::Boolean => |values: &dyn Array, row| Cell::text(&values.as_boolean().value(row)),
            DataType::Int8 => number::<Int8Type>,
            DataType::Int16 => number::<Int16Type>,
            DataType::Int32 => number::<Int32Type>,
            DataType::Int64 => number::<Int64Type>,
            DataType::UInt8 => number::<UInt8Type>,
            DataType::UInt16 => number::<UInt16Type>,
            DataType::UInt32 => number::<UInt32Type>,
            DataType::UInt64 => number::<UInt64Type>,
            DataType::Float32 => number::<Float32Type>,
            DataType::Float64 => number::<Float64Type>,
            DataType::Decimal128(..) => {
                |values: &dyn Array, row| Cell::Text(values.as_primitive::<Decimal128Type>().value_as_string(row))
            }
            DataType::Timestamp(TimeUnit::Second, _) => time::<TimestampSecondType>,
            DataType::Timestamp(TimeUnit::Millisecond, _) => time::<TimestampMillisecondType>,
            DataType::Timestamp(TimeUnit::Microsecond, _) => time::<TimestampMicrosecondType>,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => time::<TimestampNanosecondType>,
            DataType::Date32 => |values: &dyn Array, row| {
                let dates = values.as_primitive::<Date32Type>();
                Cell::time(dates.value_as_datetime(row), &dates.value(row))
            },
            other => return Err(other.clone()),
        };
        Ok(Self {
            values: values.clone(),
            read,
        })
    }

    fn cell(&self, row: usize) -> Option<Cell> {
        self.values.is_valid(row).then(|| (self.read)(&self.values, row))
    }

    pub(super) fn text(&self, row: usize) -> Option<String> {
        match self.cell(row)? {
            Cell::Text(text) => Some(text),
            Cell::Time(time) => Some(time.to_rfc3339()),
        }
    }

    /// The time in a column of times.
    pub(super) fn time(&self, row: usize) -> Option<Time> {
        match self.cell(row)? {
            Cell::Time(time) => Some(time),
            Cell::Text(_) => None,
        }
    }
}

impl Cell {
    fn text(value: &(impl ToString + ?Sized)) -> Self {
        Self::Text(value.to_string())
    }

    /// What no calendar has stays a number, which nobody takes for a time.
    fn time(time: Option<NaiveDateTime>, value: &impl ToString) -> Self {
        time.map_or_else(|| Self::text(value), |time| Self::Time(time.and_utc()))
    }
}

fn number<T: ArrowPrimitiveType<Native: ToString>>(values: &dyn Array, row: usize) -> Cell {
    Cell::text(&values.as_primitive::<T>().value(row))
}

/// It is in UTC inside, whatever the zone of the column.
fn time<T: ArrowTimestampType>(values: &dyn Array, row: usize) -> Cell {
    let value = values.as_primitive::<T>().value(row);
    Cell::time(as_datetime::<T>(value), &value)
}
