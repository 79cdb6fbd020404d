//! Encodes chunks of rows, apart from each other.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use service::batch_exports::destination::FileFormat;

use super::format::Format;
use super::{chunks, csv, jsonl, pack, parquet};
use crate::Error;

/// Turns chunks into bytes, or into a row group that is yet to be put into its file. Shared by all threads.
#[derive(Debug)]
pub(super) struct Encoder {
    pub(super) format: Format,
    pub(super) schema: SchemaRef,
    pub(super) parquet: Option<parquet::RowGroups>,
}

pub(super) enum Encoded {
    Bytes(Vec<u8>),
    RowGroup(parquet::RowGroup),
}

impl Encoder {
    pub(super) fn new(format: Format, schema: SchemaRef, notes: &[(&str, String)]) -> Result<Self, Error> {
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

    pub(super) fn encode(&self, rows: &[RecordBatch]) -> Result<Encoded, Error> {
        if let Some(parquet) = &self.parquet {
            return parquet.encode(rows).map(Encoded::RowGroup);
        }
        let mut text = Vec::with_capacity(chunks::weight_of(rows) * 9 / 8);
        for batch in rows {
            match self.format.file_format {
                FileFormat::Csv => csv::write(batch, &mut text)?,
                _ => jsonl::write(batch, &mut text)?,
            }
        }
        pack::pack(text, self.format.compression).map(Encoded::Bytes)
    }
}
