//! What all use cases share: the database, the clock, and what each process keeps in memory.

use std::sync::Arc;

use boxed::boxed;

use crate::activity::Budget;
use crate::cache::{Cache, CacheKey, Load, Weigh};
use crate::clock::{Clock, RandomSource};
use crate::db::{FairSemaphore, Slow, Store, Version};
use crate::error::Result;
use crate::hashing::HashQueue;
use crate::idempotency::StoredBytes;
use crate::instance::Instance;
use crate::keys::KeyUse;
use crate::limits::OrganizationCreation;
use crate::organizations::creators::Creators;
use crate::page_slots::PageSlots;
use crate::pipeline::Scripts;
use crate::sign_in::Attempts;
use crate::transaction::WriteTx;
use crate::{access_recheck, organizations};

/// The use cases. Cheap to clone; every clone is the same service.
#[derive(Debug, Clone)]
pub struct Service {
    pub(crate) core: Arc<Core>,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: RandomSource,
    pub(crate) cache: Cache<CacheKey>,
    pub(crate) creators: Creators,
    pub(crate) key_use: KeyUse,
    pub(crate) attempts: Attempts,
    /// Answers of identity providers that browsers bring.
    pub(crate) returns: Attempts,
    /// Refused sign-ins that are written down.
    pub(crate) refusals: Attempts,
    pub(crate) hashing: HashQueue,
    /// How strong new passwords are is estimated beside the hashing, one at a time.
    pub(crate) password_estimates: HashQueue,
    pub(crate) organization_creation: OrganizationCreation,
    pub(crate) activity_budget: Budget,
    pub(crate) stored_responses: StoredBytes,
    page_slots: PageSlots,
    /// Whoever has read the code of an app, which can be long.
    pub(crate) code_in_memory: FairSemaphore,
    /// What pages of anybody's load.
    pub(crate) scripts: Scripts,
    pub(crate) instance: Instance,
}

/// How many read the code of apps, and look at it, at a time: all together, and of one organization.
const CODE_AT_ONCE: usize = 8;
const CODE_AT_ONCE_OF_ONE: usize = 2;

impl Service {
    pub fn new(store: Store, clock: Clock, random: RandomSource, instance: Instance) -> Self {
        let core = Core {
            store,
            clock,
            random,
            cache: Cache::default(),
            creators: Creators::default(),
            key_use: KeyUse::default(),
            attempts: Attempts::default(),
            returns: Attempts::default(),
            refusals: Attempts::default(),
            hashing: HashQueue::default(),
            password_estimates: HashQueue::with_slots(1),
            organization_creation: OrganizationCreation::new(instance.hourly_limits),
            activity_budget: Budget::new(instance.hourly_limits),
            stored_responses: StoredBytes::default(),
            page_slots: PageSlots::default(),
            code_in_memory: FairSemaphore::new("The app loader", CODE_AT_ONCE, Slow::half_of(CODE_AT_ONCE))
                .with_most_of_one(CODE_AT_ONCE_OF_ONE),
            scripts: Scripts::default(),
            instance,
        };
        Self { core: Arc::new(core) }
    }

    pub fn store(&self) -> &Store {
        &self.core.store
    }

    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    pub fn random(&self) -> &RandomSource {
        &self.core.random
    }

    pub fn instance(&self) -> &Instance {
        &self.core.instance
    }

    /// Whoever makes a page takes one of these first, and keeps it until the page is written.
    pub fn page_slots(&self) -> &PageSlots {
        &self.core.page_slots
    }

    /// A transaction for one use case, which whoever asked for it may still carry out now that it begins.
    pub(crate) async fn write(&self) -> Result<WriteTx> {
        let mut db = self.write_unchecked().await?;
        if let Some(grant) = access_recheck::grant() {
            match grant.organization {
                Some((organization, _)) => drop(organizations::sql::lock(&mut db, organization).await?),
                None => access_recheck::expect_access(&mut db, grant).await?,
            }
        }
        Ok(db)
    }

    /// The same for what a request leaves behind, also if it took the caller's own access away.
    pub(crate) async fn write_unchecked(&self) -> Result<WriteTx> {
        let core = &self.core;
        let budget = core.activity_budget.clone();
        WriteTx::begin(&core.store, &core.clock, core.random.clone(), budget).await
    }

    /// The cached value if nothing was written since it was read, else what `load` reads now.
    pub(crate) async fn get_or_load<'a, T: Weigh + Send + Sync + 'static>(
        &self,
        seen: Version,
        key: CacheKey,
        load: impl FnOnce() -> Load<'a, T>,
    ) -> Result<Arc<T>> {
        self.core.cache.get_or_load(seen, key, load).await
    }

    /// Listens whether the database answers, for as long as the process lives. Ends immediately on SQLite, which is in this process.
    #[boxed]
    pub async fn listen_to_database(&self) {
        self.core.store.listen().await;
    }

    /// Has the clock follow the database's, if several machines may share it.
    #[boxed]
    pub async fn follow_database_clock(&self) -> Result<()> {
        self.core.store.give_time_to(&self.core.clock).await
    }
}

/// Asked inside a write, with the thing locked: is it still what the caller last saw?
pub type Precondition<'a, T> = &'a (dyn Fn(&T) -> bool + Send + Sync);

/// For callers who did not say what they last saw.
pub fn no_precondition<T>(_: &T) -> bool {
    true
}
