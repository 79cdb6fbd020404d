//! A place for files with names, as few words about it as the delivery needs.

use async_trait::async_trait;
use bytes::Bytes;

use crate::Error;

/// A bucket, a container, a folder. Keys have `/` between their parts.
#[async_trait]
pub(crate) trait Bucket: Send + Sync {
    /// What it is called in messages, such as `the bucket "events"`.
    fn name(&self) -> String;

    /// Begins a file that nobody sees before it is published.
    async fn begin(&self, key: &str) -> Result<Box<dyn Unfinished>, Error>;

    /// The whole of a small file; none if there is no such file.
    async fn read(&self, key: &str) -> Result<Option<Bytes>, Error>;

    /// Puts a small file there, at once.
    async fn write(&self, key: &str, content: Bytes) -> Result<(), Error>;

    /// A file that is not there counts as deleted.
    async fn delete(&self, key: &str) -> Result<(), Error>;

    /// The keys that begin like this.
    async fn list(&self, beginning: &str) -> Result<Vec<String>, Error>;

    /// Clears away what attempts that died have left unpublished of keys that begin like this, where that can be seen.
    async fn sweep(&self, _beginning: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// A file on its way.
#[async_trait]
pub(crate) trait Unfinished: Send {
    async fn write(&mut self, bytes: Bytes) -> Result<(), Error>;

    /// Nothing more will be written. What takes memory is let go of.
    async fn close(&mut self) -> Result<(), Error>;

    /// Makes the closed file visible under its key, in place of any other.
    async fn publish(&mut self) -> Result<(), Error>;

    /// Takes it back, as far as possible.
    async fn discard(&mut self);
}
