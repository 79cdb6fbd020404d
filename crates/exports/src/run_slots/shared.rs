//! What all slots of a process share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::state::State;

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Told when a slot or room for a run may have become free.
    pub(super) changed: Notify,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
