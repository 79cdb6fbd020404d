//! The progress of a run, which its heartbeat writes to the database.

use std::sync::{Mutex, OnceLock, PoisonError};

use service::batch_exports::Progress;

use crate::Acknowledged;

/// How a run stands, for its heartbeat. Shared with whoever carries it out.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    progress: Mutex<Progress>,
    acknowledged: OnceLock<Acknowledged>,
}

impl Heartbeat {
    pub(crate) fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// From now on, what counts as delivered is what this says.
    pub(crate) fn follow(&self, acknowledged: &Acknowledged) {
        self.acknowledged.get_or_init(|| acknowledged.clone());
    }

    pub(crate) fn read(&self) -> Progress {
        let delivered = self.acknowledged.get().map(Acknowledged::read).unwrap_or_default();
        Progress {
            records: delivered.rows,
            bytes: delivered.bytes,
            ..*self.progress.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
