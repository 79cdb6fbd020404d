//! A map that keeps what was used lately.

use hashbrown::HashMap;
use std::hash::Hash;

/// Two generations: what is asked for moves into the younger, and when that is full the older is dropped.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    weight: usize,
}

/// What one generation holds at most: so many entries, of so many bytes altogether.
const MAX_ENTRIES: usize = 100_000;
const MAX_BYTES: usize = 16 << 20;

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            weight: 0,
        }
    }
}

/// How many bytes a value takes, about.
pub(super) trait Weigh {
    fn weight(&self) -> usize;
}

impl<K: Eq + Hash + Copy, V: Clone + Weigh> Recent<K, V> {
    pub(super) fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(value.clone());
        }
        let value = self.old.remove(&key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= MAX_ENTRIES || self.weight >= MAX_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        self.weight += value.weight();
        self.young.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: K) {
        self.young.remove(&key);
        self.old.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut recent = Recent::default();
        let entries = 3 * MAX_ENTRIES;
        for key in 0..entries {
            recent.insert(key, 1_usize);
            assert_eq!(recent.get(0), Some(1));
        }
        assert_eq!(recent.get(1), None);
        assert_eq!(recent.get(entries - 1), Some(1));
        assert!(recent.young.len() + recent.old.len() <= 2 * MAX_ENTRIES);
    }

    #[test]
    fn large_values_leave_sooner() {
        let mut recent = Recent::default();
        for key in 0..100 {
            recent.insert(key, MAX_BYTES / 4);
        }
        assert!(recent.young.len() + recent.old.len() <= 8);
    }

    #[test]
    fn what_is_removed_is_gone_from_both_generations() {
        let mut recent = Recent::default();
        recent.insert(1, MAX_BYTES);
        recent.insert(2, 1);
        recent.remove(1);
        recent.remove(2);
        assert_eq!((recent.get(1), recent.get(2)), (None, None));
    }
}
