//! Processes that are started before there is an app for them: confined, and with an engine that is ready. So an app waits for its own code
//! alone.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::process::Process;
use crate::{Layers, Limits, Program};

/// How many wait. Each takes some megabytes.
const MAX: usize = 2;

/// Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Spares(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    ready: Vec<(Process, Layers)>,
    starting: usize,
}

impl Spares {
    /// One that is still alive, if there is one.
    pub(crate) fn take(&self) -> Option<(Process, Layers)> {
        let mut state = self.lock();
        std::iter::from_fn(|| state.ready.pop()).find_map(|(mut process, layers)| {
            let is_alive = process.is_alive();
            is_alive.then_some((process, layers))
        })
    }

    /// Starts what is missing, without anybody waiting for it. If one does not start, whoever needs it starts one and learns why.
    pub(crate) fn refill(&self, program: &Program, limits: &Arc<Limits>) {
        for _ in 0..self.count_missing() {
            // Nobody needs them any more when the sandbox is gone.
            let spares = Arc::downgrade(&self.0);
            let (program, limits) = (program.clone(), limits.clone());
            tokio::spawn(async move {
                let started = Process::start(&program, &limits).await;
                if let Some(state) = spares.upgrade() {
                    Self(state).put(started.ok());
                }
            });
        }
    }

    /// How many are to be started, which counts them as started.
    fn count_missing(&self) -> usize {
        let mut state = self.lock();
        let missing = MAX.saturating_sub(state.ready.len() + state.starting);
        state.starting += missing;
        missing
    }

    fn put(&self, started: Option<(Process, Layers)>) {
        let mut state = self.lock();
        state.starting -= 1;
        state.ready.extend(started);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Spares {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Spares").field(&self.lock().ready.len()).finish()
    }
}
