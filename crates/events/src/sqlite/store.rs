//! What the writer does to the file, inside its transaction.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, params};
use uuid::{ContextV7, Timestamp, Uuid};

use super::file;
use super::people::{Known, People};
use super::seen::Seen;
use crate::left_out::{self, Why};
use crate::persons::{self, Allowance, Effect, NO_PROPERTIES};
use crate::{Error, Hold, Incoming, Result, elements, most_bytes};

/// An event, ready to be written.
#[derive(Debug)]
pub(super) struct Ready {
    uuid: Option<Uuid>,
    event: String,
    distinct_id: String,
    properties: String,
    elements_chain: String,
    timestamp: i64,
    effect: Effect,
}

impl Ready {
    /// Done by the caller, so that the one writer has less to do. `index` is for the error.
    pub(super) fn from(mut event: Incoming, index: usize) -> Result<Self> {
        let effect = persons::effect(&event);
        let elements_chain = elements::take_chain(&mut event.properties);
        let properties = serde_json::to_string(&event.properties).expect("a map with text keys is JSON");
        if properties.len() + elements_chain.len() > most_bytes(&event.event) {
            return Err(Error::EventTooLarge(index));
        }
        Ok(Self {
            effect,
            elements_chain,
            properties,
            uuid: event.uuid,
            event: event.event,
            distinct_id: event.distinct_id,
            timestamp: event.timestamp.timestamp_micros(),
        })
    }

    fn bytes(&self) -> usize {
        self.event.len() + self.distinct_id.len() + self.properties.len() + self.elements_chain.len()
    }
}

/// What is asked of the writer.
#[derive(Debug)]
pub(super) enum Work {
    Append {
        team: i64,
        events: Vec<Ready>,
        now: i64,
        _hold: Hold,
    },
    Settle {
        until: i64,
    },
    Forget {
        team: i64,
    },
}

/// What the writer knows of the file without looking. Whenever another process wrote, or a transaction failed, it
/// starts again from nothing.
#[derive(Debug)]
pub(super) struct Memory {
    version: Option<i64>,
    tables: HashSet<i64>,
    people: People,
    seen: Seen,
    uuids: ContextV7,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            version: None,
            tables: HashSet::new(),
            people: People::default(),
            seen: Seen::default(),
            uuids: ContextV7::new(),
        }
    }
}

/// The file within one transaction.
pub(super) struct Store<'a> {
    connection: &'a Connection,
    memory: &'a mut Memory,
    floor: i64,
    /// How many bytes were written so far, about.
    pub(super) bytes: usize,
}

/// The time below which nothing is stored any more.
pub(super) fn floor(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT floor FROM clock")?
        .query_row([], |row| row.get(0))
}

impl<'a> Store<'a> {
    /// Within a transaction that holds the lock for writing: whatever it sees stays so until it ends.
    pub(super) fn open(connection: &'a Connection, memory: &'a mut Memory) -> rusqlite::Result<Self> {
        let version = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if memory.version != Some(version) {
            memory.version = Some(version);
            memory.tables.clear();
            memory.people = People::default();
            memory.seen.catch_up(connection)?;
        }
        let floor = floor(connection)?;
        Ok(Self {
            connection,
            memory,
            floor,
            bytes: 0,
        })
    }

    pub(super) fn apply(&mut self, work: &Work) -> rusqlite::Result<()> {
        match work {
            Work::Append { team, events, now, .. } => self.append(*team, events, *now),
            Work::Settle { until } => self.raise(*until),
            Work::Forget { team } => self.forget(*team),
        }
    }

    fn raise(&mut self, time: i64) -> rusqlite::Result<()> {
        if time > self.floor {
            self.floor = time;
            self.connection
                .prepare_cached("UPDATE clock SET floor = ?1")?
                .execute([time])?;
        }
        Ok(())
    }

    fn append(&mut self, team: i64, events: &[Ready], now: i64) -> rusqlite::Result<()> {
        self.raise(now)?;
        if self.memory.tables.insert(team) {
            file::make_table(self.connection, team)?;
        }
        let mut insert = self.connection.prepare_cached(&format!(
            "INSERT INTO {} (uuid, event, distinct_id, properties, elements_chain, timestamp, created_at, person_id, \
             person_properties, inserted_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            file::table(team)
        ))?;
        let mut new = Vec::new();
        let sent = events.iter().map(Ready::bytes).sum();
        let mut allowance = Allowance::new(sent);
        self.bytes += sent;
        for event in events {
            let uuid = match event.uuid {
                Some(uuid) if !self.memory.seen.is_new(team, uuid) => continue,
                Some(uuid) => {
                    new.extend_from_slice(uuid.as_bytes());
                    uuid
                }
                None => self.make_uuid(),
            };
            let (person, properties) = self.person(team, event, &mut allowance)?;
            insert.execute(params![
                uuid.as_bytes(),
                event.event,
                event.distinct_id,
                event.properties,
                event.elements_chain,
                event.timestamp,
                now,
                person.as_bytes(),
                properties,
                self.floor,
            ])?;
        }
        self.memory.seen.log(self.connection, team, &new)
    }

    /// The person of an event, and the properties it has after it.
    fn person(&mut self, team: i64, event: &Ready, allowance: &mut Allowance) -> rusqlite::Result<(Uuid, Arc<str>)> {
        let mut persons = Known {
            people: &mut self.memory.people,
            connection: self.connection,
            team,
            at: self.floor,
            timestamp: event.timestamp,
            touched: 0,
        };
        match &event.effect {
            Effect::Person(_) if allowance.is_spent() => {
                left_out::note(team, Why::TooMuchAtOnce);
                let id = persons.person_id_or_make(&event.distinct_id)?;
                Ok((id, NO_PROPERTIES.into()))
            }
            Effect::Person(change) => {
                let person = persons.change(&event.distinct_id, change)?;
                let bytes = persons.touched + person.properties.len();
                allowance.spend(bytes);
                self.bytes += bytes;
                Ok((person.id, person.properties))
            }
            Effect::None => {
                let known = persons.person_id(&event.distinct_id)?;
                let id = known.unwrap_or_else(|| persons::person_id(team, &event.distinct_id));
                Ok((id, NO_PROPERTIES.into()))
            }
        }
    }

    fn make_uuid(&self) -> Uuid {
        let micros = u64::try_from(self.floor).unwrap_or(0);
        let nanos = u32::try_from(micros % 1_000_000 * 1_000).expect("under a thousand million");
        Uuid::new_v7(Timestamp::from_unix(&self.memory.uuids, micros / 1_000_000, nanos))
    }

    fn forget(&mut self, team: i64) -> rusqlite::Result<()> {
        self.connection
            .execute_batch(&format!("DROP TABLE IF EXISTS {}", file::table(team)))?;
        for sql in [
            "DELETE FROM person WHERE team_id = ?1",
            "DELETE FROM person_distinct_id WHERE team_id = ?1",
            // The rows stay, because others read the log from where they left off.
            "UPDATE seen SET uuids = x'' WHERE team_id = ?1",
        ] {
            self.connection.execute(sql, [team])?;
        }
        *self.memory = Memory::default();
        Ok(())
    }
}
