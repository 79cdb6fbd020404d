//! Reads files back, as far as it takes to count their rows.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::de::IgnoredAny;
use service::batch_exports::destination::{Compression, FileFormat};

use super::format::Format;

/// Why a file cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum Undecodable {
    #[error("it cannot be read or unpacked")]
    Io(#[from] std::io::Error),
    #[error("it is not valid Parquet")]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error("its rows cannot be decoded")]
    Arrow(#[from] arrow_schema::ArrowError),
    #[error("line {line} is not JSON")]
    Json { line: u64, source: serde_json::Error },
    #[error("its last record is not ended")]
    Unended,
}

/// Decodes a whole file and counts its rows.
pub fn count_rows(path: &Path, format: Format) -> Result<u64, Undecodable> {
    let file = File::open(path)?;
    match format.file_format {
        FileFormat::Parquet => count_parquet(file),
        FileFormat::JSONLines => count_lines(unpacked(file, format.compression)?),
        FileFormat::Csv => count_records(unpacked(file, format.compression)?),
    }
}

fn unpacked(file: File, compression: Option<Compression>) -> std::io::Result<Box<dyn BufRead>> {
    const BUFFER: usize = 256 * 1024;
    let file = BufReader::with_capacity(BUFFER, file);
    let plain: Box<dyn Read> = match compression {
        Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(file)),
        Some(Compression::Zstd) => Box::new(zstd::Decoder::with_buffer(file)?),
        Some(Compression::Brotli) => Box::new(brotli::Decompressor::new(file, BUFFER)),
        _ => return Ok(Box::new(file)),
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER, plain)))
}

fn count_parquet(file: File) -> Result<u64, Undecodable> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
    let mut rows = 0;
    for batch in reader {
        rows += batch?.num_rows() as u64;
    }
    Ok(rows)
}

fn count_lines(mut text: Box<dyn BufRead>) -> Result<u64, Undecodable> {
    let mut rows = 0;
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line)? > 0 {
        rows += 1;
        if line.last() != Some(&b'\n') {
            return Err(Undecodable::Unended);
        }
        serde_json::from_slice::<IgnoredAny>(&line).map_err(|source| Undecodable::Json { line: rows, source })?;
        line.clear();
    }
    Ok(rows)
}

/// Ends of lines count outside of quotes only. The first record is the header.
fn count_records(mut text: Box<dyn BufRead>) -> Result<u64, Undecodable> {
    let (mut records, mut is_quoted, mut last) = (0_u64, false, b'\n');
    loop {
        let piece = text.fill_buf()?;
        let Some(&end) = piece.last() else { break };
        for byte in piece {
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\n' if !is_quoted => records += 1,
                _ => {}
            }
        }
        last = end;
        let length = piece.len();
        text.consume(length);
    }
    if is_quoted || last != b'\n' {
        return Err(Undecodable::Unended);
    }
    Ok(records.saturating_sub(1))
}
