//! What servers answer that a member chose. As values, an answer can take a hundred times the memory of its text; so it is read
//! into types that hold what is needed of it, and one with more rows or columns than ours have is refused.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Error;

/// Of an answer, and of a table's columns. Where a table is described in rows, it has one for each column; other answers have one
/// row, or one for each file that was loaded.
pub(crate) const MAX_ROWS: usize = 10_000;
/// Of a row. Ours have ten at most.
pub(crate) const MAX_CELLS: usize = 20;

/// How the error begins of an answer that has more of something than is read.
const TOO_MANY: &str = "more items than any answer to us has";

/// What the owner is told then.
pub(crate) const MORE_THAN_ASKED_FOR: &str = "the server sent many more items than were asked for; check its address";

/// A row, every value as text.
pub(crate) type Row = Vec<Option<String>>;

/// A row as it is read.
pub(crate) type Cells = Bounded<Cell, MAX_CELLS>;

impl Cells {
    pub(crate) fn texts(self) -> Row {
        self.0.into_iter().map(|Cell(text)| text).collect()
    }
}

/// Reads an answer. One that has too much of something would have it again, so it is not asked for again.
pub(crate) fn read<T: DeserializeOwned>(
    answer: &[u8],
    unreadable: impl FnOnce(serde_json::Error) -> Error,
) -> Result<T, Error> {
    serde_json::from_slice(answer).map_err(|cause| {
        if cause.to_string().starts_with(TOO_MANY) {
            return Error::permanent(MORE_THAN_ASKED_FOR, cause);
        }
        unreadable(cause)
    })
}

/// A list of at most `MAX` items. Of one that is longer, no more than these are built.
#[derive(Debug, Clone)]
pub(crate) struct Bounded<T, const MAX: usize>(pub(crate) Vec<T>);

impl<T, const MAX: usize> Default for Bounded<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

struct Items<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Items<T, MAX> {
    type Value = Bounded<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut bounded = Vec::new();
        while let Some(item) = items.next_element()? {
            if bounded.len() == MAX {
                return Err(A::Error::custom(TOO_MANY));
            }
            bounded.push(item);
        }
        Ok(Bounded(bounded))
    }
}

/// A value as text; none: null. Some servers give numbers as such. There are no lists or objects in what we ask for.
#[derive(Debug, Default)]
pub(crate) struct Cell(pub(crate) Option<String>);

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a boolean or null")
    }

    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell(None))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Cell, E> {
        Ok(Cell(Some(value.to_string())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell(Some(value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Cell, E> {
        Ok(Cell(Some(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Cell, E> {
        Ok(Cell(Some(value.to_string())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Cell, E> {
        Ok(Cell(Some(value.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(answer: &str) -> Result<Vec<Row>, Error> {
        let unreadable = |cause: serde_json::Error| Error::retryable("unreadable", cause);
        let rows: Bounded<Cells, MAX_ROWS> = read(answer.as_bytes(), unreadable)?;
        Ok(rows.0.into_iter().map(Cells::texts).collect())
    }

    fn list(item: &str, count: usize) -> String {
        format!("[{}]", vec![item; count].join(","))
    }

    #[test]
    fn values_become_texts() {
        let texts = rows(r#"[["a", null, 1, -1, 0.5, true], []]"#).unwrap();
        let first = [Some("a"), None, Some("1"), Some("-1"), Some("0.5"), Some("true")];
        assert_eq!(texts, [first.map(|text| text.map(str::to_owned)).to_vec(), Vec::new()]);
    }

    #[test]
    fn as_many_rows_and_cells_as_ours_have_are_read() {
        let row = list("\"\"", MAX_CELLS);
        assert_eq!(rows(&list(&row, MAX_ROWS)).unwrap().len(), MAX_ROWS);
    }

    #[test]
    fn more_rows_or_cells_are_refused_for_good() {
        for answer in [
            list("[]", MAX_ROWS + 1),
            list(&list("\"\"", MAX_CELLS + 1), 1),
            list("[]", 500_000),
            list(&list("\"\"", 500_000), 1),
        ] {
            let error = rows(&answer).unwrap_err();
            assert!(error.is_permanent, "{error}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused_and_never_built() {
        for answer in [
            list(r#"{"":0}"#, 500_000),
            list(&list(r#"{"":0}"#, 500_000), 1),
            list(r#"[{"$serde_json::private::RawValue":"[]"}]"#, 1),
            list("[[]]", 1),
        ] {
            let error = rows(&answer).unwrap_err();
            assert_eq!((error.sentence.as_str(), error.is_permanent), ("unreadable", false));
        }
    }
}
