//! From rows to the bytes of files.
//!
//! Rows are gathered into chunks that depend on nothing but the rows, each chunk is encoded on its own, several at once,
//! and the results are put behind each other in order: the same rows always make the same bytes.

mod chunks;
mod csv;
mod decode;
mod file;
mod jsonl;
mod pack;
mod packer;
mod parquet;
mod text;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use service::batch_exports::destination::{Compression, FileFormat, FileOptions};

use crate::Error;

pub use decode::{Undecodable, count_rows};
pub(crate) use file::hexadecimal;
pub use file::{Facts, Piece};
pub use packer::Packer;

/// Of `max_file_size_mb`.
const MIB: u64 = 1024 * 1024;

/// Rows as JSON lines.
pub(crate) fn lines(batch: &RecordBatch) -> Result<Vec<u8>, Error> {
    let mut lines = Vec::new();
    jsonl::write(batch, &mut lines)?;
    Ok(lines)
}

/// The objects of such lines, one for each row.
pub(crate) fn objects(lines: &[u8]) -> Result<Vec<Map<String, Value>>, Error> {
    let read = |line: &[u8]| serde_json::from_slice(line).map_err(unwritable);
    lines
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(read)
        .collect()
}

/// How rows become files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    pub file_format: FileFormat,
    pub compression: Option<Compression>,
    /// Another file is begun when one is this large, in bytes as written.
    pub largest_file: Option<u64>,
}

impl Format {
    pub fn of(options: &FileOptions) -> Self {
        let largest = options.max_file_size_mb.filter(|&size| size > 0);
        Self {
            file_format: options.file_format,
            compression: options.compression,
            largest_file: largest.map(|size| u64::from(size) * MIB),
        }
    }

    /// What names of files end with, such as `jsonl.gz`.
    pub fn extension(self) -> String {
        let format = match self.file_format {
            FileFormat::JSONLines => "jsonl",
            FileFormat::Parquet => "parquet",
            FileFormat::Csv => "csv",
        };
        match self.compression {
            None => format.to_owned(),
            Some(compression) => format!("{format}.{}", suffix(compression)),
        }
    }

    /// The format that a file's name tells of.
    pub fn of_name(name: &str) -> Option<Self> {
        let compressions = [
            None,
            Some(Compression::Gzip),
            Some(Compression::Brotli),
            Some(Compression::Zstd),
            Some(Compression::Snappy),
            Some(Compression::Lz4),
        ];
        let formats = [FileFormat::JSONLines, FileFormat::Parquet, FileFormat::Csv];
        let all = formats.into_iter().flat_map(|file_format| {
            compressions.map(|compression| Self {
                file_format,
                compression,
                largest_file: None,
            })
        });
        let mut fitting = all.filter(|format| name.ends_with(&format!(".{}", format.extension())));
        fitting.next()
    }
}

fn suffix(compression: Compression) -> &'static str {
    match compression {
        Compression::Gzip => "gz",
        Compression::Brotli => "br",
        Compression::Zstd => "zst",
        Compression::Snappy => "sz",
        Compression::Lz4 => "lz4",
    }
}

/// Turns chunks into bytes, or into a row group that is yet to be put into its file. Shared by all threads.
#[derive(Debug)]
struct Encoder {
    format: Format,
    schema: SchemaRef,
    parquet: Option<parquet::RowGroups>,
}

enum Encoded {
    Bytes(Vec<u8>),
    RowGroup(parquet::RowGroup),
}

impl Encoder {
    fn new(format: Format, schema: SchemaRef, notes: &[(&str, String)]) -> Result<Self, Error> {
        let parquet = match format.file_format {
            FileFormat::Parquet => Some(parquet::RowGroups::new(&schema, format.compression, notes)?),
            FileFormat::JSONLines | FileFormat::Csv => None,
        };
        Ok(Self {
            format,
            schema,
            parquet,
        })
    }

    fn encode(&self, rows: &[RecordBatch]) -> Result<Encoded, Error> {
        if let Some(parquet) = &self.parquet {
            return parquet.encode(rows).map(Encoded::RowGroup);
        }
        let mut text = Vec::with_capacity(chunks::weight_of(rows) * 3 / 2);
        for batch in rows {
            match self.format.file_format {
                FileFormat::Csv => csv::write(batch, &mut text)?,
                _ => jsonl::write(batch, &mut text)?,
            }
        }
        pack::pack(text, self.format.compression).map(Encoded::Bytes)
    }
}

/// Rows that a format cannot hold; who wrote the query can change them.
fn unwritable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::permanent("the rows could not be written in this file format", cause)
}
