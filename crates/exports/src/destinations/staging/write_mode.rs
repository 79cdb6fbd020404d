//! What happens to rows that are in the table already.

use hogql::Model;

use super::columns::Column;
use crate::{Delivery, Error};

/// What tells persons and their versions apart.
pub(crate) const PERSON_COLUMNS: [&str; 4] = ["team_id", "distinct_id", "person_version", "person_distinct_id_version"];

/// How rows get from the stage into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// Added as they are.
    Append,
    /// What has the same `uuid` is taken away first.
    ReplaceByUuid,
    /// One row for each person, the newest.
    Persons,
}

impl WriteMode {
    /// The way for a delivery, given the columns that go into the table.
    pub(crate) fn of(delivery: &Delivery, columns: &[Column]) -> Result<Self, Error> {
        let has = |name: &str| columns.iter().any(|column| column.name == name);
        if delivery.model == Model::Persons && PERSON_COLUMNS.into_iter().all(has) {
            return Ok(Self::Persons);
        }
        if delivery.model == Model::Persons && !delivery.is_custom {
            return Err(Error::plain(
                "the table lacks columns that persons need; choose the name of a table that doesn't exist yet",
            ));
        }
        match (delivery.is_resend, has("uuid")) {
            (false, _) => Ok(Self::Append),
            (true, true) => Ok(Self::ReplaceByUuid),
            (true, false) => Err(Error::plain(
                "rows without a uuid cannot be replaced; add uuid to the query, or use \
                 another table",
            )),
        }
    }
}
