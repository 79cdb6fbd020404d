//! Rows as packed CSV in the bucket, for as long as Redshift needs to read them.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::source::Source;
use crate::destinations::files::{Bucket, Unfinished};
use crate::{Delivery, Error};

/// What stands for no value. A text that is just this would be lost; nobody writes one by chance.
const NOTHING: &str = "@NULL@";
/// Unpacked; Redshift reads several files at once.
const FILE: usize = 128 * 1024 * 1024;
/// Packed, before it is sent.
const PIECE: usize = 1024 * 1024;

/// The files of one delivery.
pub(super) struct Files {
    bucket: Arc<dyn Bucket>,
    source: Source,
    folder: String,
    packer: GzEncoder<Vec<u8>>,
    /// Of the file that is open, unpacked.
    written: usize,
    open: Option<Box<dyn Unfinished>>,
    keys: Vec<String>,
    pub(super) bytes: u64,
}

impl Files {
    pub(super) fn new(bucket: Arc<dyn Bucket>, source: Source, delivery: &Delivery) -> Self {
        Self {
            bucket,
            folder: source.folder(delivery),
            source,
            packer: packer(),
            written: 0,
            open: None,
            keys: Vec::new(),
            bytes: 0,
        }
    }

    /// Writes one row.
    pub(super) async fn add(&mut self, values: &[Option<String>]) -> Result<(), Error> {
        let line = line(values);
        self.packer.write_all(line.as_bytes()).map_err(unpacked)?;
        self.written += line.len();
        if self.packer.get_ref().len() >= PIECE {
            let piece = std::mem::take(self.packer.get_mut());
            self.send(piece).await?;
        }
        if self.written >= FILE {
            self.end().await?;
        }
        Ok(())
    }

    /// Whether a file can be written and deleted.
    pub(super) async fn rehearse(&mut self) -> Result<(), Error> {
        let key = format!("{}/trial", self.folder);
        self.bucket.write(&key, Bytes::new()).await?;
        self.bucket.delete(&key).await
    }

    /// Ends the last file and writes the list; the statement reads it. None: there were no rows.
    pub(super) async fn finish(&mut self, into: &str) -> Result<Option<secrecy::SecretString>, Error> {
        self.end().await?;
        if self.keys.is_empty() {
            return Ok(None);
        }
        let (list, key) = (self.source.list(&self.keys), format!("{}/files.json", self.folder));
        // Cleared away with the others, whether the writing succeeds or not.
        self.keys.push(key.clone());
        self.bucket.write(&key, Bytes::from(list)).await?;
        Ok(Some(self.source.statement(into, &key)))
    }

    /// Nobody needs them any longer. What cannot be deleted lies there and is in no list.
    pub(super) async fn clear(&mut self) {
        if let Some(mut file) = self.open.take() {
            file.discard().await;
        }
        for key in std::mem::take(&mut self.keys) {
            if let Err(error) = self.bucket.delete(&key).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "could not delete a staged file"
                );
            }
        }
    }

    async fn send(&mut self, piece: Vec<u8>) -> Result<(), Error> {
        self.bytes += piece.len() as u64;
        let mut file = match self.open.take() {
            Some(file) => file,
            None => self.bucket.begin(&self.key()).await?,
        };
        let sent = file.write(piece.into()).await;
        self.open = Some(file);
        sent
    }

    async fn end(&mut self) -> Result<(), Error> {
        if self.written == 0 {
            return Ok(());
        }
        self.written = 0;
        let rest = std::mem::replace(&mut self.packer, packer())
            .finish()
            .map_err(unpacked)?;
        self.send(rest).await?;
        if let Some(mut file) = self.open.take() {
            let ended = async {
                file.close().await?;
                file.publish().await
            };
            if let Err(error) = ended.await {
                file.discard().await;
                return Err(error);
            }
            self.keys.push(self.key());
        }
        Ok(())
    }

    fn key(&self) -> String {
        format!("{}/{}.csv.gz", self.folder, self.keys.len())
    }
}

fn packer() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::fast())
}

fn unpacked(cause: std::io::Error) -> Error {
    Error::retryable("the rows could not be compressed", cause)
}

/// Texts are quoted always, so that nothing in them means anything.
fn line(values: &[Option<String>]) -> String {
    let cell = |value: &Option<String>| match value {
        Some(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        None => NOTHING.to_owned(),
    };
    let mut line = values.iter().map(cell).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_csv_whatever_is_in_it() {
        let values = [Some("a\"b,c\n".to_owned()), None, Some(String::new())];
        assert_eq!(line(&values), "\"a\"\"b,c\n\",@NULL@,\"\"\n");
    }
}
