//! What `cargo xtask bench exports` and `bench apps` measure: made-up events into the store, out of it, into apps, and the
//! schedule.

mod apps;
mod deliver;
mod ingest;
mod rows;
mod schedule;
mod usage;

pub use apps::apps;
pub use deliver::{Form, deliver};
pub use ingest::{Load, ingest};
pub use rows::{count, fill};
pub use schedule::schedule;
pub use usage::cpu_seconds;
