//! Rows put together into Parquet files of a bounded size.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::columns::Column;
use crate::Error;

/// How large a file may grow before the next one is begun; the batch that crosses the line stays in it.
pub(crate) const FILE_SIZE: usize = 64 * 1024 * 1024;
/// Rows wait unpacked until their group is complete, so groups are small.
const GROUP_ROWS: usize = 64 * 1024;
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Holds at most one file, packed, and one group of rows on top of it.
pub(crate) struct Spool {
    schema: SchemaRef,
    file_size: usize,
    writer: Option<ArrowWriter<Vec<u8>>>,
    files: u32,
    bytes: u64,
}

/// A file to be sent.
pub(crate) struct ParquetFile {
    /// The first is 0.
    pub(crate) number: u32,
    pub(crate) content: Bytes,
}

impl Spool {
    /// Files hold the columns under the names they have on the stage.
    pub(crate) fn new(schema: &Schema, columns: &[Column], file_size: usize) -> Self {
        let rename = |(field, column): (&Arc<Field>, &Column)| {
            Field::new(&column.stage, field.data_type().clone(), field.is_nullable())
        };
        let fields: Vec<Field> = schema.fields().iter().zip(columns).map(rename).collect();
        Self {
            schema: Arc::new(Schema::new(fields)),
            file_size,
            writer: None,
            files: 0,
            bytes: 0,
        }
    }

    /// How many files it has given.
    pub(crate) fn files(&self) -> u32 {
        self.files
    }

    /// Of all files that it has given.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes rows, and gives a file when one is full.
    pub(crate) async fn push(&mut self, rows: &RecordBatch) -> Result<Option<ParquetFile>, Error> {
        let renamed = RecordBatch::try_new(self.schema.clone(), rows.columns().to_vec()).map_err(unwritable)?;
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin()?,
        };
        let packing = tokio::task::spawn_blocking(move || -> Result<_, ParquetError> {
            writer.write(&renamed)?;
            Ok(writer)
        });
        let writer = packing.await.map_err(unwritable)?.map_err(unwritable)?;
        let size = writer.bytes_written() + writer.in_progress_size();
        self.writer = Some(writer);
        if size < self.file_size {
            Ok(None)
        } else {
            self.finish().await
        }
    }

    /// The file that is not full yet, if there is one.
    pub(crate) async fn finish(&mut self) -> Result<Option<ParquetFile>, Error> {
        let Some(writer) = self.writer.take() else {
            return Ok(None);
        };
        let packing = tokio::task::spawn_blocking(move || writer.into_inner());
        let content = packing.await.map_err(unwritable)?.map_err(unwritable)?;
        let number = self.files;
        self.files += 1;
        self.bytes += content.len() as u64;
        Ok(Some(ParquetFile {
            number,
            content: content.into(),
        }))
    }

    fn begin(&self) -> Result<ArrowWriter<Vec<u8>>, Error> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_max_row_group_bytes(Some(GROUP_BYTES))
            .build();
        ArrowWriter::try_new(Vec::new(), self.schema.clone(), Some(properties)).map_err(unwritable)
    }
}

fn unwritable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::retryable(
        "the rows could not be written as Parquet; the server's operator can find details in its log",
        cause,
    )
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use arrow_schema::DataType;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use crate::destinations::staging::columns;

    #[tokio::test]
    async fn files_are_bounded_and_hold_every_row_under_plain_names() {
        let schema = Arc::new(Schema::new(vec![Field::new("\"; drop", DataType::Utf8, true)]));
        let mut spool = Spool::new(&schema, &columns(&schema, str::to_owned), 10_000);
        let mut files = Vec::new();
        for batch in 0..20 {
            // Texts that do not repeat, or the files would never fill.
            let texts = (0..100).map(|row| Some(uuid::Uuid::from_u128(batch * 7_919_000_003 + row).to_string()));
            let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(texts.collect::<StringArray>())]).unwrap();
            files.extend(spool.push(&rows).await.unwrap());
        }
        files.extend(spool.finish().await.unwrap());
        assert!(spool.finish().await.unwrap().is_none());
        assert!(files.len() > 2, "{} files", files.len());
        let (mut rows, mut bytes, mut numbers) = (0, 0, Vec::new());
        for file in files {
            numbers.push(file.number);
            bytes += file.content.len() as u64;
            let reader = ParquetRecordBatchReaderBuilder::try_new(file.content).unwrap();
            let reader = reader.build().unwrap();
            for batch in reader {
                let batch = batch.unwrap();
                assert_eq!(batch.schema().field(0).name(), "C0");
                rows += batch.num_rows();
            }
        }
        assert_eq!(rows, 2000);
        assert_eq!(spool.bytes(), bytes);
        assert!(numbers.into_iter().eq(0..spool.files()));
    }
}
