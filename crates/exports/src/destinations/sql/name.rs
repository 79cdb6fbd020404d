//! Names of schemas, tables and columns, as they stand in SQL.

use std::fmt;

use super::LEDGER;
use crate::Error;

/// PostgreSQL would cut what is longer, and two names could become one.
const MAX_LENGTH: usize = 63;

/// A name, quoted wherever it is written, so that it means nothing but itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Name {
    /// `what` says whose name it is, for whoever has to change it.
    pub(crate) fn new(what: &str, name: &str) -> Result<Self, Error> {
        let problem = match name {
            "" => "is empty",
            _ if name.contains('\0') => "contains NUL",
            _ if name.len() > MAX_LENGTH => "is longer than 63 bytes",
            _ => return Ok(Self(name.to_owned())),
        };
        Err(Error::plain(format!(
            "the name of the {what} {problem}; choose another"
        )))
    }

    /// As it was written, without quotes.
    pub(crate) fn bare(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

/// A table in its schema.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) schema: Name,
    pub(crate) name: Name,
}

impl Table {
    /// The table that rows go to, which cannot be the ledger.
    pub(crate) fn target(schema: &str, name: &str) -> Result<Self, Error> {
        if name.eq_ignore_ascii_case(LEDGER) {
            let sentence = format!("the table {LEDGER} is reserved for tracking deliveries; choose another table_name");
            return Err(Error::plain(sentence).in_key("table_name"));
        }
        Ok(Self {
            schema: Name::new("schema", schema).map_err(|error| error.in_key("schema"))?,
            name: Name::new("table", name).map_err(|error| error.in_key("table_name"))?,
        })
    }

    /// The ledger beside this table.
    pub(crate) fn ledger(&self) -> Self {
        Self {
            schema: self.schema.clone(),
            name: Name(LEDGER.to_owned()),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E4
    #[test]
    fn a_hostile_name_is_quoted_or_refused() {
        let name = Name::new("table", "a\"; DROP TABLE x; --").unwrap();
        assert_eq!(name.to_string(), "\"a\"\"; DROP TABLE x; --\"");
        for refused in ["", "a\0b", &"é".repeat(32)] {
            assert!(Name::new("table", refused).unwrap_err().is_permanent);
        }
        assert!(Name::new("table", &"x".repeat(63)).is_ok());
        assert!(Table::target("public", "Hedgerow_Ledger").is_err());
    }
}
