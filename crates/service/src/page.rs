//! A part of a long list.

use crate::cache::Weigh;

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

impl<T> Weigh for Page<T> {
    fn rows(&self) -> usize {
        1 + self.items.len()
    }
}
