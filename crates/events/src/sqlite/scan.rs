//! Reading. No read transaction is open while a batch waits to be taken: a slow reader would keep SQLite from ever
//! starting its log anew. Rows never change, so a scan of many short transactions sees the same as one of a long one.

use std::ops::Range;

use hogql::Model;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Statement};

use super::batch::Batch;
use super::file;
use super::select::Select;
use crate::rows::Portion;
use crate::{Result, Scan, Sender, Time};

/// How many rows one transaction looks at when most do not match.
const SLICE: i64 = 100_000;

/// Sends what a scan asks for, until it is all sent or nobody listens.
pub(super) fn run(connection: &Connection, scan: &Scan, portion: Portion, sender: &Sender) -> Result<()> {
    if scan.limit == Some(0) {
        return Ok(());
    }
    let mut output = Output {
        batch: Batch::new(&scan.query, portion),
        left: scan.limit.unwrap_or(usize::MAX),
        sender,
    };
    match scan.query.model {
        Model::Events => events(connection, scan, &mut output),
        Model::Persons => persons(connection, scan, &mut output),
    }
}

/// How many rows there are, without reading them where that can be.
pub(super) fn count(connection: &Connection, scan: &Scan) -> Result<u64> {
    let found = match scan.query.model {
        Model::Events => count_events(connection, scan)?,
        Model::Persons => count_persons(connection, scan)?,
    };
    let found = u64::try_from(found).unwrap_or(0);
    Ok(scan.limit.map_or(found, |limit| found.min(limit as u64)))
}

/// The first ingestion time, in microseconds.
pub(super) fn earliest(connection: &Connection, team: i64, model: Model) -> Result<Option<i64>> {
    match model {
        Model::Events if !file::has_table(connection, team)? => Ok(None),
        Model::Events => {
            let sql = format!("SELECT inserted_at FROM {} ORDER BY seq LIMIT 1", file::table(team));
            Ok(connection.query_row(&sql, [], |row| row.get(0)).optional()?)
        }
        Model::Persons => {
            let sql = "SELECT min(changed_at) FROM person_distinct_id WHERE team_id = ?1";
            Ok(connection.query_row(sql, [team], |row| row.get(0))?)
        }
    }
}

/// What was read and not yet sent.
struct Output<'a> {
    batch: Batch,
    left: usize,
    sender: &'a Sender,
}

impl Output<'_> {
    /// Whether there is no room for a row before something is sent.
    fn is_full(&self) -> bool {
        self.left == 0 || self.batch.is_full()
    }

    /// False: nothing more is wanted.
    fn send(&mut self) -> Result<bool> {
        if self.batch.is_empty() {
            return Ok(self.left > 0);
        }
        let is_taken = self.sender.blocking_send(Ok(self.batch.take()?)).is_ok();
        Ok(is_taken && self.left > 0)
    }
}

fn events(connection: &Connection, scan: &Scan, output: &mut Output<'_>) -> Result<()> {
    let Some(range) = range(connection, scan)? else {
        return Ok(());
    };
    let select = Select::new(&scan.query, scan.team, 1);
    let mut statement = connection.prepare(&select.events(scan.team))?;
    bind(&mut statement, &select.parameters)?;
    let mut next = range.start;
    while next < range.end {
        let until = range.end.min(next.saturating_add(SLICE));
        next = read_slice(&mut statement, &select, next..until, output)?;
        if output.sender.is_closed() || (output.is_full() && !output.send()?) {
            return Ok(());
        }
    }
    output.send().map(drop)
}

/// Reads until the slice ends or the batch is full, and says where to go on.
fn read_slice(
    statement: &mut Statement<'_>,
    select: &Select,
    slice: Range<i64>,
    output: &mut Output<'_>,
) -> Result<i64> {
    let own = select.parameters.len();
    statement.raw_bind_parameter(own + 1, slice.start)?;
    statement.raw_bind_parameter(own + 2, slice.end)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        output.batch.push(row, &select.places)?;
        output.left -= 1;
        if output.is_full() {
            return Ok(row.get::<_, i64>(0)? + 1);
        }
    }
    Ok(slice.end)
}

fn persons(connection: &Connection, scan: &Scan, output: &mut Output<'_>) -> Result<()> {
    let select = Select::new(&scan.query, scan.team, 2);
    let own = select.parameters.len();
    let mut statement = connection.prepare(&select.persons(scan.team))?;
    bind(&mut statement, &select.parameters)?;
    statement.raw_bind_parameter(own + 3, scan.end.timestamp_micros())?;
    let mut after = before_all(scan);
    loop {
        statement.raw_bind_parameter(own + 1, after.0)?;
        statement.raw_bind_parameter(own + 2, &after.1)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            output.batch.push(row, &select.places)?;
            output.left -= 1;
            if output.is_full() {
                after = (row.get(0)?, row.get(1)?);
                break;
            }
        }
        drop(rows);
        let is_last = !output.is_full();
        if !output.send()? || is_last {
            return Ok(());
        }
    }
}

/// The place before every row of a scan of persons: to SQLite, a blob comes after every text.
fn before_all(scan: &Scan) -> (i64, Value) {
    let start = scan.start.map_or(i64::MIN + 1, |start| start.timestamp_micros());
    (start - 1, Value::Blob(Vec::new()))
}

fn count_events(connection: &Connection, scan: &Scan) -> Result<i64> {
    let Some(range) = range(connection, scan)? else {
        return Ok(0);
    };
    let select = Select::new(&scan.query, scan.team, 1);
    if !select.has_filter() {
        return Ok(range.end - range.start);
    }
    let mut statement = connection.prepare(&format!("SELECT count(*) FROM ({})", select.events(scan.team)))?;
    bind(&mut statement, &select.parameters)?;
    let own = select.parameters.len();
    let (mut found, mut next) = (0, range.start);
    while next < range.end {
        let until = range.end.min(next.saturating_add(SLICE));
        statement.raw_bind_parameter(own + 1, next)?;
        statement.raw_bind_parameter(own + 2, until)?;
        found += counted(&mut statement)?;
        next = until;
    }
    Ok(found)
}

fn count_persons(connection: &Connection, scan: &Scan) -> Result<i64> {
    let select = Select::new(&scan.query, scan.team, 2);
    let own = select.parameters.len();
    let mut statement = connection.prepare(&format!("SELECT count(*) FROM ({})", select.persons(scan.team)))?;
    bind(&mut statement, &select.parameters)?;
    let (start, nothing) = before_all(scan);
    statement.raw_bind_parameter(own + 1, start)?;
    statement.raw_bind_parameter(own + 2, nothing)?;
    statement.raw_bind_parameter(own + 3, scan.end.timestamp_micros())?;
    counted(&mut statement)
}

fn counted(statement: &mut Statement<'_>) -> Result<i64> {
    let mut rows = statement.raw_query();
    let count = rows.next()?.map(|row| row.get(0)).transpose()?;
    Ok(count.unwrap_or(0))
}

fn bind(statement: &mut Statement<'_>, parameters: &[Value]) -> rusqlite::Result<()> {
    for (place, value) in parameters.iter().enumerate() {
        statement.raw_bind_parameter(place + 1, value)?;
    }
    Ok(())
}

/// The `seq` of the rows of an interval. None: the team has no events.
fn range(connection: &Connection, scan: &Scan) -> Result<Option<Range<i64>>> {
    if !file::has_table(connection, scan.team)? {
        return Ok(None);
    }
    let (first, end): (Option<i64>, Option<i64>) =
        connection.query_row(&bounds(scan.team), [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (Some(first), Some(end)) = (first, end) else {
        return Ok(None);
    };
    let start = match scan.start {
        Some(time) => first_at(connection, scan.team, first..end, time)?,
        None => first,
    };
    let end = first_at(connection, scan.team, start..end, scan.end)?;
    Ok(Some(start..end))
}

/// Two selects: SQLite goes straight to a minimum or a maximum, but reads the whole table for both in one.
fn bounds(team: i64) -> String {
    let table = file::table(team);
    format!("SELECT (SELECT min(seq) FROM {table}), (SELECT max(seq) + 1 FROM {table})")
}

/// The first `seq` whose ingestion time is not before `time`, by halving.
fn first_at(connection: &Connection, team: i64, range: Range<i64>, time: Time) -> Result<i64> {
    let sql = format!(
        "SELECT seq, inserted_at FROM {} WHERE seq >= ?1 ORDER BY seq LIMIT 1",
        file::table(team)
    );
    let mut find = connection.prepare(&sql)?;
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        let found: Option<(i64, i64)> = find
            .query_row([middle], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            Some((seq, inserted_at)) if inserted_at < time.timestamp_micros() => low = seq + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn the_bounds_of_a_large_table_are_found_without_reading_it() -> rusqlite::Result<()> {
        let connection = Connection::open_in_memory()?;
        file::make_table(&connection, 1)?;
        connection.execute_batch(
            "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 1000)
             INSERT INTO event_1 SELECT n, x'', '', '', '', '', 0, 0, x'', '', 0 FROM number",
        )?;
        let mut statement = connection.prepare(&bounds(1))?;
        let found: (i64, i64) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        assert_eq!(found, (1, 1001));
        assert_eq!(statement.get_status(StatementStatus::FullscanStep), 0);
        Ok(())
    }
}
