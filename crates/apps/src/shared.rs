//! What all parts of [`Apps`](crate::Apps) share.

use std::sync::Mutex;
use std::time::Duration;

use events::Events;
use outbound::Http;
use sandbox::{Budget, Layers, Sandbox};
use service::{OrganizationId, Service, Time, WorkerId};

use crate::cache::Caches;
use crate::catalog::Catalog;
use crate::fair_shares::Shares;
use crate::last_found::LastFound;
use crate::source::Sources;

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
    pub(crate) captured_events: Budget,
    /// The memory for large events that apps are given.
    pub(crate) large_events: Budget,
    /// Who is permitted to change the code of an app.
    pub(crate) updates: Shares,
    /// Who is permitted to fetch code from elsewhere.
    pub(crate) downloads: Shares,
    pub(crate) last_found: Mutex<LastFound>,
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
            captured_events: Budget::default(),
            large_events: Budget::default(),
            updates: Shares::of_updates(),
            downloads: Shares::of_downloads(),
            last_found: Mutex::new(LastFound::beginning_at(OrganizationId(worker.0))),
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
