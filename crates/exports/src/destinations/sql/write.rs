//! What a delivery writes into its table, and what happens to rows that are there already.

use hogql::Model;

use super::name::{Name, Table};
use crate::destinations::staging::WriteMode;
use crate::{Delivery, Error};

/// Persons are brought up to date by their key; everything else is added.
pub(crate) fn is_merged(delivery: &Delivery, has: impl Fn(&str) -> bool) -> bool {
    delivery.model == Model::Persons && has("team_id") && has("distinct_id")
}

/// The rows of one delivery on their way into the table.
pub(crate) struct TableWrite {
    pub(crate) table: Table,
    pub(crate) columns: Vec<Name>,
    pub(crate) mode: WriteMode,
}

impl TableWrite {
    /// `columns` are those that both the export and the table have.
    pub(crate) fn new(
        table: &Table,
        delivery: &Delivery,
        columns: Vec<Name>,
        was_delivered: bool,
    ) -> Result<Self, Error> {
        let has = |name: &str| columns.iter().any(|column| column.bare() == name);
        let mode = if is_merged(delivery, has) {
            WriteMode::Persons
        } else if delivery.is_resend && has("uuid") {
            WriteMode::ReplaceByUuid
        } else if was_delivered {
            return Err(Error::plain(
                "the interval was delivered before, and without a uuid column its rows cannot be identified and \
                 replaced; add uuid to the query and to the table",
            ));
        } else {
            WriteMode::Append
        };
        Ok(Self {
            table: table.clone(),
            columns,
            mode,
        })
    }

    /// Rows that are only added go straight in: nothing is seen before the commit anyway.
    pub(crate) fn is_staged(&self) -> bool {
        self.mode != WriteMode::Append
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.bare() == name)
    }

    /// The columns that say which of two rows of a person is newer.
    pub(crate) fn versions(&self) -> Vec<&'static str> {
        ["person_version", "person_distinct_id_version"]
            .into_iter()
            .filter(|name| self.has(name))
            .collect()
    }

    /// All columns, as they stand in a statement.
    pub(crate) fn list(&self) -> String {
        let columns: Vec<_> = self.columns.iter().map(ToString::to_string).collect();
        columns.join(", ")
    }
}
