//! Who is next: those who wait for a writer take turns by team, so that no team waits for all that another one sent.

use std::collections::{HashMap, VecDeque};

#[derive(Debug)]
pub(crate) struct Turns<T> {
    /// Who has something waiting, in the order of their turns.
    teams: VecDeque<i64>,
    waiting: HashMap<i64, VecDeque<T>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            teams: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }
}

impl<T> Turns<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.teams.is_empty()
    }

    pub(crate) fn push(&mut self, team: i64, item: T) {
        let line = self.waiting.entry(team).or_default();
        if line.is_empty() {
            self.teams.push_back(team);
        }
        line.push_back(item);
    }

    /// Puts back what was taken last, before all else of its team.
    pub(crate) fn put_back(&mut self, team: i64, item: T) {
        let line = self.waiting.entry(team).or_default();
        if line.is_empty() {
            self.teams.push_front(team);
        }
        line.push_front(item);
    }

    /// The next of the team whose turn it is. What a team sent stays in order.
    pub(crate) fn next(&mut self) -> Option<(i64, T)> {
        let team = self.teams.pop_front()?;
        let line = self.waiting.get_mut(&team)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&team);
        } else {
            self.teams.push_back(team);
        }
        Some((team, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn teams_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::default();
        for (team, item) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (3, 'e'), (2, 'f')] {
            turns.push(team, item);
        }
        let first = turns.next();
        assert_eq!(first, Some((1, 'a')));
        turns.put_back(1, 'a');
        let order: String = std::iter::from_fn(|| turns.next()).map(|(_, item)| item).collect();
        assert!(turns.is_empty());
        assert_eq!(order.len(), 6);
        assert!(order.find('d') < order.find('c'), "{order}");
        assert!(
            order.find('a') < order.find('b') && order.find('b') < order.find('c'),
            "{order}"
        );
    }
}
