//! What the destinations that speak PostgreSQL's protocol share: the connection, names, cleaned texts, what is written how, and errors.

pub(super) mod clean;
mod connect;
mod connection_test;
mod error;
mod messages;
mod metered;
mod name;
mod write;

pub(super) use connect::{Copy, Endpoint, Limits, Parameters, Session};
pub(super) use connection_test::{open_in_steps, sample};
pub(super) use error::unsuited;
pub(super) use name::{Name, Table};
pub(super) use write::{TableWrite, is_merged};

/// The table that remembers which intervals have arrived, in the same schema as the rows.
pub(super) const LEDGER: &str = "hedgerow_ledger";
