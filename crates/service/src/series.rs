//! Metrics with a label for each of something that users make.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Users could make the page of metrics, and the memory it takes, grow without end.
const MAX: usize = 10_000;

/// The ids that have figures of their own. Beyond the 10,000th the rest is counted together.
#[derive(Debug)]
pub struct Series(LazyLock<Mutex<HashSet<String>>>);

impl Series {
    /// The label of those that are counted together.
    pub const OTHER: &str = "other";

    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is for constants")]
    pub const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    pub fn label(&self, id: impl Display) -> String {
        let id = id.to_string();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&id) || (known.len() < MAX && known.insert(id.clone())) {
            id
        } else {
            Self::OTHER.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX, Series};

    #[test]
    fn there_are_only_so_many_labels() {
        let series = Series::new();
        for id in 0..MAX {
            assert_eq!(series.label(id), id.to_string());
        }
        assert_eq!(series.label(MAX), Series::OTHER);
        assert_eq!(series.label(3), "3", "what is known stays");
    }
}
