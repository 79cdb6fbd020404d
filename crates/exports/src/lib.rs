//! Batch exports: what is due, carried out: read from the store of events, written in a format, delivered.

mod backfills;
mod delivery;
pub mod destinations;
mod error;
mod exporter;
pub mod formats;
mod heartbeat;
pub mod layout;
pub mod manifest;
mod meters;
mod preview;
mod run;
mod run_slots;
mod shares;
pub mod verify;
mod worker;

pub use delivery::{Acknowledged, Deliver, Delivery, ExportsDeps, Receipt, Step, Upload, Verdict};
pub use destinations::check_prefix;
pub use error::Error;
pub use exporter::Exports;
pub use preview::{Preview, PreviewColumn};
