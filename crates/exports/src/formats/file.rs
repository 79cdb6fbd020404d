//! One file, as its chunks come.

use bytes::Bytes;
use service::batch_exports::destination::{Compression, FileFormat};
use sha2::{Digest, Sha256};

use super::encoder::{Encoded, Encoder};
use super::pack::{Brotli, pack};
use super::{csv, parquet};
use crate::Error;

/// What files are made of, in order.
#[derive(Debug)]
pub enum Piece {
    Bytes(Bytes),
    /// The file is whole; whatever follows belongs to the next.
    End(Facts),
}

/// What is known of a whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub bytes: u64,
    pub rows: u64,
    /// In lower-case hexadecimal.
    pub sha256: String,
}

pub(super) struct OpenFile {
    content: Content,
    hash: Sha256,
    pub(super) bytes: u64,
    rows: u64,
}

enum Content {
    /// Chunks stand behind each other as they are.
    Plain,
    Brotli(Box<Brotli>),
    Parquet(Box<parquet::File>),
}

impl OpenFile {
    /// Begins a file, and gives out the bytes that come before all rows.
    pub(super) fn begin(encoder: &Encoder) -> Result<(Self, Bytes), Error> {
        let mut content = match (&encoder.parquet, encoder.format.compression) {
            (Some(parquet), _) => Content::Parquet(Box::new(parquet.open()?)),
            (None, Some(Compression::Brotli)) => Content::Brotli(Box::new(Brotli::new())),
            (None, _) => Content::Plain,
        };
        let header = match encoder.format.file_format {
            FileFormat::Csv => csv::header(&encoder.schema),
            FileFormat::JSONLines | FileFormat::Parquet => Vec::new(),
        };
        let first = match &mut content {
            _ if header.is_empty() => header,
            Content::Brotli(stream) => stream.write(&header)?,
            _ => pack(header, encoder.format.compression)?,
        };
        let mut file = Self {
            content,
            hash: Sha256::new(),
            bytes: 0,
            rows: 0,
        };
        let first = file.seen(first);
        Ok((file, first))
    }

    pub(super) fn append(&mut self, chunk: Encoded, rows: usize) -> Result<Bytes, Error> {
        self.rows += rows as u64;
        let bytes = match (&mut self.content, chunk) {
            (Content::Parquet(file), Encoded::RowGroup(group)) => file.append(group)?,
            (Content::Brotli(stream), Encoded::Bytes(text)) => stream.write(&text)?,
            (_, Encoded::Bytes(bytes)) => bytes,
            (_, Encoded::RowGroup(_)) => unreachable!("row groups are made for Parquet only"),
        };
        Ok(self.seen(bytes))
    }

    pub(super) fn finish(mut self) -> Result<(Bytes, Facts), Error> {
        let last = match std::mem::replace(&mut self.content, Content::Plain) {
            Content::Plain => Vec::new(),
            Content::Brotli(stream) => stream.finish(),
            Content::Parquet(file) => file.finish()?,
        };
        let last = self.seen(last);
        let facts = Facts {
            bytes: self.bytes,
            rows: self.rows,
            sha256: hex::encode(self.hash.finalize()),
        };
        Ok((last, facts))
    }

    fn seen(&mut self, bytes: Vec<u8>) -> Bytes {
        self.hash.update(&bytes);
        self.bytes += bytes.len() as u64;
        bytes.into()
    }
}
