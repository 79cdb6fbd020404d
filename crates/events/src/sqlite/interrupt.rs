//! Ends statements that nobody waits for any more. SQLite cannot be left in the middle of one, so it has to look itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, ffi};

/// How many steps SQLite takes between two looks: some microseconds' worth.
const STEPS: i32 = 1_000;

/// Whether one piece of reading is still wanted: until whoever asked has gone, or the store is closed.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    is_dropped: Arc<AtomicBool>,
    is_stopped: Arc<AtomicBool>,
}

/// Held by whoever waits for the result.
#[derive(Debug)]
pub(crate) struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Wanted {
    /// `is_stopped` is the store's own.
    pub(super) fn new(is_stopped: &Arc<AtomicBool>) -> (Self, StopOnDrop) {
        let wanted = Self {
            is_dropped: Arc::default(),
            is_stopped: is_stopped.clone(),
        };
        let guard = StopOnDrop(wanted.is_dropped.clone());
        (wanted, guard)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed) || self.is_stopped.load(Ordering::Relaxed)
    }
}

/// What a connection works for at the moment. Shared with its functions: a single row can call thousands of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<Option<Wanted>>>);

impl Interrupt {
    /// Has the connection look, from now on.
    pub(super) fn watch(&self, connection: &Connection) -> rusqlite::Result<()> {
        let interrupt = self.clone();
        connection.progress_handler(STEPS, Some(move || interrupt.is_over()))
    }

    pub(super) fn set(&self, wanted: Option<Wanted>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
    }

    fn is_over(&self) -> bool {
        let wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.as_ref().is_some_and(Wanted::is_over)
    }

    /// For functions: an error that ends their statement, once it is over.
    pub(crate) fn check(&self) -> rusqlite::Result<()> {
        if self.is_over() {
            return Err(failure(ffi::SQLITE_INTERRUPT));
        }
        Ok(())
    }
}

pub(crate) fn failure(code: std::ffi::c_int) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}
