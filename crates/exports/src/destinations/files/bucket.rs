//! A place for files with names, as few words about it as the delivery needs.

use async_trait::async_trait;
use bytes::Bytes;

use crate::Error;

/// Of all names that a list holds; files of an interval have some hundred bytes each. As many runs as there are slots can hold one.
const MAX_LIST: usize = 16 * 1024 * 1024;

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

    /// What a closed file still takes in memory, for as long as the delivery lasts.
    fn kept(&self) -> usize {
        0
    }

    /// Makes the closed file visible under its key, in place of any other.
    async fn publish(&mut self) -> Result<(), Error>;

    /// Takes it back, as far as possible.
    async fn discard(&mut self);
}

/// What a page counts as, beside its keys: also one without any leads to the next.
const PAGE: usize = 1024;

/// The keys of a list that comes in pages. A store can send pages without end.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    keys: Vec<String>,
    bytes: usize,
}

impl Keys {
    pub(crate) fn add(&mut self, page: impl Iterator<Item = String>) -> Result<(), Error> {
        self.take(PAGE)?;
        for key in page {
            self.take(size_of::<String>() + key.len())?;
            self.keys.push(key);
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        if self.bytes > MAX_LIST {
            return Err(Error::plain(
                "more files are listed than an interval can have; check that the endpoint is that of the store",
            ));
        }
        Ok(())
    }

    pub(crate) fn all(self) -> Vec<String> {
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_end_is_given_up() {
        let mut keys = Keys::default();
        let page = |key: &str| std::iter::repeat_n(key.to_owned(), 1000);
        keys.add(page("in/2026-11-18T00:00:00.parquet")).unwrap();
        assert_eq!(keys.keys.len(), 1000);
        let most = MAX_LIST / size_of::<String>();
        let pages = (0..=most / 1000).try_for_each(|_| keys.add(page("")));
        assert!(pages.unwrap_err().is_permanent);
        assert!(keys.all().len() <= most);
        let mut keys = Keys::default();
        let mut empty = (0..=MAX_LIST / PAGE).map(|_| keys.add(std::iter::empty()));
        assert!(empty.any(|page| page.is_err()));
    }
}
