//! JSON lines: an object for each row. JSON in a column stays JSON.

use std::io::Write;

use arrow_array::RecordBatch;
use serde::de::IgnoredAny;

use super::format::unwritable;
use super::text::{Column, Times, columns};
use crate::Error;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// For each byte: 0 if it stands for itself in a string, `u` if it is written by its number, else the letter of its escape.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        escapes[control] = b'u';
        control += 1;
    }
    escapes[0x08] = b'b';
    escapes[0x09] = b't';
    escapes[0x0a] = b'n';
    escapes[0x0c] = b'f';
    escapes[0x0d] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

/// Appends a line for each row.
pub(super) fn write(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Error> {
    let columns = columns(batch)?;
    let keys = keys(batch);
    let mut times = Times::new();
    for row in 0..batch.num_rows() {
        for (key, column) in keys.iter().zip(&columns) {
            out.extend_from_slice(key);
            write_value(column, row, &mut times, out)?;
        }
        if keys.is_empty() {
            out.push(b'{');
        }
        out.extend_from_slice(b"}\n");
    }
    Ok(())
}

/// What comes before each value: `{"uuid":`, then `,"event":` and so on.
fn keys(batch: &RecordBatch) -> Vec<Vec<u8>> {
    let fields = batch.schema_ref().fields().iter().enumerate();
    let key = |(number, field): (usize, &arrow_schema::FieldRef)| {
        let mut key = vec![if number == 0 { b'{' } else { b',' }];
        write_string(field.name(), &mut key);
        key.push(b':');
        key
    };
    fields.map(key).collect()
}

fn write_value(column: &Column<'_>, row: usize, times: &mut Times, out: &mut Vec<u8>) -> Result<(), Error> {
    if column.is_null(row) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match column {
        Column::Text(array) => write_string(array.value(row), out),
        Column::Json(array) => write_json(array.value(row), out),
        Column::Int(array) => write!(out, "{}", array.value(row)).map_err(unwritable)?,
        // There is no JSON for what is not a number, so serde_json writes null.
        Column::Float(array) => serde_json::to_writer(out, &array.value(row)).map_err(unwritable)?,
        Column::Bool(array) => out.extend_from_slice(if array.value(row) { b"true" } else { b"false" }),
        Column::Time(array) => {
            out.push(b'"');
            times.write(array.value(row), out);
            out.push(b'"');
        }
    }
    Ok(())
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut written = 0;
    for (place, &byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[written..place]);
        written = place + 1;
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            let digits = [b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(&digits);
        }
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

/// Text that is JSON goes out as it is, on one line; other text as a string, or the line would break.
fn write_json(text: &str, out: &mut Vec<u8>) {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        write_string(text, out);
        return;
    }
    let start = out.len();
    out.extend_from_slice(text.as_bytes());
    // Inside strings these are escaped, so here they are nothing but space between values.
    for byte in &mut out[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
    use arrow_schema::{DataType, Field, Schema};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn line(batch: &RecordBatch) -> String {
        let mut out = Vec::new();
        write(batch, &mut out).expect("every type is known");
        String::from_utf8(out).expect("text")
    }

    fn json_column(values: Vec<Option<&str>>) -> RecordBatch {
        let field = Field::new("properties", DataType::Utf8, true);
        let field = field.with_metadata([("json".to_owned(), "true".to_owned())].into());
        let array = Arc::new(StringArray::from(values));
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).expect("one column")
    }

    #[test]
    fn every_type_has_its_json() {
        let columns: [(&str, Arc<dyn Array>); 5] = [
            ("text", Arc::new(StringArray::from(vec![Some("a\"\\\n\u{1}é🦔"), None]))),
            ("int", Arc::new(Int64Array::from(vec![Some(i64::MIN), None]))),
            ("float", Arc::new(Float64Array::from(vec![Some(0.1), Some(f64::NAN)]))),
            ("bool", Arc::new(BooleanArray::from(vec![Some(true), None]))),
            (
                "time",
                Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("UTC")),
            ),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("columns of two rows");
        assert_eq!(
            line(&batch),
            "{\"text\":\"a\\\"\\\\\\n\\u0001é🦔\",\"int\":-9223372036854775808,\"float\":0.1,\"bool\":true,\
             \"time\":\"1970-01-01T00:00:00.000001+00:00\"}\n\
             {\"text\":null,\"int\":null,\"float\":null,\"bool\":null,\"time\":null}\n"
        );
    }

    #[test]
    fn json_stays_json_and_bad_json_breaks_no_line() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let batch = json_column(vec![
            Some("{\n \"a\": [1,\r\n2]}"),
            None,
            Some("{\"a\":"),
            Some("{} {}"),
            Some(&deep),
        ]);
        assert_eq!(
            line(&batch),
            format!(
                "{{\"properties\":{{  \"a\": [1,  2]}}}}\n{{\"properties\":null}}\n{{\"properties\":\"{{\\\"a\\\":\"}}\n\
                 {{\"properties\":\"{{}} {{}}\"}}\n{{\"properties\":{deep}}}\n"
            )
        );
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in any::<String>()) {
            let array = Arc::new(StringArray::from(vec![text.as_str()]));
            let batch = RecordBatch::try_from_iter([("key \"1\"", array as Arc<dyn Array>)]).expect("one column");
            let read: Value = serde_json::from_str(line(&batch).trim_end_matches('\n')).expect("JSON");
            prop_assert_eq!(read, json!({ "key \"1\"": text }));
        }

        #[test]
        fn a_json_column_never_breaks_its_line(text in any::<String>()) {
            let line = line(&json_column(vec![Some(&text)]));
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert!(serde_json::from_str::<Value>(&line).is_ok());
        }
    }
}
