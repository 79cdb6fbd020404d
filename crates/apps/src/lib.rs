//! Pipeline apps: where their source comes from, what is read of it, and how they are run.

mod apps;
mod cache;
pub mod catalog;
mod comparison;
mod confinement;
mod delivery;
mod given;
mod host;
mod instances;
mod meters;
mod reading;
mod scheduler;
pub mod source;
mod worker;

pub use apps::{Apps, AppsDeps, SourceChange, Upgrade, Wanted};
pub use catalog::{Catalog, Entry as CatalogEntry};
pub use comparison::{FileChange, different_files, unified};
pub use source::{AppUrl, Files, Limits, Sources};

fn store_failed(cause: &events::Error) -> service::Error {
    tracing::error!(error = cause as &dyn std::error::Error, "the store of events failed");
    service::Error::Conflict {
        code: "events_unavailable",
        detail: "events cannot be read at the moment: try again later".to_owned(),
    }
}
