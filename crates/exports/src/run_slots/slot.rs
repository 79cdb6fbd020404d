//! The slot of one run: held while it works, given back while it waits for long.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::choosing::SEEN_FOR;
use super::shared::Shared;

/// One run in progress.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
    pub(super) end: CancellationToken,
}

impl Slot {
    /// Ends when others need the room and this run has to go.
    pub(crate) async fn ended(&self) {
        self.end.cancelled().await;
    }

    /// Waits for the destination, without a slot if that takes long, and has a slot afterwards.
    pub(crate) async fn sending<T>(&self, work: impl Future<Output = T> + Send) -> T {
        let done = self.finishing(work).await;
        self.resume().await;
        done
    }

    /// The same for the last step: nothing that needs a slot comes after it.
    pub(crate) async fn finishing<T>(&self, work: impl Future<Output = T> + Send) -> T {
        self.hand_over().await;
        self.waiting(work).await
    }

    /// The same where there is no time to line up for a slot.
    pub(crate) async fn waiting<T>(&self, work: impl Future<Output = T> + Send) -> T {
        self.watched(work, Self::step_aside).await
    }

    /// Reads. That costs processor time: a run that takes long keeps its slot, unless that is the one for quick runs.
    pub(crate) async fn reading<T>(&self, work: impl Future<Output = T> + Send) -> T {
        self.hand_over().await;
        let done = self.watched(work, Self::leave_quick_slot).await;
        self.resume().await;
        done
    }

    async fn watched<T>(&self, work: impl Future<Output = T> + Send, late: fn(&Self)) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep_until(self.slot_ends()) => late(self),
        }
        work.await
    }

    fn slot_ends(&self) -> Instant {
        self.shared.state().slot_ends(self.number, Instant::now())
    }

    fn step_aside(&self) {
        self.shared.state().step_aside(self.number, Instant::now());
        self.shared.changed.notify_waiters();
    }

    fn leave_quick_slot(&self) {
        self.shared.state().leave_quick_slot(self.number, Instant::now());
        self.shared.changed.notify_waiters();
    }

    /// Whoever has had a slot for long enough lines up again.
    async fn hand_over(&self) {
        if Instant::now() >= self.slot_ends() {
            self.step_aside();
            self.resume().await;
        }
    }

    /// Waits for a slot, unless there is one already.
    async fn resume(&self) {
        if !self.shared.state().want(self.number) {
            return;
        }
        let _wanting = Wanting(self);
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if self.shared.state().try_to_resume(self.number, Instant::now()) {
                return;
            }
            // What was seen in the database may have become old.
            let _ = tokio::time::timeout(SEEN_FOR, changed).await;
        }
    }
}

/// A run in line for a slot, until it has one or no longer wants it.
struct Wanting<'a>(&'a Slot);

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        let slot = self.0;
        if let Some(run) = slot.shared.state().runs.get_mut(&slot.number) {
            run.wants = None;
        }
        slot.shared.changed.notify_waiters();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.state().leave(self.number, Instant::now());
        self.shared.changed.notify_waiters();
    }
}
