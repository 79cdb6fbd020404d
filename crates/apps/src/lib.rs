//! Pipeline apps: where their source comes from, what is read of it, and how they are run.

mod apps;
mod asked_hosts;
mod cache;
pub mod catalog;
mod code;
mod comparison;
mod confinement;
mod delivery;
mod errors;
mod event_payload;
mod fair_shares;
mod host;
mod install;
mod instances;
mod last_found;
mod meters;
mod pending_output;
mod reading;
mod scheduler;
mod shared;
pub mod source;
mod upgrade;
mod worker;

pub use apps::Apps;
pub use catalog::{Catalog, Entry as CatalogEntry};
pub use comparison::{FileChange, different_files, unified};
pub use fair_shares::CodePermit;
pub use install::SourceChange;
pub use shared::AppsDeps;
pub use source::{AppUrl, Files, Limits, Sources};
pub use upgrade::{Upgrade, Wanted};
