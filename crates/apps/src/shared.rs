//! What all parts of [`Apps`](crate::Apps) share.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use events::Events;
use outbound::Http;
use sandbox::{Budget, Layers, Sandbox};
use service::{FairSemaphore, Rotation, Service, Slow, Time, WorkerId};

use crate::cache::Caches;
use crate::catalog::Catalog;
use crate::downloads::Downloads;
use crate::scheduler::Pass;
use crate::source::Sources;

/// Changes of apps' code that are under way at the same time: each has up to three copies of 8 MB.
const UPDATES_AT_ONCE: usize = 6;
/// What the whole of a task or a turn gets on top of the time of one call: one that is too slow says so itself.
const GRACE: Duration = Duration::from_secs(1);

pub(crate) struct Core {
    pub(crate) service: Service,
    pub(crate) events: Events,
    pub(crate) sandbox: Sandbox,
    pub(crate) sources: Sources,
    pub(crate) catalog: Catalog,
    /// What apps reach the outside with.
    pub(crate) http: Http,
    /// How many apps this process runs at once.
    pub(crate) slots: usize,
    pub(crate) worker: WorkerId,
    pub(crate) caches: Caches,
    /// The memory for events of apps that are being stored.
    pub(crate) captured: Budget,
    /// Whose turn it is to change the code of an app.
    pub(crate) updates: FairSemaphore,
    /// Whose turn it is to fetch code from elsewhere.
    pub(crate) downloads: Downloads,
    /// Whose turn it is to have a task carried out, and events handed over.
    pub(crate) tasks_of: [Rotation; Pass::COUNT],
    pub(crate) events_of: [Rotation; Pass::COUNT],
    /// Whether tasks come before events, the next time.
    pub(crate) are_tasks_next: AtomicBool,
    /// What keeps apps apart from the server, once that was looked at.
    pub(crate) layers: Mutex<Option<Layers>>,
}

/// What [`Apps`](crate::Apps) needs of the outside.
pub struct AppsDeps {
    pub sandbox: Sandbox,
    pub sources: Sources,
    pub catalog: Catalog,
    pub http: Http,
    pub slots: usize,
}

impl Core {
    pub(crate) fn new(service: Service, events: Events, deps: AppsDeps) -> Self {
        let worker = WorkerId::random(service.random());
        Self {
            service,
            events,
            sandbox: deps.sandbox,
            sources: deps.sources,
            catalog: deps.catalog,
            http: deps.http,
            slots: deps.slots,
            worker,
            caches: Caches::default(),
            captured: Budget::default(),
            updates: FairSemaphore::new("the app loader", UPDATES_AT_ONCE, Slow::half_of(UPDATES_AT_ONCE)),
            downloads: Downloads::default(),
            tasks_of: Default::default(),
            events_of: Default::default(),
            are_tasks_next: AtomicBool::new(true),
            layers: Mutex::default(),
        }
    }

    /// How long the whole of a task or a turn may take.
    pub(crate) fn longest(&self) -> Duration {
        self.sandbox.limits().call_time + GRACE
    }

    /// Which events can be read: those that came in before.
    pub(crate) fn readable_until(&self) -> Time {
        self.service.clock().now() - self.events.delay()
    }
}
