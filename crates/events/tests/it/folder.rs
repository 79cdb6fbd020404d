//! A folder that is gone after the test.

use std::path::{Path, PathBuf};

use events::Events;
use events::sqlite::Embedded;
use tempfile::TempDir;

pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::with_prefix("hedgerow-").unwrap())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("events.db")
    }

    /// How much has been written since the store was closed last, about.
    pub(crate) fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.path().join("events.db-wal")).map_or(0, |log| log.len())
    }

    pub(crate) fn has_log(&self) -> bool {
        self.path().join("events.db-wal").exists()
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The store in this folder. Opened twice, there are two that know nothing of each other, like two processes.
    pub(crate) fn open(&self) -> Events {
        Events::Embedded(Embedded::open(&self.file()).unwrap())
    }
}
