//! What happens on one connection, and when it is told to close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::Limits;
use super::unread::UnreadAnswers;

#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    has_spoken: AtomicBool,
    /// When something last happened, in milliseconds since it was opened.
    last: AtomicU64,
    /// Requests that are not answered yet.
    in_progress: AtomicUsize,
    is_cut: AtomicBool,
    told: Notify,
    pub(super) unread: UnreadAnswers,
}

/// A connection is not idle as long as there is one of these.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.note();
        self.0.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            opened: Instant::now(),
            has_spoken: AtomicBool::new(false),
            last: AtomicU64::new(0),
            in_progress: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
            told: Notify::new(),
            unread: UnreadAnswers::default(),
        }
    }

    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        self.note();
        Busy(self.clone())
    }

    pub(super) fn note(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
        self.has_spoken.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_spoken(&self) -> bool {
        self.has_spoken.load(Ordering::Relaxed)
    }

    fn last(&self) -> Instant {
        self.opened + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }

    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }

    /// None while a request is in progress.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        (self.in_progress.load(Ordering::Relaxed) == 0).then(|| self.last())
    }

    /// When to give up unless something happens.
    pub(super) fn deadline(&self, limits: &Limits) -> Instant {
        if self.has_spoken() {
            self.last() + limits.idle
        } else {
            self.opened + limits.header
        }
    }

    /// Tells the connection to close once what is in progress has ended.
    pub(crate) fn close(&self) {
        self.told.notify_one();
    }

    /// Tells it to close immediately, even if it was already told to close.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.told.notify_one();
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// Waits to be told to close, the first time or the second.
    pub(super) async fn told(&self) {
        self.told.notified().await;
    }
}
