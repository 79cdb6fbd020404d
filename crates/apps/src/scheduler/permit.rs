//! The permit for something that is in progress: it times the calls of the app, and is taken away if others need it more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::state::Shared;

/// Something that is in progress. Dropped, it is over.
#[derive(Debug)]
pub(crate) struct Permit {
    shared: Arc<Shared>,
    number: u64,
    preempted: CancellationToken,
    rank: u32,
}

impl Permit {
    pub(super) fn new(shared: Arc<Shared>, number: u64, preempted: CancellationToken, rank: u32) -> Self {
        Self {
            shared,
            number,
            preempted,
            rank,
        }
    }

    /// How much of the same person was in progress when this began.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// From now on the app is waited for.
    pub(crate) fn begin_call(&self) {
        self.begin_start();
        self.begin_batch();
    }

    /// From now on its start is waited for. It counts together with the first call, but not as part of the turn.
    pub(crate) fn begin_start(&self) {
        self.shared.state().begin_call(self.number, Instant::now());
    }

    /// The app has started: what it does from now on is its turn.
    pub(crate) fn begin_batch(&self) {
        self.shared.state().begin_turn(self.number, Instant::now());
    }

    pub(crate) fn end_call(&self) {
        self.shared.state().end_call(self.number, Instant::now());
    }

    /// How long the organization waits for its turn at the database counts like a call of its app: so nobody else waits for that.
    pub(crate) async fn timed<T>(&self, work: impl Future<Output = T>) -> T {
        self.shared.state().begin_waiting(self.number, Instant::now());
        let done = work.await;
        self.end_call();
        done
    }

    pub(crate) fn is_preempted(&self) -> bool {
        self.preempted.is_cancelled()
    }

    /// Waits until others need the permit more. It is theirs by then.
    pub(crate) async fn preempted(&self) {
        self.preempted.cancelled().await;
    }

    /// Whether others wait, and it has had its share.
    pub(crate) fn should_yield(&self) -> bool {
        self.shared.state().should_yield(self.number, Instant::now())
    }

    /// A handle to observe it.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            shared: self.shared.clone(),
            number: self.number,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.state().end(self.number, Instant::now());
        self.shared.has_changed.notify_waiters();
    }
}

#[derive(Debug)]
pub(crate) struct Progress {
    shared: Arc<Shared>,
    number: u64,
}

impl Progress {
    /// Whether it has been at the same call for so long, or has had its slot for long.
    pub(crate) fn lasts(&self, time: Duration) -> bool {
        self.shared.state().lasts(self.number, time, Instant::now())
    }

    /// It goes on without its slot.
    pub(crate) fn leave_slot(&self) {
        self.shared.state().leave_slot(self.number, Instant::now());
    }
}
