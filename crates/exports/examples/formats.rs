//! Measures how fast made-up events become files: `formats ROWS FORMAT COMPRESSION`, such as `formats 1000000 parquet zstd`.
//!
//! The events are the same each time. What is written is thrown away, so nothing but encoding is measured.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use exports::formats::{Format, Packer, Piece};
use exports::layout;
use hogql::Model;
use service::batch_exports::destination::{Compression, FileFormat};

const BATCH: u64 = 8192;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, format, compression] = &arguments[..] else {
        eprintln!("formats ROWS jsonl|csv|parquet none|gzip|brotli|zstd|snappy|lz4");
        std::process::exit(2);
    };
    let rows: u64 = rows.parse().expect("a number of rows");
    let format = Format {
        file_format: match format.as_str() {
            "csv" => FileFormat::Csv,
            "parquet" => FileFormat::Parquet,
            _ => FileFormat::JSONLines,
        },
        compression: match compression.as_str() {
            "gzip" => Some(Compression::Gzip),
            "brotli" => Some(Compression::Brotli),
            "zstd" => Some(Compression::Zstd),
            "snappy" => Some(Compression::Snappy),
            "lz4" => Some(Compression::Lz4),
            _ => None,
        },
        largest_file: None,
    };
    // Made before, and given again and again: making them costs as much as writing them.
    let batches: Vec<RecordBatch> = (0..64).map(|number| batch(number * BATCH)).collect();
    let mut packer = Packer::new(format, batches[0].schema(), &[]).expect("a known format");
    let (start, before) = (Instant::now(), cpu_seconds());
    let mut bytes = 0;
    for number in 0..rows.div_ceil(BATCH) {
        let next = &batches[usize::try_from(number % 64).expect("less than 64")];
        bytes += size(&packer.write(next).await.expect("it is written"));
    }
    bytes += size(&packer.finish().await.expect("it is written"));
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - before);
    eprintln!(
        "{rows} rows: {wall:.1} s, {cpu:.1} CPU s, {:.0} rows/s, {} MB written, peak {} MB",
        float(rows) / wall,
        bytes / 1_000_000,
        peak_kilobytes() / 1000,
    );
}

fn size(pieces: &[Piece]) -> usize {
    let size = |piece: &Piece| match piece {
        Piece::Bytes(bytes) => bytes.len(),
        Piece::End(_) => 0,
    };
    pieces.iter().map(size).sum()
}

/// Numbers that look random and are the same each time.
fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn batch(first: u64) -> RecordBatch {
    let schema = events::schema(&layout::files(Model::Events));
    let numbers: Vec<u64> = (first..first + BATCH).collect();
    let text = |make: &dyn Fn(u64) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            numbers.iter().map(|&number| make(number)),
        ))
    };
    let columns = schema.fields().iter().map(|field| match field.name().as_str() {
        "uuid" => text(&|number| uuid::Uuid::from_u64_pair(random(number), random(number + 1)).to_string()),
        "event" => text(&|number| ["$pageview", "$autocapture", "signed up", "paid"][index(number, 4)].to_owned()),
        "distinct_id" => text(&|number| format!("user_{}", random(number) % 100_000)),
        "person_id" => text(&|number| uuid::Uuid::from_u64_pair(7, random(number) % 100_000).to_string()),
        "properties" => text(&properties),
        "person_properties" => text(&|number| format!(r#"{{"plan":"free","seen":{}}}"#, random(number) % 1000)),
        "elements_chain" => text(&|_| String::new()),
        _ => {
            let times = numbers
                .iter()
                .map(|&number| 1_763_200_000_000_000 + i64::try_from(number * 977).expect("small"));
            Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC")) as ArrayRef
        }
    });
    let columns = columns.collect();
    RecordBatch::try_new(schema, columns).expect("columns of the schema")
}

/// About 300 bytes.
fn properties(number: u64) -> String {
    let value = random(number);
    format!(
        r#"{{"$browser":"{}","$os":"{}","$current_url":"https://example.com/products/{}?ref={:x}","$screen_width":{},"$lib":"web","$lib_version":"1.{}.0","$session_id":"{:016x}{:016x}","amount":{}.{:02},"$ip":"{}.{}.{}.{}","is_first":{},"tags":["a","b{}"]}}"#,
        ["Chrome", "Firefox", "Safari"][index(number, 3)],
        ["Linux", "Mac OS X", "Windows", "iOS"][index(number / 3, 4)],
        value % 5000,
        value >> 40,
        1024 + value % 900,
        value % 200,
        random(value),
        random(value + 1),
        value % 500,
        value % 100,
        value % 223,
        (value >> 8) % 256,
        (value >> 16) % 256,
        (value >> 24) % 256,
        value.is_multiple_of(2),
        value % 9,
    )
}

fn index(number: u64, of: u64) -> usize {
    usize::try_from(random(number) % of).expect("small")
}

#[expect(clippy::cast_precision_loss, reason = "it is printed without fractions")]
fn float(number: u64) -> f64 {
    number as f64
}

/// User and system time of all threads, in ticks of a hundredth second as Linux counts them.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = stat.rsplit(')').next().expect("a name in parentheses");
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = peak.and_then(|peak| peak.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("a number")
}
