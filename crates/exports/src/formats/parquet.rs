//! Parquet: row groups are encoded apart from each other and appended to their file as they are.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{BrotliLevel, Compression as Codec, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, TypePtr};
use service::batch_exports::destination::Compression;

use super::format::unwritable;
use super::text::is_json;
use crate::Error;

/// Encodes row groups, on any thread, for any file.
#[derive(Debug)]
pub(super) struct RowGroups {
    schema: SchemaRef,
    columns: TypePtr,
    properties: WriterPropertiesPtr,
    writers: ArrowRowGroupWriterFactory,
}

/// An encoded row group that belongs to no file yet.
pub(super) struct RowGroup(Vec<ArrowColumnChunk>);

/// A file that is given its row groups one by one.
pub(super) struct File(SerializedFileWriter<Vec<u8>>);

impl RowGroups {
    pub(super) fn new(
        schema: &SchemaRef,
        compression: Option<Compression>,
        notes: &[(&str, String)],
    ) -> Result<Self, Error> {
        let converter = ArrowSchemaConverter::new();
        let columns = converter.convert(schema).map_err(unwritable)?.root_schema_ptr();
        let properties = Arc::new(properties(schema, compression, notes)?);
        let file = SerializedFileWriter::new(Vec::new(), columns.clone(), properties.clone()).map_err(unwritable)?;
        let writers = ArrowRowGroupWriterFactory::new(&file, schema.clone());
        Ok(Self {
            schema: schema.clone(),
            columns,
            properties,
            writers,
        })
    }

    pub(super) fn encode(&self, rows: &[RecordBatch]) -> Result<RowGroup, Error> {
        self.try_encode(rows).map_err(unwritable)
    }

    /// Column by column, so that only one column's pages are being put together at a time.
    fn try_encode(&self, rows: &[RecordBatch]) -> Result<RowGroup, ParquetError> {
        let writers = self.writers.create_column_writers(0)?;
        let mut chunks = Vec::with_capacity(writers.len());
        for (place, (mut writer, field)) in writers.into_iter().zip(self.schema.fields()).enumerate() {
            for batch in rows {
                for leaf in compute_leaves(field, batch.column(place))? {
                    writer.write(&leaf)?;
                }
            }
            chunks.push(writer.close()?);
        }
        Ok(RowGroup(chunks))
    }

    pub(super) fn open(&self) -> Result<File, Error> {
        SerializedFileWriter::new(Vec::new(), self.columns.clone(), self.properties.clone())
            .map(File)
            .map_err(unwritable)
    }
}

impl File {
    /// Takes a row group in, and gives out the bytes that follow from it.
    pub(super) fn append(&mut self, group: RowGroup) -> Result<Vec<u8>, Error> {
        self.try_append(group).map_err(unwritable)
    }

    fn try_append(&mut self, group: RowGroup) -> Result<Vec<u8>, ParquetError> {
        let mut writer = self.0.next_row_group()?;
        for chunk in group.0 {
            chunk.append_to_row_group(&mut writer)?;
        }
        writer.close()?;
        self.0.flush()?;
        Ok(std::mem::take(self.0.inner_mut()))
    }

    /// The last bytes: the directory of all row groups.
    pub(super) fn finish(self) -> Result<Vec<u8>, Error> {
        self.0.into_inner().map_err(unwritable)
    }
}

fn properties(
    schema: &Schema,
    compression: Option<Compression>,
    notes: &[(&str, String)],
) -> Result<WriterProperties, Error> {
    let notes = notes
        .iter()
        .map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
    let mut builder = WriterProperties::builder()
        .set_compression(codec(compression).map_err(unwritable)?)
        .set_key_value_metadata(Some(notes.collect()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_write_batch_size(8192);
    for field in schema.fields() {
        let path = || ColumnPath::from(field.name().as_str());
        // A dictionary of what hardly ever repeats is work for nothing.
        if field.data_type() != &DataType::Utf8 || is_json(field) || field.name() == "uuid" {
            builder = builder.set_column_dictionary_enabled(path(), false);
        }
        // Names, ids and JSON are all over the place in every row group: their bounds would let nobody skip one.
        if field.data_type() == &DataType::Utf8 {
            builder = builder.set_column_statistics_enabled(path(), EnabledStatistics::None);
        }
    }
    Ok(builder.build())
}

fn codec(compression: Option<Compression>) -> Result<Codec, ParquetError> {
    Ok(match compression {
        None => Codec::UNCOMPRESSED,
        Some(Compression::Gzip) => Codec::GZIP(GzipLevel::default()),
        Some(Compression::Brotli) => Codec::BROTLI(BrotliLevel::try_new(5)?),
        Some(Compression::Zstd) => Codec::ZSTD(ZstdLevel::try_new(3)?),
        Some(Compression::Snappy) => Codec::SNAPPY,
        Some(Compression::Lz4) => Codec::LZ4_RAW,
    })
}
