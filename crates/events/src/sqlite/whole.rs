//! The file as a whole: whose it is, copies of it, and whether it is sound.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use super::{file, place};
use crate::{Error, Result};

/// What looking through the file may take at a start. Beyond it, the file counts as sound.
const MAX_CHECK: Duration = Duration::from_secs(3);
/// After how many steps of SQLite's machine the time is looked at.
const STEPS: i32 = 10_000;

pub(super) fn claim(path: &Path, instance: Uuid) -> Result<Uuid> {
    let connection = file::open_to_write(path)?;
    connection.execute(
        "INSERT INTO instance (id, uuid) VALUES (1, ?1) ON CONFLICT DO NOTHING",
        [instance.as_bytes()],
    )?;
    let uuid = connection.query_row("SELECT uuid FROM instance", [], |row| row.get::<_, [u8; 16]>(0))?;
    Ok(Uuid::from_bytes(uuid))
}

/// Whatever is stored for a team has its number in one of these.
pub(super) fn highest_team(connection: &Connection) -> Result<i64> {
    let sql = "SELECT max(
        (SELECT coalesce(max(team_id), 0) FROM person),
        (SELECT coalesce(max(team_id), 0) FROM person_distinct_id),
        (SELECT coalesce(max(team_id), 0) FROM person_properties))";
    let mut highest: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    for (number, table) in place::tables() {
        let sql = format!("SELECT max(seq) FROM {table}");
        let last: Option<i64> = connection.query_row(&sql, [], |row| row.get(0))?;
        highest = highest.max(last.map_or(0, |last| place::team(number, last)));
    }
    Ok(highest)
}

/// Copies a store as it is at one moment, while others read and write it, to a file that is not there yet.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let connection = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    Ok(())
}

/// Looks through all of a store, and counts its events.
pub fn check(path: &Path) -> Result<i64> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    said_ok(connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?)?;
    let counts = place::tables().map(|(_, table)| {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0))
    });
    Ok(counts.sum::<rusqlite::Result<_>>()?)
}

/// Looks for damage, for as long as a start may take.
pub(super) fn check_quickly(path: &Path) -> Result<()> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let began = Instant::now();
    connection.progress_handler(STEPS, Some(move || began.elapsed() > MAX_CHECK))?;
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match found.map_err(Error::from) {
        // Interrupted: so far nothing was found.
        Err(Error::Stopped) => Ok(()),
        found => said_ok(found?),
    }
}

fn said_ok(found: String) -> Result<()> {
    if found == "ok" {
        Ok(())
    } else {
        Err(Error::Damaged(found))
    }
}
