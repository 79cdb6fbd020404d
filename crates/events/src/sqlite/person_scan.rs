//! Reading persons: a row for each distinct id, by when it or its person changed, whichever was later.
//!
//! The keys of the next rows come first, in order and from indexes alone, and then each row by its key: so no statement
//! goes on for long, whatever the query asks of a row.

use rusqlite::{Connection, Row, Statement, params};

use super::pace::Pace;
use super::select::Select;
use crate::{Result, Scan};

/// How many keys are read at a time.
const KEYS: usize = 1_000;

pub(super) struct PersonScan<'a> {
    connection: &'a Connection,
    next_keys: Statement<'a>,
    by_key: Statement<'a>,
    /// How many parameters of the query come before those of a key.
    parameters: usize,
    end: i64,
    after: Key,
}

/// In the order of rows. Where a distinct id has a time of its own that is not after its person's, no row has that key.
struct Key {
    time: i64,
    person: Vec<u8>,
    distinct_id: String,
}

impl<'a> PersonScan<'a> {
    pub(super) fn new(connection: &'a Connection, scan: &Scan, select: &Select) -> Result<Self> {
        let mut by_key = connection.prepare(&select.person(scan.team))?;
        select.bind(&mut by_key)?;
        Ok(Self {
            connection,
            next_keys: connection.prepare(&next_keys(scan.team))?,
            by_key,
            parameters: select.parameters.len(),
            end: scan.end.timestamp_micros(),
            // Before every row of that time: ids of persons have bytes.
            after: Key {
                time: scan.start.map_or(i64::MIN, |start| start.timestamp_micros()),
                person: Vec::new(),
                distinct_id: String::new(),
            },
        })
    }

    /// Hands over rows until `take` has enough, or a while has passed. True: there are no more.
    pub(super) fn slice(&mut self, pace: &Pace, mut take: impl FnMut(&Row<'_>) -> Result<bool>) -> Result<bool> {
        // One transaction for all of the slice, because beginning one for each row takes longer than reading it.
        let _transaction = self.connection.unchecked_transaction()?;
        pace.begin();
        let keys = self.keys()?;
        let is_last = keys.len() < KEYS;
        for key in keys {
            self.after = key;
            let is_wanted = match self.row()?.next()? {
                Some(row) => take(row)?,
                None => true,
            };
            if !is_wanted || pace.is_over() {
                return Ok(false);
            }
        }
        Ok(is_last)
    }

    fn keys(&mut self) -> Result<Vec<Key>> {
        let Key {
            time,
            person,
            distinct_id,
        } = &self.after;
        let mut rows = self.next_keys.query(params![time, person, distinct_id, self.end])?;
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            keys.push(Key {
                time: row.get(0)?,
                person: row.get(1)?,
                distinct_id: row.get(2)?,
            });
        }
        Ok(keys)
    }

    /// The row of the key, if there is one and the query wants it.
    fn row(&mut self) -> Result<rusqlite::Rows<'_>> {
        self.by_key.raw_bind_parameter(self.parameters + 1, self.after.time)?;
        self.by_key
            .raw_bind_parameter(self.parameters + 2, &self.after.person)?;
        self.by_key
            .raw_bind_parameter(self.parameters + 3, &self.after.distinct_id)?;
        Ok(self.by_key.raw_query())
    }
}

/// Both parts come in order, so that nothing is sorted, and no more is read than is taken.
fn next_keys(team: i64) -> String {
    format!(
        "SELECT p.changed_at, p.person_id, d.distinct_id FROM person p \
         CROSS JOIN person_distinct_id d ON d.team_id = p.team_id AND d.person_id = p.person_id \
         WHERE p.team_id = {team} AND p.is_deleted = 0 AND (p.changed_at, p.person_id) >= (?1, ?2) AND p.changed_at < ?4 \
         AND (p.changed_at, p.person_id, d.distinct_id) > (?1, ?2, ?3) \
         UNION SELECT changed_at, person_id, distinct_id FROM person_distinct_id \
         WHERE team_id = {team} AND changed_at IS NOT NULL AND (changed_at, person_id, distinct_id) > (?1, ?2, ?3) \
         AND changed_at < ?4 ORDER BY 1, 2, 3 LIMIT {KEYS}"
    )
}

/// When the first row of a team changed.
pub(super) fn earliest(connection: &Connection, pace: &Pace, scan: &Scan) -> Result<Option<i64>> {
    let select = Select::new(&scan.query, scan.team);
    let mut persons = PersonScan::new(connection, scan, &select)?;
    let mut found = false;
    while !found {
        let is_end = persons.slice(pace, |_| {
            found = true;
            Ok(false)
        })?;
        if is_end {
            return Ok(None);
        }
    }
    Ok(Some(persons.after.time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::file;

    #[test]
    fn keys_are_found_without_sorting() -> Result<()> {
        let connection = Connection::open_in_memory()?;
        file::make_all(&connection)?;
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", next_keys(1)))?;
        let steps = plan.query_map(params![0, [0_u8; 0], "", 0], |row| row.get::<_, String>(3))?;
        let steps: Vec<String> = steps.collect::<rusqlite::Result<_>>()?;
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:?}");
        Ok(())
    }
}
