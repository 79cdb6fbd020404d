//! Which events were stored already: a program that repeats a batch after a time-out must not store it twice.
//!
//! The ids that senders gave are written to a log, a blob for each batch, and kept in memory as fingerprints. A table
//! with the ids as its key would say the same, but ids are random: every transaction would write most of its pages
//! again. The log is the truth: it is read at the start, and whenever another process wrote.

use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::recent_uuids::Remembered;

#[derive(Debug, Default)]
pub(super) struct Seen {
    ids: Remembered,
    read_to: i64,
}

impl Seen {
    /// Forgets at least so many ids of a team, and removes them from the log. False: there were none. The log may be long
    /// and has no index, so its rows are found by the numbers that are remembered.
    pub(super) fn forget_some(&mut self, connection: &Connection, team: i64, least: usize) -> rusqlite::Result<bool> {
        let forgotten = self.ids.forget_some(team, least);
        self.cut(connection, &forgotten)?;
        if forgotten.contains(&self.read_to) {
            let mut empty = connection.prepare_cached("UPDATE seen SET uuids = x'' WHERE seq = ?1")?;
            empty.execute([self.read_to])?;
        }
        Ok(!forgotten.is_empty())
    }

    /// Reads what other processes, or this one before it started, wrote to the log.
    pub(super) fn catch_up(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut log = connection.prepare_cached("SELECT seq, team_id, uuids FROM seen WHERE seq > ?1 ORDER BY seq")?;
        let mut rows = log.query([self.read_to])?;
        let mut forgotten = Vec::new();
        while let Some(row) = rows.next()? {
            let (seq, team) = (row.get(0)?, row.get(1)?);
            for bytes in row.get_ref(2)?.as_blob()?.chunks_exact(16) {
                self.ids
                    .insert(team, Uuid::from_slice(bytes).expect("a chunk has 16 bytes"));
            }
            self.read_to = seq;
            forgotten.append(&mut self.ids.end_batch(team, seq));
        }
        drop(rows);
        self.cut(connection, &forgotten)
    }

    /// Remembers an id. False: it was remembered already.
    pub(super) fn is_new(&mut self, team: i64, uuid: Uuid) -> bool {
        self.ids.insert(team, uuid)
    }

    /// Writes the ids of a batch, 16 bytes each, to the log, and removes from it what is no longer remembered.
    pub(super) fn log(&mut self, connection: &Connection, team: i64, uuids: &[u8]) -> rusqlite::Result<()> {
        if uuids.is_empty() {
            return Ok(());
        }
        let mut insert = connection.prepare_cached("INSERT INTO seen (team_id, uuids) VALUES (?1, ?2)")?;
        let seq = insert.insert(params![team, uuids])?;
        self.read_to = seq;
        let forgotten = self.ids.end_batch(team, seq);
        self.cut(connection, &forgotten)
    }

    fn cut(&self, connection: &Connection, forgotten: &[i64]) -> rusqlite::Result<()> {
        let mut delete = connection.prepare_cached("DELETE FROM seen WHERE seq = ?1")?;
        // The newest stays: its number must not be given out again, because others read on from it.
        for seq in forgotten.iter().filter(|&&seq| seq != self.read_to) {
            delete.execute([seq])?;
        }
        Ok(())
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
            ids: Remembered::with_room_for(20),
            read_to: 0,
        }
    }

    fn store(seen: &mut Seen, log: &Connection, team: i64, uuid: u128) -> bool {
        let is_new = seen.is_new(team, Uuid::from_u128(uuid));
        let bytes = if is_new {
            uuid.to_be_bytes().to_vec()
        } else {
            Vec::new()
        };
        seen.log(log, team, &bytes).unwrap();
        is_new
    }

    fn rows(log: &Connection) -> i64 {
        log.query_row("SELECT count(*) FROM seen", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn what_was_stored_lately_is_remembered_and_the_log_stays_short() {
        let (log, mut seen) = (
            log(),
            Seen {
                ids: Remembered::with_room_for(2_000),
                read_to: 0,
            },
        );
        for uuid in 0..10_000 {
            assert!(store(&mut seen, &log, 1, uuid));
            for lately in uuid.saturating_sub(9)..=uuid {
                assert!(!store(&mut seen, &log, 1, lately), "{lately} after {uuid}");
            }
        }
        assert!(rows(&log) <= 2_000, "{}", rows(&log));
    }

    #[test]
    fn the_log_keeps_the_ids_of_a_team_that_sends_little() {
        let (log, mut seen) = (log(), small());
        assert!((0..5).all(|uuid| store(&mut seen, &log, 1, uuid)));
        assert!((0..1_000).all(|uuid| store(&mut seen, &log, 2, uuid)));
        assert!(rows(&log) <= 20, "{}", rows(&log));
        let mut other = small();
        other.catch_up(&log).unwrap();
        for seen in [&mut seen, &mut other] {
            assert!(
                (0..5).all(|uuid| !store(seen, &log, 1, uuid)),
                "repeated by the first team"
            );
        }
    }

    #[test]
    fn what_another_wrote_is_known_after_catching_up() {
        let (log, mut mine, mut other) = (log(), small(), small());
        for uuid in 0..20 {
            assert!(store(&mut other, &log, 1, uuid));
        }
        mine.catch_up(&log).unwrap();
        assert!((10..20).all(|uuid| !store(&mut mine, &log, 1, uuid)));
        assert!(store(&mut mine, &log, 1, 100));
        other.catch_up(&log).unwrap();
        assert!(!store(&mut other, &log, 1, 100));
    }
}
