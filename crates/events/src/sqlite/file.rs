//! The file: how it is opened, and what is in it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, ffi};
use uuid::Uuid;

use super::checksum;
use super::interrupt::{Interrupt, failure};
use super::pace::Pace;
use super::place;
use crate::{MAX_ROW_BYTES, Result, scalars};

/// Passes on a column of a row, given its number, unless all so far are more than a row may have.
pub(super) const HELD: &str = "hedgerow_held";

/// Tells that a scan has come to an event, given its `seq`. Never false: it ends the statement when its time is over.
pub(super) const REACHED: &str = "hedgerow_reached";

/// The version of the tables below.
const VERSION: i64 = 5;

/// The tables of events come besides these: see [`event_table`].
///
/// `floor` is the time below which nothing is stored any more: the latest ingestion time given out, or the latest line
/// drawn, whichever is later. A distinct id changed when its person did, or at its own `changed_at` if that is later: a
/// change of a person is one of a single row, however many ids it has. Properties of persons that are long are kept in
/// `person_properties`, once for all events that carry them. `seen` is a log: nothing is ever looked up in it.
const TABLES: &str = "
    CREATE TABLE instance (id INTEGER PRIMARY KEY CHECK (id = 1), uuid BLOB NOT NULL) STRICT;
    CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), floor INTEGER NOT NULL) STRICT;
    INSERT INTO clock (id, floor) VALUES (1, -9223372036854775808);
    CREATE TABLE seen (seq INTEGER PRIMARY KEY, team_id INTEGER NOT NULL, uuids BLOB NOT NULL) STRICT;
    CREATE TABLE person (
        team_id INTEGER NOT NULL,
        person_id BLOB NOT NULL,
        properties TEXT NOT NULL,
        properties_id INTEGER,
        created_at INTEGER NOT NULL,
        version INTEGER NOT NULL,
        is_identified INTEGER NOT NULL,
        is_deleted INTEGER NOT NULL,
        changed_at INTEGER NOT NULL,
        PRIMARY KEY (team_id, person_id)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX person_changed ON person (team_id, changed_at, person_id) WHERE is_deleted = 0;
    CREATE TABLE person_properties (id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL, properties TEXT NOT NULL) STRICT;
    CREATE INDEX person_properties_team ON person_properties (team_id);
    CREATE TABLE person_distinct_id (
        team_id INTEGER NOT NULL,
        distinct_id TEXT NOT NULL,
        person_id BLOB NOT NULL,
        version INTEGER NOT NULL,
        changed_at INTEGER,
        PRIMARY KEY (team_id, distinct_id)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX person_distinct_id_changed
        ON person_distinct_id (team_id, changed_at, person_id, distinct_id) WHERE changed_at IS NOT NULL;
    CREATE INDEX person_distinct_id_person ON person_distinct_id (team_id, person_id, distinct_id);
";

/// How often, and how many times, a connection asks again for a lock that another process holds. Short and often: the
/// lock is free only for a moment between two transactions of a busy writer.
const ASK_AGAIN: Duration = Duration::from_micros(500);
const ASKED_ENOUGH: i32 = 120_000;

/// What SQLite cuts its log to when it starts it again. A longer one could not be started again.
pub(super) const LOG_BYTES: u64 = 128 << 20;

/// Opens the one connection of this process that writes, and makes the tables where there are none.
pub(super) fn open_to_write(path: &Path) -> Result<Connection> {
    create(path)?;
    let mut connection = Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_READ_WRITE))?;
    wait_for_locks(&connection)?;
    connection.set_prepared_statement_cache_capacity(256);
    connection.execute_batch("PRAGMA page_size = 16384")?;
    use_log(&connection)?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 2048; \
         PRAGMA journal_size_limit = {LOG_BYTES}; PRAGMA temp_store = MEMORY"
    ))?;
    make_tables(&mut connection)?;
    Ok(connection)
}

/// Makes an empty file that nobody else may read, if there is none. SQLite gives its own files beside it the same mode.
///
/// A file that is there is not opened: closing it would end all locks that this process has on it, as POSIX has it, and
/// another process would take it for unused and delete its log.
fn create(path: &Path) -> io::Result<()> {
    match OpenOptions::new().create_new(true).append(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a connection that only reads.
pub(super) fn open_to_read(path: &Path, interrupt: &Interrupt, pace: &Pace) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_READ_WRITE))?;
    wait_for_locks(&connection)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -4096")?;
    scalars::register(&connection, interrupt)?;
    checksum::register(&connection)?;
    let held = AtomicUsize::new(0);
    connection.create_scalar_function(HELD, 2, FunctionFlags::SQLITE_UTF8, move |context| {
        let bytes = match context.get_raw(0) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        if context.get::<i64>(1)? == 0 {
            held.store(0, Ordering::Relaxed);
        }
        if held.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_ROW_BYTES {
            return Err(failure(ffi::SQLITE_TOOBIG));
        }
        Ok(context.get_arg(0))
    })?;
    let pace = pace.clone();
    connection.create_scalar_function(REACHED, 1, FunctionFlags::SQLITE_UTF8, move |context| {
        pace.reach(context.get(0)?).map(|()| true)
    })?;
    let is_pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("uuid_text", 1, is_pure, |context| {
        Ok(match context.get_raw(0) {
            ValueRef::Blob(bytes) => Uuid::from_slice(bytes).ok().map(|uuid| uuid.to_string()),
            _ => None,
        })
    })?;
    Ok(connection)
}

/// A table of events: see [`place`].
///
/// Where `person_properties_id` is set, the properties of the person are those, and otherwise the ones in the row. The
/// table has no index but its key. Of each team, ingestion times never decrease with `seq`, and no row is ever changed or deleted, so an
/// interval is found by halving and counted by subtracting.
fn event_table(name: &str) -> String {
    format!(
        "CREATE TABLE {name} (
            seq INTEGER PRIMARY KEY,
            uuid BLOB NOT NULL,
            event TEXT NOT NULL,
            distinct_id TEXT NOT NULL,
            properties TEXT NOT NULL,
            elements_chain TEXT NOT NULL,
            timestamp INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            person_id BLOB NOT NULL,
            person_properties TEXT NOT NULL,
            person_properties_id INTEGER,
            inserted_at INTEGER NOT NULL,
            checksum INTEGER NOT NULL
        ) STRICT;"
    )
}

fn flags(access: OpenFlags) -> OpenFlags {
    access | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Has the connection ask again for as long as it takes.
pub(super) fn wait_for_locks(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(ask_again))
}

fn ask_again(times: i32) -> bool {
    // Only threads made for waiting come here: the writer's and those that read.
    std::thread::park_timeout(ASK_AGAIN);
    times < ASKED_ENOUGH
}

/// Switches to the write-ahead log. SQLite does not wait automatically when two processes do it at the same time.
fn use_log(connection: &Connection) -> rusqlite::Result<()> {
    let mut times = 0;
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Err(error) if is_busy(&error) && ask_again(times) => times += 1,
            answer => return answer.map(drop),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// All tables, in an empty file.
pub(super) fn make_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    let events: String = place::tables().map(|(_, name)| event_table(&name)).collect();
    connection.execute_batch(&events)
}

fn make_tables(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let unknown = |what: &'static str| Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
    if version > VERSION {
        return unknown("the file was written by a newer version of Hedgerow");
    }
    if (1..VERSION).contains(&version) {
        return unknown("the file was written by a pre-release version of Hedgerow");
    }
    if version < VERSION {
        make_all(&transaction)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}
