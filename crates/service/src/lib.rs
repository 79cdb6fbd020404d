//! What Hedgerow is and does. Knows no HTTP.

pub mod access;
mod access_recheck;
pub mod activity;
pub mod batch_exports;
pub mod bootstrap;
mod cache;
mod cleanup;
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
pub mod lease;
mod level;
mod limits;
pub mod mail;
pub mod members;
mod network;
pub mod operators;
pub mod organizations;
mod page;
mod page_slots;
pub mod pipeline;
mod restrictions;
mod retention;
mod rotation;
pub mod round;
mod scope;
pub mod second_factor;
mod series;
mod service;
pub mod sessions;
pub mod sign_in;
pub mod sso;
pub mod teams;
mod text;
mod transaction;
pub mod users;

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
pub use organizations::creators::{Person, Tenant};
pub use page::{MAX_BYTES as MAX_PAGE_BYTES, Page, Window};
pub use page_slots::{PageSlot, PageSlots};
pub use rotation::Rotation;
pub use scope::{Object, Scope};
pub use series::Series;
pub use service::{Precondition, Service, no_precondition};
pub use text::{Email, Name};
