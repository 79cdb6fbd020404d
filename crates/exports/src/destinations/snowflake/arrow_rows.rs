//! A row in Arrow, which some servers send whatever they are asked for.
//!
//! The library takes the memory that a message says it needs, so what messages say is checked first. It panics at some of what it does
//! not expect.

use std::panic::catch_unwind;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::{Field, Message, MessageHeader, Schema, Type, root_as_message};
use arrow_schema::DataType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::errors::unreadable;
use crate::Error;
use crate::destinations::answers::{MAX_CELLS, Row};

/// In base64. What we ask for are names of attempts and counts.
const MAX_LENGTH: usize = 64 * 1024;
/// Before the length of a message, except in old streams.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The first row, every value as text; none if there is no row.
pub(super) fn first(encoded: &str) -> Result<Option<Row>, Error> {
    if encoded.len() > MAX_LENGTH {
        return Err(unreadable("too long for a row"));
    }
    let bytes = STANDARD.decode(encoded).map_err(unreadable)?;
    check(&bytes).map_err(unreadable)?;
    catch_unwind(|| first_of(&bytes)).unwrap_or_else(|_| Err(unreadable("not what the library expects")))
}

fn first_of(stream: &[u8]) -> Result<Option<Row>, Error> {
    for batch in StreamReader::try_new(stream, None).map_err(unreadable)? {
        let batch = batch.map_err(unreadable)?;
        if batch.num_rows() > 0 {
            return row(&batch.slice(0, 1)).map(Some);
        }
    }
    Ok(None)
}

fn row(batch: &RecordBatch) -> Result<Row, Error> {
    let values = batch.columns().iter().map(|column| {
        if column.data_type() == &DataType::Null || column.is_null(0) {
            return Ok(None);
        }
        let text = text(column).ok_or_else(|| unreadable("a type we did not ask for"))?;
        Ok(Some(text))
    });
    values.collect()
}

/// The first value of a column that has one, if it is of a type that [`is_type_of_ours`] lets through.
fn text(column: &dyn Array) -> Option<String> {
    let text = match column.data_type() {
        DataType::Boolean => column.as_boolean().value(0).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(0).to_owned(),
        DataType::Int8 => number::<Int8Type>(column),
        DataType::Int16 => number::<Int16Type>(column),
        DataType::Int32 => number::<Int32Type>(column),
        DataType::Int64 => number::<Int64Type>(column),
        DataType::UInt8 => number::<UInt8Type>(column),
        DataType::UInt16 => number::<UInt16Type>(column),
        DataType::UInt32 => number::<UInt32Type>(column),
        DataType::UInt64 => number::<UInt64Type>(column),
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(0),
        _ => return None,
    };
    Some(text)
}

fn number<T: ArrowPrimitiveType<Native: ToString>>(column: &dyn Array) -> String {
    column.as_primitive::<T>().value(0).to_string()
}

/// Whether every message is as long as it says, and holds a few plain columns or rows that are not compressed.
fn check(stream: &[u8]) -> Result<(), &'static str> {
    let mut rest = stream;
    while let Some((message, after)) = next(rest)? {
        if !is_plain(&message) {
            return Err("nested, compressed or too many columns");
        }
        let body = usize::try_from(message.bodyLength()).ok();
        let body = body.and_then(|length| after.get(length..));
        rest = body.ok_or("shorter than it says")?;
    }
    Ok(())
}

/// The next message, and what follows its head; none at the end.
fn next(stream: &[u8]) -> Result<Option<(Message<'_>, &[u8])>, &'static str> {
    let stream = stream.strip_prefix(&CONTINUATION).unwrap_or(stream);
    let Some((length, rest)) = stream.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| "a negative length")?;
    if length == 0 {
        return Ok(None);
    }
    let (head, rest) = rest.split_at_checked(length).ok_or("shorter than it says")?;
    let message = root_as_message(head).map_err(|_| "no message")?;
    Ok(Some((message, rest)))
}

fn is_plain(message: &Message<'_>) -> bool {
    match message.header_type() {
        MessageHeader::Schema => message.header_as_schema().is_some_and(|schema| is_flat(&schema)),
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch();
            batch.is_some_and(|batch| batch.compression().is_none())
        }
        _ => false,
    }
}

fn is_flat(schema: &Schema<'_>) -> bool {
    let is_few = |count: Option<usize>| count.unwrap_or_default() <= MAX_CELLS;
    let is_column = |field: Field<'_>| {
        field.name().is_some()
            && field.dictionary().is_none()
            && field.children().is_none_or(|children| children.is_empty())
            && is_few(field.custom_metadata().map(|notes| notes.len()))
            && is_type_of_ours(&field)
    };
    is_few(schema.custom_metadata().map(|notes| notes.len()))
        && is_few(schema.fields().map(|fields| fields.len()))
        && schema.fields().is_some_and(|fields| fields.iter().all(is_column))
}

/// Whether names and counts can have this type.
fn is_type_of_ours(field: &Field<'_>) -> bool {
    match field.type_type() {
        Type::Null | Type::Bool | Type::Utf8 => true,
        Type::Int => field
            .type_as_int()
            .is_some_and(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64)),
        Type::Decimal => field.type_as_decimal().is_some_and(|decimal| {
            let (precision, scale) = (decimal.precision(), decimal.scale());
            decimal.bitWidth() == 128 && (1..=38).contains(&precision) && (0..=precision).contains(&scale)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, Int64Array, NullArray, StringArray, UInt8Array};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};

    use super::*;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let names = (0..columns.len()).map(|number| format!("c{number}"));
        RecordBatch::try_from_iter(names.zip(columns)).unwrap()
    }

    fn stream(batch: &RecordBatch, compression: Option<CompressionType>) -> Vec<u8> {
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn read(stream: &[u8]) -> Result<Option<Row>, Error> {
        first(&STANDARD.encode(stream))
    }

    fn texts(length: usize) -> ArrayRef {
        let texts: Vec<Option<&str>> = vec![Some("a text"); length];
        Arc::new(StringArray::from(texts))
    }

    #[test]
    fn the_first_row_is_read_as_texts() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
        let rows = batch(vec![texts(2), numbers, Arc::new(NullArray::new(2))]);
        let row = [Some("a text"), Some("7"), None].map(|text| text.map(str::to_owned));
        assert_eq!(read(&stream(&rows, None)).unwrap(), Some(row.to_vec()));
        assert_eq!(read(&stream(&batch(vec![texts(0)]), None)).unwrap(), None);
    }

    #[test]
    fn each_type_that_we_may_be_sent_is_a_text() {
        let decimals = Decimal128Array::from(vec![-1234])
            .with_precision_and_scale(38, 2)
            .unwrap();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(vec![true])),
            Arc::new(UInt8Array::from(vec![255])),
            Arc::new(Int64Array::from(vec![i64::MIN])),
            Arc::new(decimals),
            Arc::new(StringArray::from(vec![None::<&str>])),
        ];
        let row = read(&stream(&batch(columns), None)).unwrap().unwrap();
        let expected = [
            Some("true"),
            Some("255"),
            Some("-9223372036854775808"),
            Some("-12.34"),
            None,
        ];
        assert_eq!(row, expected.map(|text| text.map(str::to_owned)));
    }

    #[test]
    fn a_row_of_a_column_without_end_takes_no_memory() {
        let rows = batch(vec![Arc::new(NullArray::new(1 << 40))]);
        assert_eq!(read(&stream(&rows, None)).unwrap(), Some(vec![None]));
    }

    #[test]
    fn what_would_grow_is_refused() {
        // Of a compressed column the sender says how long it becomes.
        let compressed = stream(&batch(vec![texts(10_000)]), Some(CompressionType::LZ4_FRAME));
        let cut = stream(&batch(vec![texts(100)]), None);
        let wide = stream(&batch(vec![texts(1); MAX_CELLS + 1]), None);
        for refused in [&compressed[..], &cut[..cut.len() / 2], &wide[..]] {
            assert!(check(refused).is_err() && read(refused).is_err());
        }
        let long = stream(&batch(vec![texts(10_000)]), None);
        assert!(check(&long).is_ok() && read(&long).is_err());
    }

    /// The library would panic at some of these.
    #[test]
    fn whatever_is_changed_in_a_stream_is_read_or_refused() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let decimals = Decimal128Array::from(vec![7]).with_precision_and_scale(38, 0).unwrap();
        let whole = stream(&batch(vec![texts(1), numbers, Arc::new(decimals)]), None);
        assert!(read(&whole).unwrap().is_some());
        let mut refused = 0;
        for place in 0..whole.len() {
            for value in [0, 1, 2, 13, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[place] = value;
                refused += usize::from(read(&changed).is_err());
            }
        }
        assert!(refused > whole.len(), "{refused} of {}", 6 * whole.len());
    }

    #[test]
    fn a_length_that_is_not_there_is_not_believed() {
        for length in [i32::MAX, -2, 1 << 30] {
            assert!(check(&length.to_le_bytes()).is_err());
        }
        assert!(read(&[]).is_err());
    }
}
