//! What the slots share in which a process runs apps.

use std::sync::{MutexGuard, PoisonError};

use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::idle::Failures;
use super::ready::{ReadyQueue, Update};
use crate::scheduler::Scheduler;

/// What the slots of a process share.
#[derive(Debug)]
pub(super) struct SlotPool {
    pub(super) ready: Mutex<ReadyQueue>,
    updates: std::sync::Mutex<Vec<Update>>,
    failures: std::sync::Mutex<Failures>,
    pub(super) scheduler: Scheduler,
    /// What goes on without a slot.
    detached: std::sync::Mutex<JoinSet<()>>,
}

impl SlotPool {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            ready: Mutex::default(),
            updates: std::sync::Mutex::default(),
            failures: std::sync::Mutex::default(),
            scheduler: Scheduler::new(slots),
            detached: std::sync::Mutex::default(),
        }
    }

    pub(super) fn detached(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.detached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be added to what waits.
    pub(super) fn updates(&self) -> MutexGuard<'_, Vec<Update>> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
