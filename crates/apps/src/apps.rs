//! Everything about apps that takes more than the database: their source, the sandbox, the store of events.

use std::fmt;
use std::sync::Arc;

use boxed::boxed;
use events::Events;
use service::access::{Caller, ReadApps};
use service::pipeline::Collection;
use service::{Page, Result, Service, Window};

use crate::catalog::{Entry, Kind};
use crate::instances::InstancePool;
use crate::shared::{AppsDeps, Core};

/// Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct Apps {
    pub(crate) core: Arc<Core>,
    pub(crate) instances: Arc<InstancePool>,
}

impl Apps {
    pub fn new(service: Service, events: Events, deps: AppsDeps) -> Self {
        Self {
            core: Arc::new(Core::new(service, events, deps)),
            instances: Arc::default(),
        }
    }

    pub fn service(&self) -> &Service {
        &self.core.service
    }

    /// What can be installed into a collection.
    #[boxed]
    pub async fn catalog(
        &self,
        caller: &Caller<ReadApps>,
        collection: Collection,
        window: Window,
    ) -> Result<Page<Entry>> {
        self.core.service.may_read_apps(caller).await?;
        let entries = self.core.catalog.entries().await;
        let fitting = entries.iter().filter(|entry| belongs(entry.r#type, collection));
        Ok(Page::cut(fitting.cloned().collect(), window))
    }
}

impl fmt::Debug for Apps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apps").finish_non_exhaustive()
    }
}

/// Which kind of app goes where. Those that filter what comes in have no collection here.
fn belongs(kind: Kind, collection: Collection) -> bool {
    match collection {
        Collection::Destinations => kind == Kind::DataOut,
        Collection::FrontendApps => kind == Kind::Site,
        Collection::ImportApps => kind == Kind::DataIn,
    }
}
