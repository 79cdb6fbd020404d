//! Persons, as the writer changes them.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::recent::{Recent, Weigh};
use crate::dropped_updates::{self, Why};
use crate::persons::{
    self, Applied, BYTES_OF_MOVED_ID, Change, MAX_DISTINCT_IDS, MAX_PROPERTY_BYTES, Merge, NO_PROPERTIES,
};

/// Properties of more bytes than this are kept once for all events that carry them. Shorter ones are in each event:
/// looking them up would take longer than reading them.
const MAX_INLINE_BYTES: usize = 1024;

/// What counting one distinct id of a person in the file stands for, in bytes of properties: an id may be long.
const BYTES_OF_COUNTED_ID: usize = 100;

/// Persons used lately. Right as long as nobody else writes to the file; whoever owns this looks for that.
#[derive(Debug, Default)]
pub(super) struct People {
    /// By the id that [`persons::person_id`] makes of team and distinct id.
    ids: Recent<Uuid, Uuid>,
    persons: Recent<Uuid, Person>,
    /// How many distinct ids persons have.
    id_counts: Recent<Uuid, i64>,
}

#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) id: Uuid,
    pub(super) properties: Arc<str>,
    /// Where they are kept, if they are long.
    pub(super) properties_id: Option<i64>,
    created_at: i64,
    version: i64,
    is_identified: bool,
    changed_at: i64,
}

impl Weigh for Uuid {
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

impl Weigh for i64 {
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

impl Weigh for Person {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.properties.len()
    }
}

/// One event's view of the persons of its team.
pub(super) struct TeamPersons<'a> {
    pub(super) people: &'a mut People,
    pub(super) connection: &'a Connection,
    pub(super) team: i64,
    /// The ingestion time.
    pub(super) at: i64,
    /// When the event happened: a person exists since then.
    pub(super) timestamp: i64,
    /// How many bytes of properties were read and written for this event. Values that are parsed, and rows of distinct ids,
    /// count as some.
    pub(super) touched: usize,
    /// How many bytes of properties were written.
    pub(super) written: usize,
}

impl TeamPersons<'_> {
    /// Whose a distinct id is, if it is anyone's.
    pub(super) fn person_id(&mut self, distinct_id: &str) -> rusqlite::Result<Option<Uuid>> {
        let own = persons::person_id(self.team, distinct_id);
        if let Some(id) = self.people.ids.get(own) {
            return Ok(Some(id));
        }
        let sql = "SELECT person_id FROM person_distinct_id WHERE team_id = ?1 AND distinct_id = ?2";
        let mut find = self.connection.prepare_cached(sql)?;
        let id = find
            .query_row(params![self.team, distinct_id], |row| uuid(row, 0))
            .optional()?;
        if let Some(id) = id {
            self.people.ids.insert(own, id);
        }
        Ok(id)
    }

    /// Does to persons what an event says, and gives the person of its distinct id as it is afterwards.
    pub(super) fn change(&mut self, distinct_id: &str, change: &Change) -> rusqlite::Result<Person> {
        let mut person = match &change.merge {
            Some(merge) => self.merge(distinct_id, merge)?,
            None => self.find_or_make(distinct_id)?,
        };
        let mut is_changed = change.identifies && !person.is_identified;
        person.is_identified |= change.identifies;
        if let Some(properties) = self.applied(change, &person.properties) {
            person.properties = properties;
            person.properties_id = None;
            is_changed = true;
        }
        if is_changed {
            person.version += 1;
            self.save(&mut person)?;
        }
        Ok(person)
    }

    /// The properties after a change, if they are different.
    fn applied(&mut self, change: &Change, properties: &str) -> Option<Arc<str>> {
        let applied = change.apply_to(properties);
        let is_too_large = matches!(applied, Applied::TooLarge(_));
        if change.touches_properties() {
            // What is too large is parsed twice.
            let times = 1 + usize::from(is_too_large);
            let each = properties.len() + persons::cost_of_values(properties) + change.cost_of_unset();
            self.touched += times * each;
        }
        if change.is_too_large || is_too_large {
            dropped_updates::note(self.team, Why::TooLarge);
        }
        match applied {
            Applied::Same => None,
            Applied::Changed(properties) => Some(properties),
            Applied::TooLarge(properties) => properties,
        }
    }

    /// Whose a distinct id is, without a look at the person: made if there is none.
    pub(super) fn person_id_or_make(&mut self, distinct_id: &str) -> rusqlite::Result<Uuid> {
        match self.person_id(distinct_id)? {
            Some(id) => Ok(id),
            None => Ok(self.make(distinct_id)?.id),
        }
    }

    fn find(&mut self, distinct_id: &str) -> rusqlite::Result<Option<Person>> {
        let Some(id) = self.person_id(distinct_id)? else {
            return Ok(None);
        };
        let person = match self.people.persons.get(id) {
            Some(person) => person,
            None => self.read(id)?,
        };
        self.touched += person.properties.len();
        Ok(Some(person))
    }

    /// Properties from before there was a limit are not read: they may take all memory.
    fn read(&mut self, id: Uuid) -> rusqlite::Result<Person> {
        let sql = "SELECT person_id, CASE WHEN properties_id IS NOT NULL \
                   THEN (SELECT kept.properties FROM person_properties kept WHERE kept.id = properties_id) \
                   WHEN octet_length(properties) > ?3 THEN ?4 ELSE properties END, properties_id, created_at, version, \
                   is_identified, changed_at FROM person WHERE team_id = ?1 AND person_id = ?2";
        let most = i64::try_from(MAX_PROPERTY_BYTES).unwrap_or(i64::MAX);
        let person = self
            .connection
            .prepare_cached(sql)?
            .query_row(params![self.team, id.as_bytes(), most, NO_PROPERTIES], person)?;
        self.people.persons.insert(id, person.clone());
        Ok(person)
    }

    fn find_or_make(&mut self, distinct_id: &str) -> rusqlite::Result<Person> {
        match self.find(distinct_id)? {
            Some(person) => Ok(person),
            None => self.make(distinct_id),
        }
    }

    fn make(&mut self, distinct_id: &str) -> rusqlite::Result<Person> {
        let mut person = Person {
            id: persons::person_id(self.team, distinct_id),
            properties: NO_PROPERTIES.into(),
            properties_id: None,
            created_at: self.timestamp,
            version: 0,
            is_identified: false,
            changed_at: self.at,
        };
        self.save(&mut person)?;
        self.join(distinct_id, &person)?;
        Ok(person)
    }

    /// Makes the persons of two distinct ids one, where that is allowed.
    fn merge(&mut self, distinct_id: &str, merge: &Merge) -> rusqlite::Result<Person> {
        match (self.find(distinct_id)?, self.find(&merge.distinct_id)?) {
            (None, None) => {
                let person = self.make(distinct_id)?;
                self.join(&merge.distinct_id, &person)?;
                Ok(person)
            }
            (Some(person), None) => {
                self.join_if_room(&merge.distinct_id, &person)?;
                Ok(person)
            }
            (None, Some(person)) => Ok(self.join_if_room(distinct_id, &person)?.unwrap_or(person)),
            (Some(stays), Some(goes)) if self.may_merge(&stays, &goes, merge.is_forced)? => self.unite(stays, &goes),
            (Some(stays), Some(_)) => Ok(stays),
        }
    }

    /// Gives a person a distinct id that was nobody's. If the person has too many, the id makes another one, which is returned.
    fn join_if_room(&mut self, distinct_id: &str, person: &Person) -> rusqlite::Result<Option<Person>> {
        if self.count_ids(person.id)? < MAX_DISTINCT_IDS {
            self.join(distinct_id, person)?;
            return Ok(None);
        }
        self.make(distinct_id).map(Some)
    }

    fn may_merge(&mut self, stays: &Person, goes: &Person, is_forced: bool) -> rusqlite::Result<bool> {
        let may = stays.id != goes.id && (is_forced || !goes.is_identified);
        Ok(may && self.count_ids(stays.id)? + self.count_ids(goes.id)? <= MAX_DISTINCT_IDS)
    }

    fn unite(&mut self, mut stays: Person, goes: &Person) -> rusqlite::Result<Person> {
        for distinct_id in self.distinct_ids(goes.id)? {
            self.people.ids.remove(persons::person_id(self.team, &distinct_id));
        }
        self.people.persons.remove(goes.id);
        // Without statistics, SQLite takes the first column of the key to be as good as an index that does not have all
        // columns, and would read all distinct ids of the team.
        let moved = self
            .connection
            .prepare_cached(
                "UPDATE person_distinct_id INDEXED BY person_distinct_id_person \
                 SET person_id = ?1, version = version + 1, changed_at = NULL WHERE team_id = ?2 AND person_id = ?3",
            )?
            .execute(params![stays.id.as_bytes(), self.team, goes.id.as_bytes()])?;
        self.touched += moved * BYTES_OF_MOVED_ID;
        self.people.id_counts.remove(goes.id);
        self.add_to_count(stays.id, i64::try_from(moved).unwrap_or(0));
        self.connection
            .prepare_cached(
                "UPDATE person SET is_deleted = 1, properties = '{}', properties_id = NULL, version = version + 1, \
                 changed_at = ?1 WHERE team_id = ?2 AND person_id = ?3",
            )?
            .execute(params![self.at, self.team, goes.id.as_bytes()])?;
        self.touched += persons::cost_of_values(&stays.properties) + persons::cost_of_values(&goes.properties);
        let (properties, is_whole) = persons::merged_text(&stays.properties, &goes.properties);
        if !is_whole {
            dropped_updates::note(self.team, Why::TooLarge);
        }
        if !Arc::ptr_eq(&stays.properties, &properties) {
            stays.properties_id = None;
        }
        stays.properties = properties;
        stays.created_at = stays.created_at.min(goes.created_at);
        stays.version = stays.version.max(goes.version) + 1;
        self.save(&mut stays)?;
        Ok(stays)
    }

    /// Writes a person. Its distinct ids have changed with it.
    fn save(&mut self, person: &mut Person) -> rusqlite::Result<()> {
        person.changed_at = self.at;
        let is_long = person.properties.len() > MAX_INLINE_BYTES;
        if is_long && person.properties_id.is_none() {
            person.properties_id = Some(self.keep(&person.properties)?);
        }
        let inline = if is_long { "" } else { &*person.properties };
        self.touched += inline.len();
        self.written += inline.len();
        let sql = "INSERT OR REPLACE INTO person (team_id, person_id, properties, properties_id, created_at, version, \
                   is_identified, is_deleted, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8)";
        self.connection.prepare_cached(sql)?.execute(params![
            self.team,
            person.id.as_bytes(),
            inline,
            person.properties_id,
            person.created_at,
            person.version,
            person.is_identified,
            person.changed_at
        ])?;
        self.people.persons.insert(person.id, person.clone());
        Ok(())
    }

    fn keep(&mut self, properties: &str) -> rusqlite::Result<i64> {
        self.touched += properties.len();
        self.written += properties.len();
        let sql = "INSERT INTO person_properties (team_id, properties) VALUES (?1, ?2)";
        self.connection
            .prepare_cached(sql)?
            .insert(params![self.team, properties])
    }

    /// Gives a distinct id that was nobody's to a person. It has a time of its own if the person does not change with it.
    fn join(&mut self, distinct_id: &str, person: &Person) -> rusqlite::Result<()> {
        let changed_at = (person.changed_at != self.at).then_some(self.at);
        let sql = "INSERT INTO person_distinct_id (team_id, distinct_id, person_id, version, changed_at) \
                   VALUES (?1, ?2, ?3, 0, ?4)";
        let mut insert = self.connection.prepare_cached(sql)?;
        insert.execute(params![self.team, distinct_id, person.id.as_bytes(), changed_at])?;
        self.people
            .ids
            .insert(persons::person_id(self.team, distinct_id), person.id);
        self.add_to_count(person.id, 1);
        Ok(())
    }

    fn add_to_count(&mut self, person: Uuid, more: i64) {
        if let Some(count) = self.people.id_counts.get(person) {
            self.people.id_counts.insert(person, count + more);
        }
    }

    /// Counted in the file once: many events in a row may be about the same person.
    fn count_ids(&mut self, person: Uuid) -> rusqlite::Result<i64> {
        if let Some(count) = self.people.id_counts.get(person) {
            return Ok(count);
        }
        let sql = "SELECT count(*) FROM person_distinct_id WHERE team_id = ?1 AND person_id = ?2";
        let mut count = self.connection.prepare_cached(sql)?;
        let count = count.query_row(params![self.team, person.as_bytes()], |row| row.get(0))?;
        self.touched += usize::try_from(count).unwrap_or(0) * BYTES_OF_COUNTED_ID;
        self.people.id_counts.insert(person, count);
        Ok(count)
    }

    fn distinct_ids(&self, person: Uuid) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT distinct_id FROM person_distinct_id WHERE team_id = ?1 AND person_id = ?2";
        let mut find = self.connection.prepare_cached(sql)?;
        find.query_map(params![self.team, person.as_bytes()], |row| row.get(0))?
            .collect()
    }
}

fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    Ok(Uuid::from_bytes(row.get(column)?))
}

fn person(row: &Row<'_>) -> rusqlite::Result<Person> {
    Ok(Person {
        id: uuid(row, 0)?,
        properties: row.get(1)?,
        properties_id: row.get(2)?,
        created_at: row.get(3)?,
        version: row.get(4)?,
        is_identified: row.get(5)?,
        changed_at: row.get(6)?,
    })
}
