//! Who is next: those who wait for a writer take turns by organization, so that nobody waits for all that another one sent.

use std::collections::{HashMap, VecDeque};

/// Who takes a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Turn {
    Organization(u128),
    /// Where nobody said which organization it belongs to.
    Team(i64),
    /// Work that is nobody's.
    Own,
}

#[derive(Debug)]
pub(crate) struct Turns<T> {
    /// Who has something waiting, in the order of their turns.
    order: VecDeque<Turn>,
    waiting: HashMap<Turn, VecDeque<T>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }
}

impl<T> Turns<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn push(&mut self, turn: Turn, item: T) {
        let line = self.waiting.entry(turn).or_default();
        if line.is_empty() {
            self.order.push_back(turn);
        }
        line.push_back(item);
    }

    /// Puts back what was taken last, before all else of that turn.
    pub(crate) fn put_back(&mut self, turn: Turn, item: T) {
        let line = self.waiting.entry(turn).or_default();
        if line.is_empty() {
            self.order.push_front(turn);
        }
        line.push_front(item);
    }

    /// The next of those whose turn it is. What one of them sent stays in order.
    pub(crate) fn next(&mut self) -> Option<T> {
        let turn = self.order.pop_front()?;
        let line = self.waiting.get_mut(&turn)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&turn);
        } else {
            self.order.push_back(turn);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hold;

    #[test]
    fn everybody_takes_turns_and_each_keeps_its_order() {
        let mut turns = Turns::default();
        for (team, item) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (3, 'e'), (2, 'f')] {
            turns.push(Turn::Team(team), item);
        }
        let first = turns.next();
        assert_eq!(first, Some('a'));
        turns.put_back(Turn::Team(1), 'a');
        let order: String = std::iter::from_fn(|| turns.next()).collect();
        assert!(turns.is_empty());
        assert_eq!(order.len(), 6);
        assert!(order.find('d') < order.find('c'), "{order}");
        assert!(
            order.find('a') < order.find('b') && order.find('b') < order.find('c'),
            "{order}"
        );
    }

    #[test]
    fn all_teams_of_an_organization_share_one_turn() {
        let mut turns = Turns::default();
        for team in 1..100 {
            turns.push(Hold::default().in_turn_of(1).turn(team), "theirs");
        }
        turns.push(Hold::default().in_turn_of(2).turn(100), "mine");
        assert_eq!((turns.next(), turns.next()), (Some("theirs"), Some("mine")));
    }
}
