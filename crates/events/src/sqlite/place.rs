//! Where the events of a team are.

use std::ops::Range;

/// The tables of events, which are created with the file: each one that came later would make every connection read the schema again, and a
/// schema of thousands of tables takes seconds.
const TABLES: i64 = 128;
/// A team has the `seq` of so many events in its table.
const EVENTS: i64 = 1 << 40;

/// The table of a team, and the part of it that is the team's. While there are fewer teams than tables, each has one to itself.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) table: String,
    pub(super) numbers: Range<i64>,
}

impl Place {
    pub(super) fn of(team: i64) -> Self {
        let first = team.div_euclid(TABLES).saturating_mul(EVENTS);
        Self {
            table: table(team.rem_euclid(TABLES)),
            numbers: first..first.saturating_add(EVENTS),
        }
    }

    /// A condition for the rows of the team.
    pub(super) fn condition(&self) -> String {
        let Range { start, end } = self.numbers;
        format!("seq >= {start} AND seq < {end}")
    }
}

/// All tables of events, with their numbers.
pub(super) fn tables() -> impl Iterator<Item = (i64, String)> {
    (0..TABLES).map(|number| (number, table(number)))
}

/// The team of the last row of a table.
pub(super) fn team(table: i64, last: i64) -> i64 {
    last / EVENTS * TABLES + table
}

fn table(number: i64) -> String {
    format!("event_{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn teams_have_parts_of_tables_that_do_not_overlap() {
        let [first, other, same] = [1, 2, 129].map(Place::of);
        assert_eq!(first.table, "event_1");
        assert_eq!(first.numbers.start, 0);
        assert_ne!(first.table, other.table);
        assert_eq!(first.table, same.table);
        assert_eq!(first.numbers.end, same.numbers.start);
        assert_eq!(
            [1, 129].map(|number| team(1, Place::of(number).numbers.start + 1)),
            [1, 129]
        );
    }
}
