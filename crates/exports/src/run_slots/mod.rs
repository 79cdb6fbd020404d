//! Whose turn it is to have a run carried out.
//!
//! A slot waits for a run for a moment only. A run that takes longer gives its slot to the next while it waits for its
//! destination, takes one again before it reads on, and hands it over after each stretch of work. Its organization goes behind
//! those that are quick, for a while. Beside the slots for anybody there is one for those that are not known to be slow, and one for
//! those that are known to be quick. So one user's slow organizations, however many,
//! delay others only briefly.
//!
//! Runs that wait hold memory, so there is room for so many. Where it is used up, one that has had its time is ended as a
//! retryable failure, and is tried again like any other.

mod choosing;
mod holding;
mod room;
mod shared;
mod slot;
mod state;

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use service::OrganizationId;
use service::batch_exports::{Choice, Job};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::shared::Shared;
pub(crate) use self::slot::Slot;
use self::state::{SLOT_TIME, State};

/// The runs in progress in a process. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct RunSlots(Arc<Shared>);

impl RunSlots {
    pub(crate) fn new(slots: usize) -> Self {
        Self::with_slot_time(slots, SLOT_TIME)
    }

    fn with_slot_time(slots: usize, slot_time: Duration) -> Self {
        Self(Arc::new(Shared::new(State::new(slots, slot_time))))
    }

    /// Tells when somebody who could not begin may try again.
    pub(crate) fn changed(&self) -> &Notify {
        &self.0.changed
    }

    /// Whether it is worth asking the database who waits: there is a slot, or one that others take in turns.
    pub(crate) fn may_look(&self) -> bool {
        let state = self.state();
        state.holders() < state.slots + 2 || state.runs.values().any(|run| run.wants.is_some())
    }

    /// Destinations that have as many runs as they may have: half of the slots.
    pub(crate) fn busy_destinations(&self) -> Vec<String> {
        let state = self.state();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for run in state.runs.values() {
            *counts.entry(&run.destination_key).or_default() += 1;
        }
        let most = (state.slots / 2).max(1);
        let busy = counts.iter().filter(|(_, count)| **count >= most);
        busy.map(|(key, _)| (*key).to_owned()).collect()
    }

    /// Which of these organizations comes next, of which each has a run waiting. `is_all`: there are no others.
    pub(crate) fn choose(&self, due: &[OrganizationId], is_all: bool) -> Choice {
        let mut state = self.state();
        let before = state.seen.is_some();
        let choice = state.choose(due, is_all, Instant::now());
        let is_gone = before && state.seen.is_none();
        drop(state);
        if is_gone {
            self.0.changed.notify_waiters();
        }
        choice
    }

    pub(crate) fn begin(&self, job: &Job) -> Slot {
        let tries = u32::try_from(job.run.tries).unwrap_or(u32::MAX);
        self.begin_run(job.run.organization_id, &job.run.destination_key, tries)
    }

    fn begin_run(&self, organization: OrganizationId, destination_key: &str, tries: u32) -> Slot {
        let end = CancellationToken::new();
        let number = self
            .state()
            .begin(organization, destination_key, tries, end.clone(), Instant::now());
        Slot {
            shared: self.0.clone(),
            number,
            end,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state()
    }
}

#[cfg(test)]
mod tests;
