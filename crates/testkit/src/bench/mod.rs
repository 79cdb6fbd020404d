//! What `cargo xtask bench exports` measures: made-up events into the store, out of it, and the schedule.

mod deliver;
mod ingest;
mod rows;
mod schedule;
mod usage;

pub use deliver::{Form, deliver};
pub use ingest::{Load, ingest};
pub use rows::{count, fill};
pub use schedule::schedule;
