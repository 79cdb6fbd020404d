//! Where events and persons live: one small interface, an embedded store and ClickHouse behind it.
//!
//! Every row has an ingestion time, and exports select by nothing else. [`Events::settle`] draws a line: after it, no row
//! is ever stored with an ingestion time before that line, so an interval that was read once is complete.

pub mod capture;
pub mod clickhouse;
mod dropped_updates;
mod elements;
mod error;
mod fair_queue;
mod hold;
pub mod import;
mod incoming;
mod names;
pub mod persons;
mod recent_uuids;
mod rows;
mod scalars;
mod scan;
mod size;
pub mod sqlite;
mod store;
mod stored;
mod time;

pub use error::{Error, Result};
pub use hold::{Held, Hold};
pub use incoming::{Incoming, MAX_EVENT_BYTES, MAX_UNSET};
pub use rows::{MAX_ROW_BYTES, Rows, Sender, schema};
pub use scan::Scan;
pub use store::Events;
pub use stored::{Most, Stored, StoredEvents};
pub use time::Time;
