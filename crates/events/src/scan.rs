//! Which rows are read.

use hogql::Query;

use crate::Time;

/// Which rows, in which shape: those of a team whose ingestion time is in `[start, end)`, oldest first.
#[derive(Debug, Clone)]
pub struct Scan {
    pub team: i64,
    pub query: Query,
    /// None: from the beginning.
    pub start: Option<Time>,
    pub end: Time,
    /// How many of the first are left out, without being read. Only where the query takes all events.
    pub skip: usize,
    /// None: all of them.
    pub limit: Option<usize>,
}
