//! The slots in which a process runs apps: what each may do, and what they share.

use std::sync::{MutexGuard, PoisonError};

use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::idle::Failures;
use super::ready::{Ready, Update};
use crate::scheduler::Scheduler;

/// Of so many slots one is kept for events.
const SLOTS_FOR_EVENTS: usize = 4;

/// What a slot may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// Hand over events alone: however long tasks take, and however many there are, they never take all slots.
    Events,
    Any,
}

impl SlotKind {
    /// Of each slot of a process that has so many. One that is alone does both.
    pub(super) fn of(slot: usize, slots: usize) -> Self {
        let reserved = if slots < 2 { 0 } else { slots.div_ceil(SLOTS_FOR_EVENTS) };
        if slot < reserved { Self::Events } else { Self::Any }
    }
}

/// What the slots of a process share.
#[derive(Debug)]
pub(super) struct SlotPool {
    pub(super) ready: Mutex<Ready>,
    updates: std::sync::Mutex<Vec<Update>>,
    failures: std::sync::Mutex<Failures>,
    pub(super) scheduler: Scheduler,
    /// What goes on without a slot.
    aside: std::sync::Mutex<JoinSet<()>>,
}

impl SlotPool {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            ready: Mutex::default(),
            updates: std::sync::Mutex::default(),
            failures: std::sync::Mutex::default(),
            scheduler: Scheduler::new(slots),
            aside: std::sync::Mutex::default(),
        }
    }

    pub(super) fn aside(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be added to what waits.
    pub(super) fn updates(&self) -> MutexGuard<'_, Vec<Update>> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_never_have_all_slots_and_always_have_some() {
        for slots in 2..50 {
            let duties: Vec<SlotKind> = (0..slots).map(|slot| SlotKind::of(slot, slots)).collect();
            assert!(
                duties.contains(&SlotKind::Events) && duties.contains(&SlotKind::Any),
                "{slots}"
            );
        }
        assert_eq!(SlotKind::of(0, 1), SlotKind::Any);
        assert_eq!(
            (0..4).filter(|slot| SlotKind::of(*slot, 4) == SlotKind::Events).count(),
            1
        );
    }
}
