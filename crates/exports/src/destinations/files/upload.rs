//! A delivery of files in progress.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::bucket::{Bucket, Unfinished};
use super::names::Names;
use crate::formats::{Packer, Piece};
use crate::manifest::{Entry, Manifest};
use crate::{Delivery, Error, Receipt, Upload};

/// What closed files may take until all of them are published. Others have deliveries, too.
const MAX_KEPT: usize = 32 * 1024 * 1024;

/// How many files are published or deleted at once.
const AT_ONCE: usize = 8;

pub(super) struct Sending {
    bucket: Arc<dyn Bucket>,
    names: Names,
    packer: Packer,
    delivery: Delivery,
    /// The files of what this delivery replaces.
    earlier: Option<Vec<String>>,
    open: Option<Box<dyn Unfinished>>,
    closed: Closed,
    entries: Vec<Entry>,
}

/// Files that wait for the commit.
#[derive(Default)]
struct Closed {
    files: Vec<Box<dyn Unfinished>>,
    kept: usize,
}

impl Closed {
    /// Whatever comes of it, the file is there to be discarded.
    fn add(&mut self, file: Box<dyn Unfinished>) -> Result<(), Error> {
        self.kept += file.kept();
        self.files.push(file);
        if self.kept > MAX_KEPT {
            let count = self.files.len();
            let sentence =
                format!("the interval has too many files ({count} so far); choose a larger max_file_size_mb");
            return Err(Error::plain(sentence));
        }
        Ok(())
    }
}

impl Sending {
    pub(super) fn new(
        bucket: Arc<dyn Bucket>,
        names: Names,
        packer: Packer,
        delivery: &Delivery,
        earlier: Option<Vec<String>>,
    ) -> Self {
        Self {
            bucket,
            names,
            packer,
            delivery: delivery.clone(),
            earlier,
            open: None,
            closed: Closed::default(),
            entries: Vec::new(),
        }
    }

    async fn send(&mut self, pieces: Vec<Piece>) -> Result<(), Error> {
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) if bytes.is_empty() => {}
                Piece::Bytes(bytes) => self.open_file().await?.write(bytes).await?,
                Piece::End(facts) => {
                    let key = self.names.file(self.entries.len());
                    if let Some(mut file) = self.open.take() {
                        let closing = file.close().await;
                        let added = self.closed.add(file);
                        closing.and(added)?;
                    }
                    self.entries.push(Entry::new(key, facts));
                }
            }
        }
        Ok(())
    }

    async fn open_file(&mut self) -> Result<&mut Box<dyn Unfinished>, Error> {
        let file = match self.open.take() {
            Some(file) => file,
            None => self.bucket.begin(&self.names.file(self.entries.len())).await?,
        };
        Ok(self.open.insert(file))
    }

    async fn try_commit(&mut self) -> Result<Receipt, Error> {
        let last = self.packer.finish().await?;
        self.send(last).await?;
        if self.earlier.is_some() {
            // From here to the new manifest nobody is told that the interval is complete.
            self.bucket.delete(&self.names.manifest()).await?;
        }
        self.publish().await?;
        self.remove_leftovers().await?;
        let manifest = Manifest::new(&self.delivery, std::mem::take(&mut self.entries));
        let receipt = Receipt {
            rows: manifest.hedgerow.rows,
            bytes: manifest.hedgerow.bytes,
        };
        let text = serde_json::to_vec_pretty(&manifest).expect("a manifest holds nothing but text and numbers");
        self.bucket.write(&self.names.manifest(), Bytes::from(text)).await?;
        Ok(receipt)
    }

    async fn publish(&mut self) -> Result<(), Error> {
        let all: Vec<_> = self.closed.files.iter_mut().map(|file| file.publish()).collect();
        stream::iter(all).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// An attempt before this one may have made more files, or, for what is sent again, files of another format.
    async fn remove_leftovers(&mut self) -> Result<(), Error> {
        let listed = self.bucket.list(self.names.beginning()).await?;
        let listed = listed.into_iter().filter(|key| self.names.is_of_interval(key));
        let named = self.earlier.take().unwrap_or_default();
        let ours: HashSet<&str> = self.entries.iter().map(|entry| entry.key.as_str()).collect();
        let others = listed.chain(named).filter(|key| !ours.contains(key.as_str()));
        let leftovers: HashSet<String> = others.collect();
        let leftovers: Vec<String> = leftovers.into_iter().collect();
        // A store can list any number of them, and a deletion that has not begun takes memory, too.
        for some in leftovers.chunks(1000) {
            let some: Vec<_> = some.iter().map(|key| self.bucket.delete(key)).collect();
            let () = stream::iter(some).buffer_unordered(AT_ONCE).try_collect().await?;
        }
        Ok(())
    }

    async fn discard(&mut self) {
        for file in self.open.iter_mut().chain(&mut self.closed.files) {
            file.discard().await;
        }
    }
}

#[async_trait]
impl Upload for Sending {
    async fn write(&mut self, rows: RecordBatch) -> Result<(), Error> {
        let pieces = self.packer.write(&rows).await?;
        self.send(pieces).await
    }

    async fn commit(mut self: Box<Self>) -> Result<Receipt, Error> {
        let done = self.try_commit().await;
        if done.is_err() {
            // What was published stays: the next attempt writes the same names, and deleting could hit its files.
            self.discard().await;
        }
        done
    }

    async fn abort(mut self: Box<Self>) {
        self.discard().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the end of what was written, as a resumable upload does.
    struct Remainder(usize);

    #[async_trait]
    impl Unfinished for Remainder {
        async fn write(&mut self, _: Bytes) -> Result<(), Error> {
            Ok(())
        }

        async fn close(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn kept(&self) -> usize {
            self.0
        }

        async fn publish(&mut self) -> Result<(), Error> {
            Ok(())
        }

        async fn discard(&mut self) {}
    }

    /// Or a member could have a run keep any amount of memory, with a query whose rows end just beyond a unit.
    #[test]
    fn closed_files_keep_little_together() {
        let mut closed = Closed::default();
        for _ in 0..MAX_KEPT / (256 * 1024) {
            closed.add(Box::new(Remainder(256 * 1024))).unwrap();
        }
        for _ in 0..10_000 {
            closed.add(Box::new(Remainder(0))).unwrap();
        }
        let error = closed.add(Box::new(Remainder(1))).unwrap_err();
        assert!(
            error.is_permanent && error.sentence.contains("max_file_size_mb"),
            "{error}"
        );
    }
}
