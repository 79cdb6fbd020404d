//! How long one read transaction goes on. As long as one is open, SQLite cannot start its log again, and what a single row
//! costs is up to whoever wrote the query.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::ffi;

use super::interrupt::failure;
use super::pause::Pause;

/// How long a slice of a scan takes, about: no longer than this and one row.
const MAX: Duration = Duration::from_secs(1);

/// Shared by a connection's scan and by its function [`super::file::REACHED`].
#[derive(Debug, Clone)]
pub(super) struct Pace {
    most: Duration,
    pause: Pause,
    slice: Arc<Mutex<Slice>>,
}

#[derive(Debug)]
struct Slice {
    began: Instant,
    /// Whether a row was looked at: there is always one, so that every slice gets further.
    has_begun: bool,
    /// The row before which the slice was ended.
    cut_before: Option<i64>,
}

impl Pace {
    pub(super) fn with(pause: &Pause) -> Self {
        Self::new(MAX, pause.clone())
    }

    #[cfg(test)]
    pub(super) fn of(most: Duration) -> Self {
        Self::new(most, Pause::default())
    }

    fn new(most: Duration, pause: Pause) -> Self {
        let slice = Slice {
            began: Instant::now(),
            has_begun: false,
            cut_before: None,
        };
        Self {
            most,
            pause,
            slice: Arc::new(Mutex::new(slice)),
        }
    }

    /// Nothing of the slice is read before, so whoever is held back here holds no lock of SQLite's.
    pub(super) fn begin(&self) {
        self.pause.wait();
        let mut slice = self.lock();
        slice.began = Instant::now();
        slice.has_begun = false;
        slice.cut_before = None;
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_enough(&self.lock())
    }

    /// A scan has come to this row. An error: its time is over, and the row is not looked at.
    pub(super) fn reach(&self, row: i64) -> rusqlite::Result<()> {
        let mut slice = self.lock();
        if slice.has_begun && self.is_enough(&slice) {
            slice.cut_before = Some(row);
            return Err(failure(ffi::SQLITE_INTERRUPT));
        }
        slice.has_begun = true;
        Ok(())
    }

    /// Where to go on, if the last error was that of a slice whose time was over.
    pub(super) fn cut_before(&self) -> Option<i64> {
        self.lock().cut_before
    }

    fn is_enough(&self, slice: &Slice) -> bool {
        slice.began.elapsed() >= self.most || self.pause.is_on()
    }

    fn lock(&self) -> MutexGuard<'_, Slice> {
        self.slice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
