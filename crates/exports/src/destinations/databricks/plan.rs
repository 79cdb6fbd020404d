//! How rows get from the stage into the table.

use crate::destinations::staging::{Column, WriteMode};

/// What is to happen.
pub(super) struct Plan {
    pub(super) mode: WriteMode,
    pub(super) written: Vec<Column>,
    /// Those that hold JSON in the table.
    pub(super) variants: Vec<String>,
    /// The table says when rows arrived.
    pub(super) is_stamped: bool,
    /// Columns that the table lacks are added to it.
    pub(super) evolves: bool,
}
