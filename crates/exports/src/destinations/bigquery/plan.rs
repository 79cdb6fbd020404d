//! How rows get from the stage into the table.

use super::tables::Table;
use crate::destinations::staging::{Column, WriteMode};

/// What is to happen.
pub(super) struct Plan {
    pub(super) mode: WriteMode,
    /// The columns that the table has.
    pub(super) written: Vec<Column>,
    pub(super) table: Table,
    pub(super) is_custom: bool,
}
