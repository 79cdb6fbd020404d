//! What was read at the current version of the data, kept until that version passes.

mod key;

use std::any::Any;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;

use crate::db::Version;
use crate::error::Result;
use crate::page::Page;

pub(crate) use self::key::CacheKey;

/// Beyond this many rows the snapshot is cleared and started again: some tens of megabytes at the most.
const MAX_ROWS: usize = 20_000;
/// A value with more rows is not kept: a few of them would push all others out.
const MAX_ROWS_OF_ONE: usize = MAX_ROWS / 8;

/// How much memory a cached value takes, in rows of about the same size.
pub(crate) trait Weigh {
    fn rows(&self) -> usize;
}

impl<T: Weigh> Weigh for Page<T> {
    fn rows(&self) -> usize {
        1 + self.items.iter().map(T::rows).sum::<usize>()
    }
}

/// So many bytes of what may be long are as much as a row.
const ROW_BYTES: usize = 1_000;

/// One row, and as many more as its long texts take.
pub(crate) const fn rows_of(bytes: usize) -> usize {
    1 + bytes / ROW_BYTES
}

type CacheValue = Arc<dyn Any + Send + Sync>;

#[derive(Debug)]
pub(crate) struct Cache<K>(RwLock<Snapshot<K>>);

#[derive(Debug)]
struct Snapshot<K> {
    version: Version,
    values: HashMap<K, CacheValue>,
    rows: usize,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        let (version, values) = (Version::Unknown, HashMap::new());
        Self(RwLock::new(Snapshot {
            version,
            values,
            rows: 0,
        }))
    }
}

/// A future that is only made when it is needed: those that talk to a database are large to carry around.
pub(crate) type Load<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl<K: Eq + Hash + Weigh> Cache<K> {
    /// The cached value if nothing was written since it was read, else what `load` reads now.
    pub(crate) async fn get_or_load<'a, T: Weigh + Send + Sync + 'static>(
        &self,
        seen: Version,
        key: K,
        load: impl FnOnce() -> Load<'a, T>,
    ) -> Result<Arc<T>> {
        if let Some(value) = self.find(seen, &key) {
            return Ok(value);
        }
        let value = Arc::new(load().await?);
        let rows = key.rows() + value.rows();
        self.keep(seen, key, value.clone(), rows);
        Ok(value)
    }

    fn find<T: Send + Sync + 'static>(&self, seen: Version, key: &K) -> Option<Arc<T>> {
        let snapshot = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if snapshot.version != seen {
            return None;
        }
        snapshot.values.get(key)?.clone().downcast().ok()
    }

    /// Keeps a value that was read after `seen` was.
    fn keep(&self, seen: Version, key: K, value: CacheValue, rows: usize) {
        if seen == Version::Unknown || rows > MAX_ROWS_OF_ONE {
            return;
        }
        let mut snapshot = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if snapshot.version != seen || snapshot.rows + rows > MAX_ROWS {
            snapshot.version = seen;
            snapshot.rows = 0;
            snapshot.values.clear();
        }
        // Two readers may have loaded the same value at the same time.
        if snapshot.values.insert(key, value).is_none() {
            snapshot.rows += rows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Name(u32);

    impl Weigh for Name {
        fn rows(&self) -> usize {
            1
        }
    }

    #[test]
    fn a_value_that_was_loaded_twice_counts_once() {
        let cache = Cache::default();
        let version = Version::Postgres(1);
        cache.keep(version, Name(1), Arc::new(1_u32), 1);
        for _ in 0..MAX_ROWS / MAX_ROWS_OF_ONE {
            cache.keep(version, Name(2), Arc::new(2_u32), MAX_ROWS_OF_ONE);
        }
        assert_eq!(cache.find::<u32>(version, &Name(1)).as_deref(), Some(&1));
        assert_eq!(cache.find::<u32>(version, &Name(2)).as_deref(), Some(&2));
    }
}
