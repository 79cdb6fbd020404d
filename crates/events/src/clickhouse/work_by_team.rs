//! Whose work a group is.

use std::collections::{HashMap, HashSet};

use super::append::Append;

/// How many bytes of properties are as much work as an event beside them.
pub(super) const EVENT_BYTES: usize = 1 << 10;
/// If a group took long, that was because of teams with more work in it than this, and than one part in so many of all. Whoever sends
/// little is none of them: a group also takes long because ClickHouse is busy.
const MUCH_OF_GROUP: usize = 50 * EVENT_BYTES;
const PART_OF_GROUP: usize = 40;

/// How much work each team is in a group, in bytes of properties.
#[derive(Debug, Default)]
pub(super) struct WorkByTeam(HashMap<i64, usize>);

impl WorkByTeam {
    /// As far as it is known before anybody is looked up.
    pub(super) fn of(group: &[Append]) -> Self {
        let mut work = Self::default();
        for append in group {
            work.add(append.team, append.weight * EVENT_BYTES);
        }
        work
    }

    pub(super) fn add(&mut self, team: i64, bytes: usize) {
        *self.0.entry(team).or_default() += bytes;
    }

    /// The teams with so much of a group that it takes long because of them, if it does.
    pub(super) fn heaviest_teams(&self) -> HashSet<i64> {
        let total: usize = self.0.values().sum();
        let much = MUCH_OF_GROUP.max(total / PART_OF_GROUP);
        let heaviest = self.0.iter().filter(|(_, work)| **work >= much);
        heaviest.map(|(team, _)| *team).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heaviest_teams(work: impl IntoIterator<Item = (i64, usize)>) -> HashSet<i64> {
        let mut all = WorkByTeam::default();
        for (team, bytes) in work {
            all.add(team, bytes);
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
    fn few_events_that_carry_much_are_much() {
        assert_eq!(heaviest_teams([(1, EVENT_BYTES), (2, 8 << 20)]), HashSet::from([2]));
    }
}
