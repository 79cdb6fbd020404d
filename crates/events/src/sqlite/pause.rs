//! A moment in which no scan goes on: those in progress end their transactions at the next row, and none begins another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often whoever is held back looks whether it is over.
const LOOK: Duration = Duration::from_millis(1);

/// Shared by the writer of a store and all of its readers.
#[derive(Debug, Clone, Default)]
pub(super) struct Pause(Arc<AtomicBool>);

/// Dropped, it is over.
#[derive(Debug)]
pub(super) struct Paused(Pause);

impl Pause {
    pub(super) fn begin(&self) -> Paused {
        self.0.store(true, Ordering::Relaxed);
        Paused(self.clone())
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until it is over. Only threads made for waiting come here.
    pub(super) fn wait(&self) {
        while self.is_on() {
            thread::park_timeout(LOOK);
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}
