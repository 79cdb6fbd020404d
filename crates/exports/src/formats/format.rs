//! The formats of files: what they are called, and how large a file may be.

use service::batch_exports::destination::{Compression, FileFormat, FileOptions};

use crate::Error;

/// Of `max_file_size_mb`.
const MIB: u64 = 1024 * 1024;

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

/// Rows that a format cannot hold; who wrote the query can change them.
pub(super) fn unwritable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::permanent("the rows could not be written in this file format", cause)
}
