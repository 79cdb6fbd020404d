//! What a run found out.

use super::rows::Copied;
use super::server::{CarriedOut, Tick};

/// All that a run found out.
#[derive(Default)]
pub(super) struct Report {
    pub(super) command: String,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) copies: Vec<Copied>,
    pub(super) tick: Option<Tick>,
    pub(super) carried_out: Option<CarriedOut>,
}

impl Report {
    /// Every number of rows that was measured, smallest first.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.copies.iter().map(|copied| copied.rows).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}
