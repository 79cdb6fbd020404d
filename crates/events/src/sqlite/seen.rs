//! Which events were stored already: a program that repeats a batch after a time-out must not store it twice.
//!
//! The ids that senders gave are written to a log, a blob for each batch, and kept in memory as fingerprints. A table
//! with the ids as its key would say the same, but ids are random: every transaction would write most of its pages
//! again. The log is the truth: it is read at the start, and whenever another process wrote.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use rusqlite::{Connection, params};
use uuid::Uuid;

/// How many ids one of the two generations holds: between one and two million are remembered, in 40 MB at most.
const GENERATION: usize = 1_000_000;

#[derive(Debug)]
pub(super) struct Seen {
    /// Senders cannot make two ids that look the same here, because the key is random.
    key: RandomState,
    young: HashSet<u64, BuildHasherDefault<Itself>>,
    old: HashSet<u64, BuildHasherDefault<Itself>>,
    young_from: i64,
    old_from: i64,
    read_to: i64,
    generation: usize,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            key: RandomState::new(),
            young: HashSet::default(),
            old: HashSet::default(),
            young_from: 0,
            old_from: 0,
            read_to: 0,
            generation: GENERATION,
        }
    }
}

impl Seen {
    /// Reads what other processes, or this one before it started, wrote to the log.
    pub(super) fn catch_up(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut log = connection.prepare_cached("SELECT seq, team_id, uuids FROM seen WHERE seq > ?1 ORDER BY seq")?;
        let mut rows = log.query([self.read_to])?;
        while let Some(row) = rows.next()? {
            let (seq, team) = (row.get(0)?, row.get(1)?);
            for bytes in row.get_ref(2)?.as_blob()?.chunks_exact(16) {
                self.is_new(team, Uuid::from_slice(bytes).expect("a chunk has 16 bytes"));
            }
            self.finish_batch(seq);
        }
        Ok(())
    }

    /// Remembers an id. False: it was remembered already.
    pub(super) fn is_new(&mut self, team: i64, uuid: Uuid) -> bool {
        let fingerprint = self.key.hash_one((team, uuid));
        !self.old.contains(&fingerprint) && self.young.insert(fingerprint)
    }

    /// Writes the ids of a batch, 16 bytes each, to the log, and cuts off the end that is too old.
    pub(super) fn log(&mut self, connection: &Connection, team: i64, uuids: &[u8]) -> rusqlite::Result<()> {
        if uuids.is_empty() {
            return Ok(());
        }
        let mut insert = connection.prepare_cached("INSERT INTO seen (team_id, uuids) VALUES (?1, ?2)")?;
        let seq = insert.insert(params![team, uuids])?;
        if self.finish_batch(seq) {
            connection.execute("DELETE FROM seen WHERE seq < ?1", [self.old_from])?;
        }
        Ok(())
    }

    /// True: a generation was dropped.
    fn finish_batch(&mut self, seq: i64) -> bool {
        self.read_to = seq;
        let is_full = self.young.len() >= self.generation;
        if is_full {
            self.old = std::mem::take(&mut self.young);
            self.old_from = self.young_from;
            self.young_from = seq + 1;
        }
        is_full
    }
}

/// A fingerprint is a hash already.
#[derive(Debug, Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only fingerprints are hashed")
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE seen (seq INTEGER PRIMARY KEY, team_id INTEGER NOT NULL, uuids BLOB NOT NULL)")
            .unwrap();
        connection
    }

    fn small() -> Seen {
        Seen {
            generation: 10,
            ..Seen::default()
        }
    }

    fn store(seen: &mut Seen, log: &Connection, uuid: u128) -> bool {
        let is_new = seen.is_new(1, Uuid::from_u128(uuid));
        let bytes = if is_new {
            uuid.to_be_bytes().to_vec()
        } else {
            Vec::new()
        };
        seen.log(log, 1, &bytes).unwrap();
        is_new
    }

    #[test]
    fn the_last_generation_is_remembered_and_the_log_stays_short() {
        let (log, mut seen) = (log(), small());
        for uuid in 0..100 {
            assert!(store(&mut seen, &log, uuid));
            for lately in uuid.saturating_sub(9)..=uuid {
                assert!(!store(&mut seen, &log, lately), "{lately} after {uuid}");
            }
        }
        let rows: i64 = log
            .query_row("SELECT count(*) FROM seen", [], |row| row.get(0))
            .unwrap();
        assert!(rows <= 20, "{rows}");
    }

    #[test]
    fn what_another_wrote_is_known_after_catching_up() {
        let (log, mut mine, mut other) = (log(), small(), small());
        for uuid in 0..35 {
            assert!(store(&mut other, &log, uuid));
        }
        mine.catch_up(&log).unwrap();
        assert!((25..35).all(|uuid| !store(&mut mine, &log, uuid)));
        assert!(store(&mut mine, &log, 100));
        other.catch_up(&log).unwrap();
        assert!(!store(&mut other, &log, 100));
    }

    #[test]
    fn an_id_of_one_team_is_new_to_another() {
        let mut seen = small();
        assert!(seen.is_new(1, Uuid::from_u128(7)));
        assert!(seen.is_new(2, Uuid::from_u128(7)));
        assert!(!seen.is_new(1, Uuid::from_u128(7)));
    }
}
