//! Connections that only read, and how their reading is stopped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::file;
use super::interrupt::{Interrupt, StopOnDrop, Wanted};
use super::pace::Pace;
use super::pause::Pause;
use crate::{Error, Result};

/// How many connections for reading are kept for the next reader.
const KEPT: usize = 4;
/// How many may look for small events at a time. SQLite reads all of a row, however large it is, to compare its checksum.
const LOOKS_AT_ONCE: usize = 4;

/// Connections that only read.
#[derive(Debug)]
pub(super) struct Readers {
    pub(super) path: PathBuf,
    /// Turns of those who look for small events.
    pub(super) looks: Arc<Semaphore>,
    pause: Pause,
    kept: Mutex<Vec<Reader>>,
    /// Shared by all reading that began since the last time that all was stopped.
    are_stopped: Mutex<Arc<AtomicBool>>,
}

#[derive(Debug)]
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) interrupt: Interrupt,
    pub(super) pace: Pace,
}

impl Readers {
    pub(super) fn of(file: &Path, pause: &Pause) -> Self {
        Self {
            path: file.to_owned(),
            looks: Arc::new(Semaphore::new(LOOKS_AT_ONCE)),
            pause: pause.clone(),
            kept: Mutex::default(),
            are_stopped: Mutex::default(),
        }
    }

    pub(super) fn wanted(&self) -> (Wanted, StopOnDrop) {
        Wanted::new(&self.are_stopped.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn stop_all(&self) {
        let mut current = self.are_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *current).store(true, Ordering::Relaxed);
    }

    pub(super) fn with<T>(&self, wanted: Wanted, work: impl FnOnce(&Reader) -> Result<T>) -> Result<T> {
        if wanted.is_over() {
            return Err(Error::Stopped);
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let reader = kept.map_or_else(|| self.open(), Ok)?;
        reader.interrupt.set(Some(wanted));
        let outcome = work(&reader);
        reader.interrupt.set(None);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // A transaction that could not be ended goes with its connection.
        if kept.len() < KEPT && reader.connection.is_autocommit() {
            kept.push(reader);
        }
        outcome
    }

    fn open(&self) -> Result<Reader> {
        let (interrupt, pace) = (Interrupt::default(), Pace::with(&self.pause));
        let connection = file::open_to_read(&self.path, &interrupt, &pace)?;
        interrupt.watch(&connection)?;
        Ok(Reader {
            connection,
            interrupt,
            pace,
        })
    }
}
