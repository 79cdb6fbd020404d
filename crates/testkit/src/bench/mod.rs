//! What `cargo xtask bench exports`, `bench ingest` and `bench apps` measure: made-up events into the store, out of it, into apps, and the
//! schedule.

mod apps;
mod deliver;
mod ingest;
mod journal;
mod rows;
mod schedule;
mod usage;

pub use apps::{apps, idle_apps};
pub use deliver::{Form, deliver};
pub use ingest::{Load, ingest};
pub use journal::journal;
pub use rows::{count, fill};
pub use schedule::{carry_out, schedule};
pub use usage::cpu_seconds;
