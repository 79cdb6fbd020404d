//! Every format, read by `DuckDB`.

use std::fs;
use std::path::PathBuf;

use exports::ExportsDeps;
use exports::verify::verify;
use hogql::Model;
use serde_json::{Value, json};
use service::batch_exports::destination::Kind;
use testkit::external::duckdb;

use super::files::{Folder, deps, open, reader};
use super::suite::{delivery, events};

const STEM: &str = "2026-11-15T00:00:00+00:00-2026-11-15T01:00:00+00:00";

async fn deliver(config: &Value, deps: &ExportsDeps, rows: u128, step: usize) {
    let destination = open(Kind::File, config, deps).unwrap();
    let delivery = delivery(&*destination, Model::Events, 0);
    let mut upload = destination.begin(&delivery).await.unwrap().unwrap();
    for start in (0..rows).step_by(step) {
        let batch = events(&delivery, start..rows.min(start + step as u128));
        upload.write(batch).await.unwrap();
    }
    assert_eq!(u128::from(upload.commit().await.unwrap().rows), rows);
}

/// What `DuckDB` makes of the files: how many, how many different, the columns with their types, and row 3, which has
/// everything in it that breaks writers.
fn read_back(folder: &Folder, glob: &str) -> (Vec<Value>, Vec<(String, String)>, Vec<Value>) {
    let brotli: Vec<PathBuf> = folder.files().iter().map(|file| folder.path().join(file)).collect();
    let brotli: Vec<PathBuf> = brotli
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "br"))
        .collect();
    let files = reader(folder.path(), glob);
    let unpacked = if glob.contains(".parquet") {
        &[][..]
    } else {
        &brotli[..]
    };
    let counts = duckdb(&format!("SELECT count(*), count(DISTINCT uuid) FROM {files}"), unpacked).remove(0);
    let columns = duckdb(&format!("DESCRIBE SELECT * FROM {files}"), &[]);
    let columns = columns.into_iter().map(|row| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&row[0]), text(&row[1]))
    });
    let row = duckdb(
        &format!(
            "SELECT event, timestamp::TIMESTAMPTZ::VARCHAR, distinct_id, properties::JSON->>'text', properties::JSON->'deep'->'list', \
             elements_chain FROM {files} WHERE uuid = '00000000-0000-0000-0000-000000000003'"
        ),
        &[],
    );
    (counts, columns.collect(), row.into_iter().next().unwrap())
}

/// Every compression of a format, by its extension.
async fn is_read_by_duckdb(format: &str, extension: &str, compressions: &[(Value, &str)]) {
    for (compression, suffix) in compressions {
        let root = Folder::new();
        let config = json!({ "file_format": format, "compression": compression });
        deliver(&config, &deps(Some(root.path())), 3000, 700).await;
        let file = format!("{STEM}.{extension}{suffix}");
        assert_eq!(root.files(), [file.clone(), format!("{STEM}_manifest.json")]);
        let is_parquet = extension == "parquet";
        let glob = if is_parquet { file } else { file.replace(".br", "") };
        let (counts, columns, row) = read_back(&root, &glob);
        assert_eq!(counts, [3000, 3000], "{format} {compression}");
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let expected = "uuid timestamp _inserted_at created_at event properties distinct_id elements_chain \
                        person_properties person_id";
        assert_eq!(names.join(" "), expected);
        let expected = json!([
            "quote \" ' \\ , ;\n\ttab é 🦔",
            "2026-11-15 00:00:00.000003+00",
            "person 3",
            "a\"b\\c\n é 🦔",
            "[1,2,null]",
            ""
        ]);
        assert_eq!(Value::from(row), expected, "{format} {compression}");
        match format {
            "Parquet" => assert_eq!(
                (&*columns[1].1, &*columns[5].1),
                ("TIMESTAMP WITH TIME ZONE", "VARCHAR")
            ),
            // Nested, not text.
            "JSONLines" => assert!(columns[5].1.starts_with("STRUCT("), "{}", columns[5].1),
            _ => {}
        }
    }
}

fn of_text() -> [(Value, &'static str); 4] {
    [
        (Value::Null, ""),
        (json!("gzip"), ".gz"),
        (json!("zstd"), ".zst"),
        (json!("brotli"), ".br"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_reads_json_lines() {
    is_read_by_duckdb("JSONLines", "jsonl", &of_text()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_reads_csv() {
    is_read_by_duckdb("CSV", "csv", &of_text()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_reads_parquet() {
    let inside = [(json!("snappy"), ".sz"), (json!("lz4"), ".lz4")];
    is_read_by_duckdb("Parquet", "parquet", &[&of_text()[..], &inside].concat()).await;
}

async fn split(format: &str, extension: &str) {
    let root = Folder::new();
    let config = json!({ "file_format": format, "compression": "zstd", "max_file_size_mb": 1 });
    deliver(&config, &deps(Some(root.path())), 300_000, 8192).await;
    let report = verify(&root.path().join(format!("{STEM}_manifest.json"))).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let files = &report.manifest.hedgerow.files;
    assert!(files.len() > 1, "{format} was not split: {files:?}");
    for (number, file) in files.iter().enumerate() {
        assert_eq!(file.key, format!("{STEM}-{number}.{extension}"));
        assert!(file.bytes < 1_500_000, "{} is far too large: {}", file.key, file.bytes);
        let is_full = file.bytes >= 1024 * 1024;
        assert!(is_full || number == files.len() - 1, "{} is too small", file.key);
    }
    let sql = format!(
        "SELECT count(*), count(DISTINCT uuid), min(uuid::VARCHAR), max(uuid::VARCHAR) FROM {}",
        reader(root.path(), &format!("*.{extension}"))
    );
    let row = duckdb(&sql, &[]).remove(0);
    let id = |number: u128| uuid::Uuid::from_u128(number).to_string();
    assert_eq!(
        Value::from(row),
        json!([300_000, 300_000, id(0), id(299_999)]),
        "{format}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_json_lines_are_split_by_size() {
    split("JSONLines", "jsonl.zst").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_records_of_csv_are_split_by_size() {
    split("CSV", "csv.zst").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_of_parquet_are_split_by_size() {
    split("Parquet", "parquet.zst").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_rows_make_the_same_bytes() {
    for config in [
        json!({ "compression": "gzip", "max_file_size_mb": 1 }),
        json!({ "compression": "brotli" }),
        json!({ "file_format": "CSV", "compression": "zstd", "max_file_size_mb": 1 }),
        json!({ "file_format": "Parquet", "compression": "zstd" }),
    ] {
        let content = async |step| {
            let root = Folder::new();
            deliver(&config, &deps(Some(root.path())), 4000, step).await;
            let read = |name: String| {
                let bytes = fs::read(root.path().join(&name)).unwrap();
                (name, bytes)
            };
            root.files().into_iter().map(read).collect::<Vec<_>>()
        };
        assert!(content(4000).await == content(777).await, "{config}");
    }
}
