//! What the writer does to the file, inside its transaction.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use uuid::{ContextV7, Timestamp, Uuid};

use super::carried::Carried;
use super::checksum::{self, checksum};
use super::people::{People, TeamPersons};
use super::place::Place;
use super::seen::Seen;
use crate::dropped_updates::{self, Why};
use crate::incoming::most_bytes;
use crate::persons::{self, Allowance, Budgets, Effect, Sender};
use crate::{Error, Hold, Incoming, Result, elements};

/// A batch is stored in parts of so many events, or of so many bytes if that is less: others come in between. Most batches are
/// one. What a part may do to persons is limited as well: see [`Allowance`].
pub(super) const PART: usize = 500;
const PART_BYTES: usize = 256 * 1024;
/// A transaction ends after this if others wait for it, and otherwise after a few times as long: long ones write a page once for
/// many persons. How long new persons and ids take, only writing them tells.
const LONG: Duration = Duration::from_millis(50);
const LONG_ALONE: Duration = Duration::from_millis(250);
/// Whoever comes in the meantime is still part of it for so long, as the wait for the disk is most of what a small one takes.
const JOIN_WINDOW: Duration = Duration::from_millis(2);
/// It also ends when it has written so many bytes.
const FULL_AT_BYTES: usize = 32 << 20;
/// How long deleting a team goes on in one transaction, about, and with how many statements at most.
const FORGETTING: Duration = Duration::from_millis(100);
const FORGETTING_STATEMENTS: usize = 40;
/// How many rows one of them deletes.
const FORGOTTEN_AT_A_TIME: usize = 50;

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
    fn from(mut event: Incoming, index: usize) -> Result<Self> {
        // Before anything is made of it.
        if event.is_too_large() {
            return Err(Error::EventTooLarge(index));
        }
        let effect = persons::effect(&event);
        let elements_chain = elements::take_chain(&mut event.properties);
        let properties = serde_json::to_string(&event.properties).expect("a map with text keys is JSON");
        // A chain may be longer than the list that it was made of.
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

    /// In parts that are stored one after the other.
    pub(super) fn in_parts(events: Vec<Incoming>) -> Result<Vec<Vec<Self>>> {
        let mut parts: Vec<Vec<Self>> = Vec::new();
        let (mut part, mut bytes) = (Vec::with_capacity(events.len().min(PART)), 0);
        for (index, event) in events.into_iter().enumerate() {
            if part.len() == PART || bytes >= PART_BYTES {
                parts.push(std::mem::take(&mut part));
                bytes = 0;
            }
            let event = Self::from(event, index)?;
            bytes += event.bytes();
            part.push(event);
        }
        parts.push(part);
        Ok(parts)
    }

    /// What it takes until it is stored.
    pub(super) fn memory(&self) -> usize {
        let texts = [&self.event, &self.distinct_id, &self.properties, &self.elements_chain];
        let texts: usize = texts.iter().map(|text| text.capacity()).sum();
        size_of::<Self>() + texts + self.effect.memory()
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
        since: Instant,
        /// Shared by all parts of a batch.
        hold: Arc<Hold>,
    },
    Settle {
        until: i64,
    },
    /// Deletes some of a team, and says when nothing is left.
    Forget {
        team: i64,
        is_done: Arc<AtomicBool>,
    },
}

/// What the writer knows of the file without looking. Whenever another process wrote, or a transaction failed, it
/// starts again from nothing.
#[derive(Debug)]
pub(super) struct Memory {
    version: Option<i64>,
    /// The next `seq` of teams.
    next: HashMap<i64, i64>,
    people: People,
    seen: Seen,
    uuids: ContextV7,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            version: None,
            next: HashMap::new(),
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
    budgets: &'a mut Budgets,
    floor: i64,
    /// The floor in the file.
    written_floor: i64,
    /// How many bytes were written so far, about.
    bytes: usize,
    began: Instant,
}

/// The time below which nothing is stored any more.
pub(super) fn floor(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT floor FROM clock")?
        .query_row([], |row| row.get(0))
}

impl<'a> Store<'a> {
    /// Within a transaction that holds the lock for writing: whatever it sees stays so until it ends.
    pub(super) fn open(
        connection: &'a Connection,
        memory: &'a mut Memory,
        budgets: &'a mut Budgets,
    ) -> rusqlite::Result<Self> {
        let version = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if memory.version != Some(version) {
            memory.version = Some(version);
            memory.next.clear();
            memory.people = People::default();
            memory.seen.catch_up(connection)?;
        }
        let floor = floor(connection)?;
        Ok(Self {
            connection,
            memory,
            budgets,
            floor,
            written_floor: floor,
            bytes: 0,
            began: Instant::now(),
        })
    }

    /// Whether the rest should wait for the next transaction.
    pub(super) fn is_full(&self, do_others_wait: bool) -> bool {
        let long = if do_others_wait { LONG } else { LONG_ALONE };
        self.bytes >= FULL_AT_BYTES || self.began.elapsed() >= long
    }

    /// Whether those who come now can still be part of the transaction.
    pub(super) fn can_join(&self) -> bool {
        self.began.elapsed() < JOIN_WINDOW
    }

    pub(super) fn apply(&mut self, work: &Work) -> rusqlite::Result<()> {
        match work {
            Work::Append {
                team,
                events,
                now,
                hold,
                ..
            } => self.append(hold.sender(*team), events, *now),
            Work::Settle { until } => {
                self.raise(*until);
                Ok(())
            }
            Work::Forget { team, is_done } => self
                .forget(*team)
                .map(|is_over| is_done.store(is_over, Ordering::Relaxed)),
        }
    }

    fn raise(&mut self, time: i64) {
        self.floor = self.floor.max(time);
    }

    /// Writes what is written once for all that the transaction holds.
    pub(super) fn finish(self) -> rusqlite::Result<()> {
        if self.floor > self.written_floor {
            self.connection
                .prepare_cached("UPDATE clock SET floor = ?1")?
                .execute([self.floor])?;
        }
        Ok(())
    }

    fn append(&mut self, sender @ (team, _): Sender, events: &[Ready], now: i64) -> rusqlite::Result<()> {
        self.raise(now);
        let place = Place::of(team);
        let mut seq = self.next_seq(team, &place)?;
        let mut insert = self.connection.prepare_cached(&format!(
            "INSERT INTO {} ({}, checksum, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            place.table,
            checksum::COLUMNS
        ))?;
        let mut new = Vec::new();
        let sent: usize = events.iter().map(Ready::bytes).sum();
        // A large event is the last of its part, and gives those before it no more to do.
        let mut allowance = Allowance::new(sent.min(PART_BYTES), self.budgets.of(sender, sent));
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
            let carried = self.person(team, event, &mut allowance)?;
            let values = [
                ValueRef::Blob(uuid.as_bytes()),
                event.event.as_str().into(),
                event.distinct_id.as_str().into(),
                event.properties.as_str().into(),
                event.elements_chain.as_str().into(),
                ValueRef::Integer(event.timestamp),
                ValueRef::Integer(now),
                ValueRef::Blob(carried.person.as_bytes()),
                carried.inline.as_ref().into(),
                carried.properties_id.map_or(ValueRef::Null, ValueRef::Integer),
                ValueRef::Integer(self.floor),
            ];
            let checksum = checksum(team, &values);
            let values = values.into_iter().chain([checksum.into(), seq].map(ValueRef::Integer));
            insert.execute(params_from_iter(values.map(ToSqlOutput::Borrowed)))?;
            seq += 1;
        }
        self.memory.next.insert(team, seq);
        self.budgets.put_back(sender, allowance.budget());
        self.memory.seen.log(self.connection, team, &new)
    }

    fn next_seq(&self, team: i64, place: &Place) -> rusqlite::Result<i64> {
        if let Some(next) = self.memory.next.get(&team) {
            return Ok(*next);
        }
        let (table, condition) = (&place.table, place.condition());
        let last = format!("SELECT seq FROM {table} WHERE {condition} ORDER BY seq DESC LIMIT 1");
        let mut last = self.connection.prepare_cached(&last)?;
        let last = last.query_row([], |row| row.get(0)).optional()?;
        Ok(last.unwrap_or(place.numbers.start) + 1)
    }

    /// The person of an event, and the properties it has after it.
    fn person(&mut self, team: i64, event: &Ready, allowance: &mut Allowance) -> rusqlite::Result<Carried> {
        let mut persons = TeamPersons {
            people: &mut self.memory.people,
            connection: self.connection,
            team,
            at: self.floor,
            timestamp: event.timestamp,
            touched: 0,
            written: 0,
        };
        match &event.effect {
            Effect::Person(change) if !allowance.is_enough_for(change) => {
                dropped_updates::note(team, Why::TooMuchAtOnce);
                Ok(Carried::nothing(persons.person_id_or_make(&event.distinct_id)?))
            }
            Effect::Person(change) => {
                let person = persons.change(&event.distinct_id, change)?;
                let (touched, written) = (persons.touched, persons.written);
                let mut carried = Carried::of(&person);
                if !carried.is_nothing() && !allowance.is_enough_to_store(carried.inline.len()) {
                    dropped_updates::note(team, Why::TooMuchAtOnce);
                    carried = Carried::nothing(person.id);
                }
                allowance.spend(touched + person.properties.len());
                allowance.store(written + carried.inline.len());
                self.bytes += touched + carried.inline.len();
                Ok(carried)
            }
            Effect::None => {
                let known = persons.person_id(&event.distinct_id)?;
                let id = known.unwrap_or_else(|| persons::person_id(team, &event.distinct_id));
                Ok(Carried::nothing(id))
            }
        }
    }

    fn make_uuid(&self) -> Uuid {
        let micros = u64::try_from(self.floor).unwrap_or(0);
        let nanos = u32::try_from(micros % 1_000_000 * 1_000).expect("under a thousand million");
        Uuid::new_v7(Timestamp::from_unix(&self.memory.uuids, micros / 1_000_000, nanos))
    }

    /// Deletes what can be deleted in a moment: nobody else writes in the meantime. True: nothing is left.
    fn forget(&mut self, team: i64) -> rusqlite::Result<bool> {
        // Of others everything is still known: they send on in the meantime, and some of it again.
        self.memory.people = People::default();
        self.memory.next.remove(&team);
        let (began, mut statements) = (Instant::now(), 0);
        let mut is_enough = || {
            statements += 1;
            statements == FORGETTING_STATEMENTS || began.elapsed() >= FORGETTING
        };
        for (table, key, condition) in of_team(team) {
            let sql = format!(
                "DELETE FROM {table} WHERE {condition} AND ({key}) IN \
                 (SELECT {key} FROM {table} WHERE {condition} LIMIT {FORGOTTEN_AT_A_TIME})"
            );
            let mut delete = self.connection.prepare(&sql)?;
            while delete.execute([])? > 0 {
                if is_enough() {
                    return Ok(false);
                }
            }
        }
        while self
            .memory
            .seen
            .forget_some(self.connection, team, FORGOTTEN_AT_A_TIME)?
        {
            if is_enough() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Where rows of a team are, by which columns, and which they are.
fn of_team(team: i64) -> [(String, &'static str, String); 4] {
    let place = Place::of(team);
    let condition = place.condition();
    let is_theirs = || format!("team_id = {team}");
    [
        (place.table, "seq", condition),
        ("person".to_owned(), "team_id, person_id", is_theirs()),
        ("person_distinct_id".to_owned(), "team_id, distinct_id", is_theirs()),
        ("person_properties".to_owned(), "id", is_theirs()),
    ]
}
