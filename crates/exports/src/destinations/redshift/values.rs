//! Values as texts, which the statement turns into the types of the columns.
//!
//! Texts are the one thing that is surely read the same by every version of Redshift.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use chrono::DateTime;

use super::column::{Column, Kind, MAX_LENGTH};
use crate::destinations::sql::{Name, clean, unsuited};
use crate::{Delivery, Error};

struct Planned {
    /// In our batches.
    index: usize,
    name: Name,
    kind: Kind,
    is_json: bool,
}

/// Spells the columns that both the export and the table have.
pub(super) struct Values {
    columns: Vec<Planned>,
    /// How many texts were longer than their column.
    cut: u64,
}

impl Values {
    pub(super) fn new(schema: &Schema, table: &[Column]) -> Result<Self, Error> {
        let mut columns = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            let mut found = table
                .iter()
                .filter(|column| column.name.eq_ignore_ascii_case(field.name()));
            let Some(column) = found.next() else { continue };
            let fitting = column.kind.filter(|kind| kind.takes(field.data_type()));
            columns.push(Planned {
                index,
                name: Name::new("column", field.name())?,
                kind: fitting.ok_or_else(|| unsuited(field.name(), "its values"))?,
                is_json: field.metadata().contains_key("json"),
            });
        }
        if columns.is_empty() {
            return Err(Error::plain(
                "the table has none of the export's columns, or the user cannot see them; choose a new table_name to \
                 have the table created, or grant the user access",
            ));
        }
        Ok(Self { columns, cut: 0 })
    }

    pub(super) fn names(&self) -> Vec<Name> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.columns.iter().map(|column| column.kind).collect()
    }

    /// The values of one row, in the order of [`Values::names`].
    pub(super) fn spell(&mut self, rows: &RecordBatch, row: usize, out: &mut Vec<Option<String>>) {
        for column in &self.columns {
            let values = rows.column(column.index);
            let (value, is_cut) = if values.is_null(row) {
                (None, false)
            } else {
                spell(column, values, row)
            };
            self.cut += u64::from(is_cut);
            out.push(value);
        }
    }

    /// Says in the log how many texts were cut.
    pub(super) fn report(&self, delivery: &Delivery) {
        if self.cut > 0 {
            tracing::warn!(export = %delivery.export.0, run = %delivery.run.0, cut = self.cut, "strings were truncated to their column length");
        }
    }
}

/// One value that is there, and whether something had to be left out.
fn spell(column: &Planned, values: &dyn Array, row: usize) -> (Option<String>, bool) {
    let text = match values.data_type() {
        DataType::Int64 => values.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Boolean => values.as_boolean().value(row).to_string(),
        DataType::Timestamp(..) => spelled_time(values.as_primitive::<TimestampMicrosecondType>().value(row)),
        _ => return spell_text(column, values.as_string::<i32>().value(row)),
    };
    (Some(text), false)
}

fn spell_text(column: &Planned, text: &str) -> (Option<String>, bool) {
    // What an engine gives for JSON that is not there.
    if column.is_json && text.is_empty() {
        return (None, false);
    }
    if let Kind::Text(longest) = column.kind {
        let clean = clean::text(text);
        let (kept, is_cut) = clean::bytes(&clean, longest);
        return (Some(kept.to_owned()), is_cut);
    }
    let json = if column.is_json {
        clean::json(text).into_owned()
    } else {
        serde_json::Value::from(clean::text(text)).to_string()
    };
    // Half of it would be no JSON at all.
    let is_too_long = json.len() > MAX_LENGTH;
    ((!is_too_long).then_some(json), is_too_long)
}

/// A time that both databases read, whatever their settings are.
pub(super) fn spelled_time(micros: i64) -> String {
    let time = DateTime::from_timestamp_micros(micros).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M:%S%.6f+00").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(kind: Kind, is_json: bool) -> Planned {
        Planned {
            index: 0,
            name: Name::new("column", "x").unwrap(),
            kind,
            is_json,
        }
    }

    #[test]
    fn what_is_too_long_is_cut_and_counted() {
        let long = "é".repeat(40_000);
        let (kept, is_cut) = spell_text(&planned(Kind::Text(MAX_LENGTH), false), &long);
        assert_eq!((kept.unwrap().len(), is_cut), (65_534, true));
        let json = format!("\"{long}\"");
        assert_eq!(spell_text(&planned(Kind::Super, true), &json), (None, true));
        assert_eq!(spell_text(&planned(Kind::Super, true), ""), (None, false));
        let quoted = Some("\"a\\\"b\"".to_owned());
        assert_eq!(spell_text(&planned(Kind::Super, false), "a\"b\0"), (quoted, false));
    }

    #[test]
    fn times_are_spelled_to_the_microsecond() {
        assert_eq!(spelled_time(1_500_000), "1970-01-01 00:00:01.500000+00");
    }
}
