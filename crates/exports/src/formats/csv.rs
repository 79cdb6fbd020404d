//! CSV as RFC 4180 has it, with a header. Null is an empty field, an empty text is `""`.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::format::unwritable;
use super::text::{Column, Times, columns};
use crate::Error;

/// The first line of every file.
pub(super) fn header(schema: &Schema) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, field) in schema.fields().iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write_text(field.name(), starts_formula(field.name()), &mut out);
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Appends a record for each row.
pub(super) fn write(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Error> {
    let columns = columns(batch)?;
    let mut times = Times::new();
    for row in 0..batch.num_rows() {
        for (number, column) in columns.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            if !column.is_null(row) {
                write_value(column, row, &mut times, out)?;
            }
        }
        out.extend_from_slice(b"\r\n");
    }
    Ok(())
}

fn write_value(column: &Column<'_>, row: usize, times: &mut Times, out: &mut Vec<u8>) -> Result<(), Error> {
    match column {
        Column::Text(array) => write_text(array.value(row), starts_formula(array.value(row)), out),
        Column::Json(array) => {
            let text = array.value(row);
            // A negative number is no formula.
            write_text(text, starts_formula(text) && text.parse::<f64>().is_err(), out);
        }
        Column::Int(array) => write!(out, "{}", array.value(row)).map_err(unwritable)?,
        Column::Float(array) => write!(out, "{}", array.value(row)).map_err(unwritable)?,
        Column::Bool(array) => out.extend_from_slice(if array.value(row) { b"true" } else { b"false" }),
        Column::Time(array) => times.write(array.value(row), out),
    }
    Ok(())
}

/// Whether a spreadsheet would carry the text out rather than show it. NUL, which is left out, hides nothing.
fn starts_formula(text: &str) -> bool {
    text.trim_start_matches('\0')
        .starts_with(['=', '+', '-', '@', '\t', '\r'])
}

fn write_text(text: &str, is_formula: bool, out: &mut Vec<u8>) {
    let needs_quotes = |byte: &u8| matches!(byte, b'"' | b',' | b'\r' | b'\n');
    let is_quoted = text.is_empty() || text.bytes().any(|byte| needs_quotes(&byte)) || has_outer_space(text);
    if is_quoted {
        out.push(b'"');
    }
    if is_formula {
        out.push(b'\'');
    }
    for byte in text.bytes().filter(|&byte| byte != 0) {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    if is_quoted {
        out.push(b'"');
    }
}

/// Some readers trim what is not quoted. A text of nothing but NUL becomes empty, not null.
fn has_outer_space(text: &str) -> bool {
    let is_at_edge = |char: char| char.is_whitespace() || char == '\0';
    text.starts_with(is_at_edge) || text.ends_with(is_at_edge)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
    use arrow_schema::{DataType, Field};

    use super::*;

    fn written(columns: Vec<(&str, ArrayRef)>) -> String {
        let batch = RecordBatch::try_from_iter(columns).expect("columns");
        let mut out = header(batch.schema_ref());
        write(&batch, &mut out).expect("every type is known");
        String::from_utf8(out).expect("text")
    }

    fn text(values: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(values))
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let nulls = Arc::new(StringArray::from(vec![None::<&str>; 3]));
        let written = written(vec![("a,b", text(&["x \"y\"", "", "1\r\n2"])), ("n", nulls)]);
        assert_eq!(written, "\"a,b\",n\r\n\"x \"\"y\"\"\",\r\n\"\",\r\n\"1\r\n2\",\r\n");
    }

    #[test]
    fn no_text_begins_a_formula() {
        let hostile = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\0=1", "a=1", "a\0b"];
        let lines = written(vec![("=t", text(&hostile))]);
        let expected = "'=t\r\n'=1+1\r\n'+1\r\n'-1\r\n'@x\r\n\"'\tx\"\r\n\"'\rx\"\r\n\"'=1\"\r\na=1\r\nab\r\n";
        assert_eq!(lines, expected);
        let numbers = written(vec![
            ("i", Arc::new(Int64Array::from(vec![-1]))),
            ("f", Arc::new(Float64Array::from(vec![-0.5]))),
        ]);
        assert_eq!(numbers, "i,f\r\n-1,-0.5\r\n");
    }

    #[test]
    fn json_is_text_but_its_numbers_are_no_formulas() {
        let field = Field::new("j", DataType::Utf8, true);
        let field = field.with_metadata([("json".to_owned(), "true".to_owned())].into());
        let values = text(&["-5", "-a", r#"{"a":1}"#]);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values]).expect("one column");
        let mut out = Vec::new();
        write(&batch, &mut out).expect("text");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "-5\r\n'-a\r\n\"{\"\"a\"\":1}\"\r\n"
        );
    }
}
