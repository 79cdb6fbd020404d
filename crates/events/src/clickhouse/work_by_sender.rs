//! Whose work a group is.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::append::Append;
use crate::persons::Sender;

/// How many bytes of properties are as much work as an event beside them.
pub(super) const EVENT_BYTES: usize = 1 << 10;
/// If a group took long, that was because of teams with more work in it than this, and than one part in so many of all. Whoever sends
/// little is none of them: a group also takes long because ClickHouse is busy.
const MUCH_OF_GROUP: usize = 50 * EVENT_BYTES;
const PART_OF_GROUP: usize = 40;

/// How much work each sender is in a group, in bytes of properties.
#[derive(Debug, Default)]
pub(super) struct WorkBySender(HashMap<Sender, usize>);

impl WorkBySender {
    /// As far as it is known before anybody is looked up.
    pub(super) fn of(group: &[Append]) -> Self {
        let mut work = Self::default();
        for append in group {
            work.add(append.sender(), append.weight * EVENT_BYTES);
        }
        work
    }

    pub(super) fn add(&mut self, sender: Sender, bytes: usize) {
        *self.0.entry(sender).or_default() += bytes;
    }

    /// The teams with so much of a group that it takes long because of them, if it does.
    pub(super) fn heaviest_teams(&self) -> HashSet<i64> {
        let mut teams: HashMap<i64, usize> = HashMap::new();
        for ((team, _), work) in &self.0 {
            *teams.entry(*team).or_default() += work;
        }
        heaviest(&teams)
    }

    /// The same of those who send for them.
    pub(super) fn heaviest_senders(&self) -> HashSet<Sender> {
        heaviest(&self.0)
    }
}

fn heaviest<K: Copy + Eq + Hash>(work: &HashMap<K, usize>) -> HashSet<K> {
    let much = MUCH_OF_GROUP.max(work.values().sum::<usize>() / PART_OF_GROUP);
    let heaviest = work.iter().filter(|(_, work)| **work >= much);
    heaviest.map(|(key, _)| *key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair_queue::Source;

    fn heaviest_teams(work: impl IntoIterator<Item = (i64, usize)>) -> HashSet<i64> {
        let mut all = WorkBySender::default();
        for (team, bytes) in work {
            all.add((team, Source::Inside), bytes);
        }
        all.heaviest_teams()
    }

    #[test]
    fn a_group_takes_long_because_of_all_who_have_some_of_it() {
        let some = (1..=10).map(|team| (team, 245 * EVENT_BYTES));
        let group = some.chain([(11, EVENT_BYTES), (12, 20 * EVENT_BYTES)]);
        assert_eq!(heaviest_teams(group), (1..=10).collect::<HashSet<i64>>());
        let much = (1, 10_000 * EVENT_BYTES);
        assert_eq!(heaviest_teams([much, (2, 200 * EVENT_BYTES)]), HashSet::from([1]));
    }

    #[test]
    fn it_does_not_because_of_those_who_sent_little() {
        assert!(heaviest_teams([(1, 20 * EVENT_BYTES)]).is_empty());
        assert!(heaviest_teams((1..100).map(|team| (team, EVENT_BYTES))).is_empty());
    }

    #[test]
    fn it_does_not_because_of_others_who_send_for_the_team() {
        let stranger = (1, Source::Subnet([127, 0, 0, 9].into()));
        let mut work = WorkBySender::default();
        work.add((1, Source::Inside), EVENT_BYTES);
        work.add(stranger, 2_440 * EVENT_BYTES);
        assert_eq!(work.heaviest_teams(), HashSet::from([1]));
        assert_eq!(work.heaviest_senders(), HashSet::from([stranger]));
    }

    #[test]
    fn few_events_that_carry_much_are_much() {
        assert_eq!(heaviest_teams([(1, EVENT_BYTES), (2, 8 << 20)]), HashSet::from([2]));
    }
}
