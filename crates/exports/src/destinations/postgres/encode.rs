//! Rows in the binary format of COPY, for the types that the table's columns have.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use bytes::{BufMut, BytesMut};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::table::Column;
use crate::destinations::sql::{Name, clean, unsuited};
use crate::{Delivery, Error};

/// PostgreSQL counts from the year 2000.
const EPOCH: i64 = 946_684_800_000_000;
/// No value of PostgreSQL is longer.
const MAX_LENGTH: usize = 1 << 30;

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Text {
        longest: Option<usize>,
    },
    Uuid,
    /// What is JSON, as `json` or `jsonb`.
    Json {
        is_binary: bool,
    },
    /// A text that becomes a JSON string.
    Quoted {
        is_binary: bool,
    },
    Int2,
    Int4,
    Int8,
    Int8AsFloat,
    Float4,
    Float8,
    Bool,
    Time,
}

struct Planned {
    /// In our batches.
    index: usize,
    name: Name,
    code: Code,
}

/// Writes the columns that both the export and the table have.
pub(super) struct Encoder {
    columns: Vec<Planned>,
    /// How many texts were longer than their column.
    cut: u64,
}

impl Encoder {
    pub(super) fn new(schema: &Schema, table: &[Column]) -> Result<Self, Error> {
        let mut columns = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            let Some(column) = table.iter().find(|column| column.name == *field.name()) else {
                continue;
            };
            let is_json = field.metadata().contains_key("json");
            let (code, value) = code(field.data_type(), is_json, column);
            columns.push(Planned {
                index,
                name: Name::new("column", field.name())?,
                code: code.ok_or_else(|| unsuited(field.name(), value))?,
            });
        }
        if columns.is_empty() {
            return Err(Error::plain(
                "the table has none of the export's columns; choose a new table_name to have the table created",
            ));
        }
        Ok(Self { columns, cut: 0 })
    }

    pub(super) fn names(&self) -> Vec<Name> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// Writes rows from `row` on until there are `enough` bytes, and returns the row to go on with.
    pub(super) fn encode(
        &mut self,
        rows: &RecordBatch,
        mut row: usize,
        enough: usize,
        out: &mut BytesMut,
    ) -> Result<usize, Error> {
        let count = i16::try_from(self.columns.len())
            .map_err(|_| Error::plain("the export has more columns than a table can have"))?;
        while row < rows.num_rows() && out.len() < enough {
            out.put_i16(count);
            for column in &self.columns {
                let values = rows.column(column.index);
                if values.is_null(row) {
                    out.put_i32(-1);
                } else {
                    self.cut += u64::from(write(column, values, row, out)?);
                }
            }
            row += 1;
        }
        Ok(row)
    }

    /// Says in the log how many texts were cut.
    pub(super) fn report(&self, delivery: &Delivery) {
        if self.cut > 0 {
            tracing::warn!(export = %delivery.export.0, run = %delivery.run.0, cut = self.cut, "strings were truncated to their column length");
        }
    }
}

/// How values of ours go into a column, and what to call them if they do not.
fn code(kind: &DataType, is_json: bool, column: &Column) -> (Option<Code>, &'static str) {
    let to = &column.kind;
    let text = Code::Text {
        longest: column.longest,
    };
    match kind {
        DataType::Int64 => {
            let code = match *to {
                Type::INT2 => Some(Code::Int2),
                Type::INT4 => Some(Code::Int4),
                Type::INT8 => Some(Code::Int8),
                Type::FLOAT8 => Some(Code::Int8AsFloat),
                _ => None,
            };
            (code, "whole numbers")
        }
        DataType::Float64 => {
            let code = match *to {
                Type::FLOAT4 => Some(Code::Float4),
                Type::FLOAT8 => Some(Code::Float8),
                _ => None,
            };
            (code, "numbers")
        }
        DataType::Boolean => ((*to == Type::BOOL).then_some(Code::Bool), "true and false"),
        DataType::Timestamp(..) => {
            let is_time = matches!(*to, Type::TIMESTAMPTZ | Type::TIMESTAMP);
            (is_time.then_some(Code::Time), "times")
        }
        _ => {
            let code = match *to {
                Type::JSON | Type::JSONB => {
                    let is_binary = *to == Type::JSONB;
                    Some(if is_json {
                        Code::Json { is_binary }
                    } else {
                        Code::Quoted { is_binary }
                    })
                }
                Type::UUID => Some(Code::Uuid),
                _ if column.is_text => Some(text),
                _ => None,
            };
            (code, if is_json { "JSON" } else { "texts" })
        }
    }
}

/// Writes one value that is there. Says whether it had to be cut.
fn write(column: &Planned, values: &dyn Array, row: usize, out: &mut BytesMut) -> Result<bool, Error> {
    let name = column.name.bare();
    let int = || values.as_primitive::<Int64Type>().value(row);
    let float = || values.as_primitive::<Float64Type>().value(row);
    let too_large = |_| unsuited(name, "numbers as large as some of these");
    match column.code {
        Code::Int2 => put(out, &i16::try_from(int()).map_err(too_large)?.to_be_bytes()),
        Code::Int4 => put(out, &i32::try_from(int()).map_err(too_large)?.to_be_bytes()),
        Code::Int8 => put(out, &int().to_be_bytes()),
        #[expect(clippy::cast_precision_loss, reason = "the owner chose a column of floating point")]
        Code::Int8AsFloat => put(out, &(int() as f64).to_be_bytes()),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the owner chose a column of that precision"
        )]
        Code::Float4 => put(out, &(float() as f32).to_be_bytes()),
        Code::Float8 => put(out, &float().to_be_bytes()),
        Code::Bool => put(out, &[u8::from(values.as_boolean().value(row))]),
        Code::Time => {
            let micros = values.as_primitive::<TimestampMicrosecondType>().value(row);
            put(out, &micros.saturating_sub(EPOCH).to_be_bytes());
        }
        Code::Text { .. } | Code::Uuid | Code::Json { .. } | Code::Quoted { .. } => {
            return write_text(column, values.as_string::<i32>().value(row), out);
        }
    }
    Ok(false)
}

fn write_text(column: &Planned, text: &str, out: &mut BytesMut) -> Result<bool, Error> {
    let name = column.name.bare();
    if text.len() >= MAX_LENGTH / 8 {
        return Err(unsuited(name, "texts as long as some of these"));
    }
    match column.code {
        Code::Uuid => {
            let id = Uuid::parse_str(text).map_err(|_| unsuited(name, "IDs that are not UUIDs"))?;
            put(out, id.as_bytes());
        }
        // What an engine gives for JSON that is not there.
        Code::Json { .. } if text.is_empty() => out.put_i32(-1),
        Code::Json { is_binary } => put_json(out, is_binary, &clean::json(text)),
        Code::Quoted { is_binary } => {
            let quoted = serde_json::Value::from(clean::text(text)).to_string();
            put_json(out, is_binary, &quoted);
        }
        Code::Text { longest } => {
            let clean = clean::text(text);
            let (kept, is_cut) = longest.map_or((&*clean, false), |longest| clean::characters(&clean, longest));
            put(out, kept.as_bytes());
            return Ok(is_cut);
        }
        _ => unreachable!("only texts come here"),
    }
    Ok(false)
}

/// `jsonb` has its version in front.
fn put_json(out: &mut BytesMut, is_binary: bool, text: &str) {
    put_length(out, text.len() + usize::from(is_binary));
    if is_binary {
        out.put_u8(1);
    }
    out.put_slice(text.as_bytes());
}

fn put(out: &mut BytesMut, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.put_slice(bytes);
}

fn put_length(out: &mut BytesMut, length: usize) {
    out.put_i32(i32::try_from(length).expect("texts are far shorter, even with every character escaped"));
}
