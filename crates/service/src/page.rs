//! A part of a long list.

use std::pin::pin;

use futures_util::{Stream, TryStreamExt};

/// Which part is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    pub limit: i64,
    pub offset: i64,
}

impl Window {
    pub const DEFAULT_LIMIT: i64 = 100;
    pub const MAX_LIMIT: i64 = 1000;

    /// For lists that have to be looked through.
    pub(crate) const ALL: Self = Self {
        limit: i64::MAX,
        offset: 0,
    };

    /// A larger limit than the largest is cut to it.
    pub fn new(limit: Option<i64>, offset: Option<i64>) -> Self {
        let limit = limit.unwrap_or(Self::DEFAULT_LIMIT).clamp(1, Self::MAX_LIMIT);
        Self {
            limit,
            offset: offset.unwrap_or(0).max(0),
        }
    }

    /// How many items there are in all, if the rows of this part tell: so few are there only at the end of a list. Others have to be
    /// counted.
    pub(crate) fn count_at_end(self, rows: usize) -> Option<i64> {
        let found = i64::try_from(rows).ok()?;
        let is_at_end = rows < LEAST_ROWS && found < self.limit && (found > 0 || self.offset == 0);
        is_at_end.then(|| self.offset.saturating_add(found))
    }
}

/// The part, and how many items there are in all.
#[derive(Debug, Clone)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub count: i64,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            count: 0,
        }
    }
}

impl<T> Page<T> {
    /// A part of a list that was read whole.
    pub fn cut(all: Vec<T>, window: Window) -> Self {
        let count = i64::try_from(all.len()).unwrap_or(i64::MAX);
        let start = usize::try_from(window.offset).unwrap_or(usize::MAX);
        let length = usize::try_from(window.limit).unwrap_or(usize::MAX);
        let items = all.into_iter().skip(start).take(length).collect();
        Self { items, count }
    }

    pub fn map<'a, U>(&'a self, change: impl FnMut(&'a T) -> U) -> Page<U> {
        Page {
            items: self.items.iter().map(change).collect(),
            count: self.count,
        }
    }
}

/// A page of large rows ends once they have so many bytes. What is left of it is the next page.
pub const MAX_BYTES: usize = 4 << 20;
/// So many rows are on a page in any case: as many as one for people has, which is never cut.
const LEAST_ROWS: usize = 50;

/// Reads the rows of a page that may be large, and none after it has ended.
pub(crate) async fn read<T>(
    rows: impl Stream<Item = sqlx::Result<T>>,
    bytes_of: impl Fn(&T) -> usize,
) -> sqlx::Result<Vec<T>> {
    let mut rows = pin!(rows);
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while bytes < MAX_BYTES || taken.len() < LEAST_ROWS {
        let Some(row) = rows.try_next().await? else { break };
        bytes += bytes_of(&row);
        taken.push(row);
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::{StreamExt, stream};

    use super::*;

    /// How many rows of this size are taken, and how many were asked for.
    async fn taken(bytes: usize) -> (usize, usize) {
        let asked = Cell::new(0);
        let rows = stream::iter(0..1000).map(|row| {
            asked.set(asked.get() + 1);
            Ok::<i32, sqlx::Error>(row)
        });
        let rows = read(rows, |_| bytes).await.unwrap();
        (rows.len(), asked.get())
    }

    #[test]
    fn the_end_of_a_list_tells_how_long_it_is() {
        let window = |limit, offset| Window { limit, offset };
        assert_eq!(window(100, 0).count_at_end(0), Some(0));
        assert_eq!(window(100, 200).count_at_end(3), Some(203));
        assert_eq!(window(100, 200).count_at_end(0), None, "it may have ended before");
        assert_eq!(window(3, 0).count_at_end(3), None, "there may be more");
        assert_eq!(
            window(100, 0).count_at_end(LEAST_ROWS),
            None,
            "large rows may have been left out"
        );
    }

    #[tokio::test]
    async fn large_rows_are_read_until_there_is_enough_for_a_page() {
        assert_eq!(taken(100).await, (1000, 1000));
        assert_eq!(taken(40 << 10).await, (103, 103));
        assert_eq!(taken(1 << 20).await, (LEAST_ROWS, LEAST_ROWS));
    }
}
