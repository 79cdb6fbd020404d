//! Reading. No read transaction is open while a batch waits to be taken: a slow reader would keep SQLite from ever
//! starting its log again, and none goes on for long: what a row costs is up to the query. Events never change, and persons that
//! change come later, so a scan of many short transactions sees the same as one of a long one.

#[cfg(test)]
mod tests;

use std::ops::Range;

use hogql::{Column, Model, Query};
use rusqlite::{Connection, OptionalExtension, Row, Statement};

use super::batch::Batch;
use super::pace::Pace;
use super::person_scan::{self, PersonScan};
use super::place::Place;
use super::readers::Reader;
use super::select::Select;
use crate::rows::Portion;
use crate::{Result, Scan, Sender, Time};

/// How many rows one transaction looks at when most do not match. It ends earlier if they take long, see [`Pace`].
const SLICE: i64 = 100_000;

/// Sends what a scan asks for, until it is all sent or nobody listens.
pub(super) fn run(reader: &Reader, scan: &Scan, portion: Portion, sender: &Sender) -> Result<()> {
    if scan.limit == Some(0) {
        return Ok(());
    }
    let mut output = Output {
        batch: Batch::new(&scan.query, portion),
        left: scan.limit.unwrap_or(usize::MAX),
        sender,
    };
    match scan.query.model {
        Model::Events => events(reader, scan, &mut output),
        Model::Persons => persons(reader, scan, &mut output),
    }
}

/// How many rows there are, without reading them where that can be.
pub(super) fn count(reader: &Reader, scan: &Scan) -> Result<u64> {
    let found = match scan.query.model {
        Model::Events => count_events(reader, scan)?,
        Model::Persons => count_persons(reader, scan)?,
    };
    Ok(scan.limit.map_or(found, |limit| found.min(limit as u64)))
}

/// The first ingestion time, in microseconds.
pub(super) fn earliest(reader: &Reader, team: i64, model: Model) -> Result<Option<i64>> {
    let connection = &reader.connection;
    match model {
        Model::Events => {
            let place = Place::of(team);
            let (table, condition) = (&place.table, place.condition());
            let sql = format!("SELECT inserted_at FROM {table} WHERE {condition} ORDER BY seq LIMIT 1");
            Ok(connection.query_row(&sql, [], |row| row.get(0)).optional()?)
        }
        Model::Persons => {
            let all = Scan {
                team,
                query: Query::of(Model::Persons, &[Column::DistinctId]),
                start: None,
                end: Time::MAX_UTC,
                skip: 0,
                limit: None,
            };
            person_scan::earliest(connection, &reader.pace, &all)
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

fn events(reader: &Reader, scan: &Scan, output: &mut Output<'_>) -> Result<()> {
    let Some(range) = range(&reader.connection, scan)? else {
        return Ok(());
    };
    let select = Select::new(&scan.query, scan.team);
    let mut slices = Slices::new(reader, &select, &select.events(scan.team), range)?;
    while !slices.are_read() {
        slices.read(|row| {
            if !output.batch.has_room(row, &select.places)? {
                return Ok(Next::Again);
            }
            output.batch.push(row, &select.places)?;
            output.left -= 1;
            Ok(if output.is_full() { Next::Enough } else { Next::More })
        })?;
        if output.sender.is_closed() || (output.is_full() && !output.send()?) {
            return Ok(());
        }
    }
    output.send().map(drop)
}

/// What comes after a row.
enum Next {
    More,
    Enough,
    /// The same row, as it was not taken.
    Again,
}

/// A statement about events, carried out in one short transaction after the other.
struct Slices<'a> {
    statement: Statement<'a>,
    pace: &'a Pace,
    /// How many parameters of the query come before those of a slice.
    parameters: usize,
    left: Range<i64>,
}

impl<'a> Slices<'a> {
    fn new(reader: &'a Reader, select: &Select, sql: &str, range: Range<i64>) -> Result<Self> {
        let mut statement = reader.connection.prepare(sql)?;
        select.bind(&mut statement)?;
        Ok(Self {
            statement,
            pace: &reader.pace,
            parameters: select.parameters.len(),
            left: range,
        })
    }

    fn are_read(&self) -> bool {
        self.left.is_empty()
    }

    /// Hands over rows until the slice ends, a while has passed, or `take` has enough.
    fn read(&mut self, mut take: impl FnMut(&Row<'_>) -> Result<Next>) -> Result<()> {
        let until = self.left.end.min(self.left.start.saturating_add(SLICE));
        self.statement
            .raw_bind_parameter(self.parameters + 1, self.left.start)?;
        self.statement.raw_bind_parameter(self.parameters + 2, until)?;
        self.pace.begin();
        let mut rows = self.statement.raw_query();
        self.left.start = loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let this: i64 = row.get(0)?;
                    match take(row)? {
                        Next::Again => break this,
                        Next::More if !self.pace.is_over() => {}
                        Next::More | Next::Enough => break this + 1,
                    }
                }
                Ok(None) => break until,
                Err(error) => break self.pace.cut_before().ok_or(error)?,
            }
        };
        Ok(())
    }
}

fn persons(reader: &Reader, scan: &Scan, output: &mut Output<'_>) -> Result<()> {
    debug_assert_eq!(scan.skip, 0, "persons are not numbered");
    let select = Select::new(&scan.query, scan.team);
    let mut persons = PersonScan::new(&reader.connection, scan, &select)?;
    loop {
        let is_end = persons.slice(&reader.pace, |row| {
            output.batch.push(row, &select.places)?;
            output.left -= 1;
            Ok(!output.is_full())
        })?;
        if is_end {
            return output.send().map(drop);
        }
        if output.sender.is_closed() || (output.is_full() && !output.send()?) {
            return Ok(());
        }
    }
}

fn count_events(reader: &Reader, scan: &Scan) -> Result<u64> {
    let Some(range) = range(&reader.connection, scan)? else {
        return Ok(0);
    };
    let select = Select::new(&scan.query, scan.team);
    if !select.has_filter() {
        return Ok(u64::try_from(range.end - range.start).unwrap_or(0));
    }
    let mut slices = Slices::new(reader, &select, &select.event_numbers(scan.team), range)?;
    let mut found = 0;
    while !slices.are_read() {
        slices.read(|_| {
            found += 1;
            Ok(Next::More)
        })?;
    }
    Ok(found)
}

fn count_persons(reader: &Reader, scan: &Scan) -> Result<u64> {
    let nothing = Query {
        fields: Vec::new(),
        ..scan.query.clone()
    };
    let select = Select::new(&nothing, scan.team);
    let mut persons = PersonScan::new(&reader.connection, scan, &select)?;
    let mut found = 0;
    while !persons.slice(&reader.pace, |_| {
        found += 1;
        Ok(true)
    })? {}
    Ok(found)
}

/// The `seq` of the rows of an interval. None: the team has no events.
fn range(connection: &Connection, scan: &Scan) -> Result<Option<Range<i64>>> {
    let place = Place::of(scan.team);
    let Some(all) = bounds(connection, &place)? else {
        return Ok(None);
    };
    let start = match scan.start {
        Some(time) => first_at(connection, &place, all.clone(), time)?,
        None => all.start,
    };
    let end = first_at(connection, &place, start..all.end, scan.end)?;
    // No event is deleted but with all others of its team, so they are numbered without a gap.
    let start = start
        .saturating_add(i64::try_from(scan.skip).unwrap_or(i64::MAX))
        .min(end);
    Ok(Some(start..end))
}

/// The `seq` of all events of a team.
fn bounds(connection: &Connection, place: &Place) -> rusqlite::Result<Option<Range<i64>>> {
    let end = |order: &str| -> rusqlite::Result<Option<i64>> {
        let mut find = connection.prepare(&bound(place, order))?;
        find.query_row([], |row| row.get(0)).optional()
    };
    Ok(end("ASC")?.zip(end("DESC")?).map(|(first, last)| first..last + 1))
}

/// SQLite goes straight to it.
fn bound(place: &Place, order: &str) -> String {
    let (table, condition) = (&place.table, place.condition());
    format!("SELECT seq FROM {table} WHERE {condition} ORDER BY seq {order} LIMIT 1")
}

/// The first `seq` whose ingestion time is not before `time`, by halving.
fn first_at(connection: &Connection, place: &Place, range: Range<i64>, time: Time) -> Result<i64> {
    let sql = format!(
        "SELECT seq, inserted_at FROM {} WHERE seq >= ?1 ORDER BY seq LIMIT 1",
        place.table
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
