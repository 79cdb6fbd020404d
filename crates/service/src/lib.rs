//! What Hedgerow is and does. Knows no HTTP.

pub mod access;
pub mod activity;
pub mod batch_exports;
pub mod bootstrap;
mod cache;
pub mod clock;
mod clock_recovery;
pub mod credentials;
mod db;
pub mod domains;
mod error;
mod hashing;
mod id;
pub mod idempotency;
mod instance;
pub mod invites;
pub mod key_rotation;
pub mod keys;
mod level;
mod limits;
pub mod mail;
pub mod members;
pub mod operators;
pub mod organizations;
mod page;
pub mod pipeline;
mod retention;
mod rotation;
pub mod round;
mod scope;
pub mod second_factor;
mod series;
pub mod sessions;
pub mod sign_in;
pub mod sso;
pub mod teams;
mod text;
pub mod users;

use std::sync::Arc;

pub use clock::{Clock, RandomSource, Time};
pub use db::{FairSemaphore, Permit, PoolUse, Slow, Store, backup, caller};
pub use error::{Error, Invalid, Result, Undone};
pub use id::{
    ActivityId, AppConfigId, AppId, AppTaskId, AttemptId, BackfillId, DomainId, ExportId, InviteId, KeyId, MailId,
    MemberId, OrganizationId, RunId, SessionId, TeamId, UserId, UserUuid, WorkerId,
};
pub use instance::Instance;
pub use level::Level;
pub use limits::HourlyLimits;
pub use page::{MOST_BYTES as MOST_PAGE_BYTES, Page, Window};
pub use rotation::Rotation;
pub use scope::{Object, Scope};
pub use series::Series;
pub use text::{Email, Name};

use cache::Cache;
use db::WriteTx;
use hashing::HashQueue;
use idempotency::KeptBytes;
use keys::KeyUse;
use limits::Founding;
use sign_in::Attempts;

/// The use cases. Cheap to clone; every clone is the same service.
#[derive(Debug, Clone)]
pub struct Service {
    core: Arc<Core>,
}

#[derive(Debug)]
struct Core {
    store: Store,
    clock: Clock,
    random: RandomSource,
    cache: Cache,
    key_use: KeyUse,
    attempts: Attempts,
    /// Answers of identity providers that browsers bring.
    returns: Attempts,
    /// Refused sign-ins that are written down.
    refusals: Attempts,
    hashing: HashQueue,
    /// How strong new passwords are is estimated beside the hashing, one at a time.
    password_estimates: HashQueue,
    founding: Founding,
    activity_budget: activity::Budget,
    kept_answers: KeptBytes,
    /// Whoever has read the code of an app, which can be long.
    code_in_memory: FairSemaphore,
    instance: Instance,
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
            key_use: KeyUse::default(),
            attempts: Attempts::default(),
            returns: Attempts::default(),
            refusals: Attempts::default(),
            hashing: HashQueue::default(),
            password_estimates: HashQueue::with_slots(1),
            founding: Founding::new(instance.hourly_limits),
            activity_budget: activity::Budget::new(instance.hourly_limits),
            kept_answers: KeptBytes::default(),
            code_in_memory: FairSemaphore::new("The app loader", CODE_AT_ONCE, Slow::half_of(CODE_AT_ONCE))
                .with_most_of_one(CODE_AT_ONCE_OF_ONE),
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

    async fn write(&self) -> Result<WriteTx> {
        let core = &self.core;
        let budget = core.activity_budget.clone();
        core.store.write(core.clock.now(), &core.random, budget).await
    }
}

/// Asked inside a write, with the thing locked: is it still what the caller last saw?
pub type Precondition<'a, T> = &'a (dyn Fn(&T) -> bool + Send + Sync);

/// For callers who did not say what they last saw.
pub fn no_precondition<T>(_: &T) -> bool {
    true
}
