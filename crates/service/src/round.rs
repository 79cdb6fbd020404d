//! Lines of several who take turns, so that nobody waits for all that another one wants.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Those who wait, one after the other.
pub trait Queue {
    type Item;

    fn pop(&mut self) -> Option<Self::Item>;

    /// Whether nobody is left.
    fn is_over(&self) -> bool;
}

impl<T> Queue for VecDeque<T> {
    type Item = T;

    fn pop(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn is_over(&self) -> bool {
        self.is_empty()
    }
}

/// A queue of each, of which the next one is taken in turn.
#[derive(Debug)]
pub struct Round<K, Q> {
    order: VecDeque<K>,
    queues: HashMap<K, Q>,
}

impl<K, Q> Default for Round<K, Q> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            queues: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash + Copy, Q: Queue + Default> Round<K, Q> {
    /// The queue of one, to put something in.
    pub fn of(&mut self, key: K) -> &mut Q {
        let order = &mut self.order;
        self.queues.entry(key).or_insert_with(|| {
            order.push_back(key);
            Q::default()
        })
    }

    /// The queue of one, if it has any.
    pub fn get(&self, key: K) -> Option<&Q> {
        self.queues.get(&key)
    }

    /// All that have any.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.order.iter()
    }

    /// The queues of all that have any.
    pub fn queues(&self) -> impl Iterator<Item = &Q> {
        self.queues.values()
    }

    /// The next of one of them, out of turn.
    pub fn pop_of(&mut self, key: K) -> Option<Q::Item> {
        let queue = self.queues.get_mut(&key)?;
        let item = queue.pop();
        if queue.is_over() {
            self.queues.remove(&key);
            self.order.retain(|other| *other != key);
        }
        item
    }
}

impl<K: Eq + Hash + Copy, Q: Queue> Queue for Round<K, Q> {
    type Item = Q::Item;

    fn pop(&mut self) -> Option<Q::Item> {
        let key = self.order.pop_front()?;
        let queue = self.queues.get_mut(&key)?;
        let item = queue.pop();
        if queue.is_over() {
            self.queues.remove(&key);
        } else {
            self.order.push_back(key);
        }
        item
    }

    fn is_over(&self) -> bool {
        self.order.is_empty()
    }
}
