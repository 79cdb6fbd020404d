//! What JSON lines and CSV share: values of columns, and how times are written.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_array::{TimestampMicrosecondArray, types::Float64Type, types::Int64Type, types::TimestampMicrosecondType};
use arrow_schema::{DataType, Field, TimeUnit};

use crate::Error;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// A column, by what it holds.
pub(super) enum Column<'a> {
    Text(&'a StringArray),
    Json(&'a StringArray),
    Int(&'a Int64Array),
    Float(&'a Float64Array),
    Bool(&'a BooleanArray),
    Time(&'a TimestampMicrosecondArray),
}

/// Whether a column's text is JSON.
pub(super) fn is_json(field: &Field) -> bool {
    field.metadata().get("json").is_some_and(|json| json == "true")
}

pub(super) fn columns(batch: &RecordBatch) -> Result<Vec<Column<'_>>, Error> {
    let fields = batch.schema_ref().fields().iter();
    fields
        .zip(batch.columns())
        .map(|(field, array)| column(field, array))
        .collect()
}

fn column<'a>(field: &Field, array: &'a ArrayRef) -> Result<Column<'a>, Error> {
    match array.data_type() {
        DataType::Utf8 if is_json(field) => Ok(Column::Json(array.as_string())),
        DataType::Utf8 => Ok(Column::Text(array.as_string())),
        DataType::Int64 => Ok(Column::Int(array.as_primitive::<Int64Type>())),
        DataType::Float64 => Ok(Column::Float(array.as_primitive::<Float64Type>())),
        DataType::Boolean => Ok(Column::Bool(array.as_boolean())),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Ok(Column::Time(array.as_primitive::<TimestampMicrosecondType>()))
        }
        _ => Err(Error::plain(format!(
            "the column {} has a type that is not supported in files",
            field.name()
        ))),
    }
}

impl Column<'_> {
    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Text(array) | Self::Json(array) => array.is_null(row),
            Self::Int(array) => array.is_null(row),
            Self::Float(array) => array.is_null(row),
            Self::Bool(array) => array.is_null(row),
            Self::Time(array) => array.is_null(row),
        }
    }
}

/// Writes times, several of which are on the same day.
pub(super) struct Times {
    day: i64,
    date: Vec<u8>,
}

impl Times {
    pub(super) fn new() -> Self {
        Self {
            day: i64::MIN,
            date: Vec::with_capacity(16),
        }
    }

    /// Such as `2026-11-15T09:30:00.000001+00:00`.
    pub(super) fn write(&mut self, micros: i64, out: &mut Vec<u8>) {
        let day = micros.div_euclid(MICROS_PER_DAY);
        if day != self.day {
            self.day = day;
            self.date.clear();
            write_date(day, &mut self.date);
        }
        out.extend_from_slice(&self.date);
        let rest = micros.rem_euclid(MICROS_PER_DAY);
        let (seconds, fraction) = (rest / MICROS_PER_SECOND, rest % MICROS_PER_SECOND);
        let mut clock = *b"T00:00:00.000000+00:00";
        put_digits(&mut clock[1..3], seconds / 3600);
        put_digits(&mut clock[4..6], seconds / 60 % 60);
        put_digits(&mut clock[7..9], seconds % 60);
        put_digits(&mut clock[10..16], fraction);
        out.extend_from_slice(&clock);
    }
}

fn put_digits(place: &mut [u8], mut number: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

/// The civil date of a day counted from 1970, in the Gregorian calendar extended both ways. The count begins again with
/// a March, so that leap days come last in a year, and repeats every 400 years.
fn write_date(day: i64, out: &mut Vec<u8>) {
    const DAYS_TO_1970: i64 = 719_468;
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let day = day + DAYS_TO_1970;
    let (era, of_era) = (day.div_euclid(DAYS_OF_400_YEARS), day.rem_euclid(DAYS_OF_400_YEARS));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    out.extend_from_slice(format!("{year:04}-{month:02}-{day_of_month:02}").as_bytes());
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn times_are_written_as_the_calendar_has_them(micros in -62_135_596_800_000_000_i64..253_402_300_800_000_000) {
            let mut out = Vec::new();
            Times::new().write(micros, &mut out);
            let expected = DateTime::from_timestamp_micros(micros).expect("in range");
            prop_assert_eq!(
                String::from_utf8(out).expect("digits"),
                expected.format("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
            );
        }
    }
}
