//! Files become events.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, DictionaryArray, FixedSizeBinaryArray, Int64Array, LargeStringArray, ListArray,
    RecordBatch, StringArray, StringViewArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use events::import::{self, BadRow, OpenError};
use events::{Incoming, Scan};
use flate2::Compression;
use flate2::write::GzEncoder;
use hogql::Model;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::folder::Folder;
use crate::suite::{all_columns, batches, event, time};

const LINES: &str = r#"{"event": "one", "distinct_id": "ada", "timestamp": "2026-01-31T12:00:00Z", "properties": {"a": 1}}
{"event": "two", "distinct_id": 7}

{"event": "thr
{"distinct_id": "ada"}
{"event": "six", "distinct_id": "ada", "uuid": "0190163e-6a84-7c3f-9d2b-5f1e2a3b4c5d"}"#;

fn read(path: &Path) -> Vec<Result<Incoming, BadRow>> {
    import::open(path, time(0)).unwrap().collect()
}

fn write(folder: &Folder, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn table(folder: &Folder, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
    let path = folder.path().join("events.parquet");
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

fn assert_lines(rows: &[Result<Incoming, BadRow>]) {
    let names: Vec<_> = rows
        .iter()
        .filter_map(|row| row.as_ref().ok())
        .map(|event| event.event.as_str())
        .collect();
    assert_eq!(names, ["one", "two", "six"]);
    let bad: Vec<_> = rows
        .iter()
        .filter_map(|row| row.as_ref().err())
        .map(|row| row.line)
        .collect();
    assert_eq!(bad, [4, 5]);
}

#[test]
fn good_lines_are_read_and_bad_ones_named() {
    let folder = Folder::new();
    let rows = read(&write(&folder, "events.jsonl", LINES.as_bytes()));
    assert_lines(&rows);
    let first = rows[0].as_ref().unwrap();
    assert_eq!(first.timestamp.to_rfc3339(), "2026-01-31T12:00:00+00:00");
    assert_eq!(Value::Object(first.properties.clone()), json!({"a": 1}));
    assert_eq!(rows[1].as_ref().unwrap().timestamp, time(0));
    let message = rows[2].as_ref().unwrap_err().to_string();
    assert!(message.contains("events.jsonl, line 4: not valid JSON"), "{message}");
}

#[test]
fn gzipped_lines_are_read_and_progress_is_of_the_file() {
    let folder = Folder::new();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(LINES.as_bytes()).unwrap();
    let path = write(&folder, "events.jsonl.gz", &encoder.finish().unwrap());
    let mut import = import::open(&path, time(0)).unwrap();
    assert_lines(&import.by_ref().collect::<Vec<_>>());
    assert_eq!(import.bytes_read(), import.bytes());
    assert_eq!(import.bytes(), std::fs::metadata(&path).unwrap().len());
}

#[test]
fn a_file_that_ends_in_the_middle_says_so_once() {
    let folder = Folder::new();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(LINES.as_bytes()).unwrap();
    let whole = encoder.finish().unwrap();
    let rows = read(&write(&folder, "events.jsonl.gz", &whole[..whole.len() / 2]));
    let message = rows.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(message.contains("the rest of the file cannot be read"), "{message}");
}

#[test]
fn a_table_with_other_types_is_read() {
    let folder = Folder::new();
    let uuid = Uuid::now_v7();
    let path = table(
        &folder,
        vec![
            (
                "event",
                Arc::new(StringArray::from(vec![Some("one"), None, Some("three")])),
            ),
            ("distinct_id", Arc::new(StringArray::from(vec!["ada", "bob", "cy"]))),
            (
                "timestamp",
                Arc::new(TimestampMillisecondArray::from(vec![Some(1500), None, None])),
            ),
            (
                "uuid",
                Arc::new(
                    FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                        vec![Some(*uuid.as_bytes()), None, None].into_iter(),
                        16,
                    )
                    .unwrap(),
                ),
            ),
            (
                "properties",
                Arc::new(StringArray::from(vec![Some("{\"a\":1}"), None, Some("{")])),
            ),
        ],
    );
    let rows = read(&path);
    let first = rows[0].as_ref().unwrap();
    assert_eq!((first.event.as_str(), first.uuid), ("one", Some(uuid)));
    assert_eq!(first.timestamp.timestamp_millis(), 1500);
    assert_eq!(Value::Object(first.properties.clone()), json!({"a": 1}));
    assert!(rows[1].as_ref().unwrap_err().why.contains("event"));
    let last = rows[2].as_ref().unwrap_err();
    assert!(last.line == 3 && last.why.contains("properties"), "{last}");
}

#[test]
fn a_time_that_is_none_is_not_taken_for_now() {
    let folder = Folder::new();
    let told = |texts: Vec<&str>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let path = table(
        &folder,
        vec![
            ("event", told(vec!["one", "two"])),
            ("distinct_id", told(vec!["ada", "ada"])),
            ("timestamp", told(vec!["2026-01-31T12:00:00Z", "yesterday"])),
        ],
    );
    let rows = read(&path);
    assert_eq!(
        rows[0].as_ref().unwrap().timestamp.to_rfc3339(),
        "2026-01-31T12:00:00+00:00"
    );
    assert!(rows[1].as_ref().unwrap_err().why.contains("timestamp"));
}

/// As pandas, Polars and Spark write them.
#[test]
fn columns_of_other_writers_are_read() {
    let folder = Folder::new();
    let categories: DictionaryArray<Int32Type> = ["page", "page"].into_iter().collect();
    let names: [ArrayRef; 4] = [
        Arc::new(categories),
        Arc::new(LargeStringArray::from(vec!["page", "page"])),
        Arc::new(StringViewArray::from(vec!["page", "page"])),
        Arc::new(BinaryArray::from_vec(vec![b"page", b"page"])),
    ];
    let nanoseconds = TimestampNanosecondArray::from(vec![1_500_000_000, 0]).with_timezone("Europe/Berlin");
    let times: [(ArrayRef, &str); 3] = [
        (Arc::new(nanoseconds), "1970-01-01T00:00:01.500+00:00"),
        (Arc::new(Date32Array::from(vec![1, 0])), "1970-01-02T00:00:00+00:00"),
        (
            Arc::new(StringArray::from(vec![
                "1970-01-01 00:00:01",
                "1970-01-01T01:00:00+01:00",
            ])),
            "1970-01-01T00:00:01+00:00",
        ),
    ];
    for event in names {
        for (timestamp, expected) in &times {
            let distinct_id = Arc::new(Int64Array::from(vec![7, 8]));
            let columns = vec![
                ("event", event.clone()),
                ("distinct_id", distinct_id as ArrayRef),
                ("timestamp", timestamp.clone()),
            ];
            let rows: Vec<_> = read(&table(&folder, columns)).into_iter().map(Result::unwrap).collect();
            assert_eq!((rows[0].event.as_str(), rows[0].distinct_id.as_str()), ("page", "7"));
            assert_eq!(rows[0].timestamp.to_rfc3339(), *expected);
            assert_eq!(rows[1].timestamp.timestamp(), 0);
        }
    }
}

#[test]
fn a_column_that_cannot_be_read_is_named() {
    let folder = Folder::new();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    let far = TimestampMillisecondArray::from(vec![i64::MAX]);
    let texts = || Arc::new(StringArray::from(vec!["ada"])) as ArrayRef;
    for (event, timestamp, expected) in [
        (
            Arc::new(lists) as ArrayRef,
            texts(),
            "the column event has an unsupported type",
        ),
        (texts(), Arc::new(far) as ArrayRef, "invalid timestamp"),
        (
            texts(),
            Arc::new(Int64Array::from(vec![1])) as ArrayRef,
            "invalid timestamp",
        ),
    ] {
        let columns = vec![("event", event), ("distinct_id", texts()), ("timestamp", timestamp)];
        let why = read(&table(&folder, columns)).remove(0).unwrap_err().why;
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_table_without_events_is_refused() {
    let folder = Folder::new();
    let path = table(&folder, vec![("distinct_id", Arc::new(StringArray::from(vec!["ada"])))]);
    assert!(matches!(
        import::open(&path, time(0)),
        Err(OpenError::NoColumn("event"))
    ));
}

#[tokio::test]
async fn what_a_store_gives_out_can_be_taken_in_again() {
    let folder = Folder::new();
    let store = folder.open();
    let sent: Vec<_> = (0..3000)
        .map(|n| {
            event(
                "x",
                &n.to_string(),
                json!({"n": n, "$set": {"n": n}, "$elements_chain": "a:"}),
            )
        })
        .collect();
    store.append(1, sent.clone(), time(1)).await.unwrap();
    let scan = Scan {
        team: 1,
        query: all_columns(Model::Events),
        start: None,
        end: time(2),
        skip: 0,
        limit: None,
    };
    let batches = batches(&store, scan).await;
    let path = folder.path().join("out.parquet");
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batches[0].schema(), None).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
    let again: Vec<_> = read(&path).into_iter().map(Result::unwrap).collect();
    assert_eq!(again, sent);
}
