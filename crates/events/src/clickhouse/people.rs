//! Persons of one group of appends: what is known of them, and what the group's events do to them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::persons::{Change, Effect, MOST_DISTINCT_IDS, Merge, effect, merged, person_id};
use crate::{Incoming, Time};

/// A distinct id of a team.
pub(super) type Name = (i64, String);
/// A person of a team.
pub(super) type Id = (i64, Uuid);

/// Whom a distinct id belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Owner {
    pub person: Uuid,
    pub version: i64,
    pub inserted_at: Time,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Person {
    pub properties: Map<String, Value>,
    pub is_identified: bool,
    pub is_deleted: bool,
    pub created_at: Time,
    pub version: i64,
    pub inserted_at: Time,
}

impl Person {
    fn change(&mut self, now: Time) {
        self.version = next(self.version, now);
        self.inserted_at = now;
    }
}

/// Versions are microseconds, and go up even if the clock does not. Only the first of a distinct id is 0.
fn next(version: i64, now: Time) -> i64 {
    now.timestamp_micros().max(version + 1)
}

#[derive(Debug, Default)]
pub(super) struct People {
    pub owners: HashMap<Name, Owner>,
    pub persons: HashMap<Id, Person>,
    pub changed_owners: HashSet<Name>,
    pub changed_persons: HashSet<Id>,
}

impl People {
    /// Does to persons what an event tells. Returns whose event it is, and that person's properties then.
    pub(super) fn take(&mut self, team: i64, event: &Incoming, now: Time) -> (Uuid, String) {
        let name = (team, event.distinct_id.clone());
        let at = Moment {
            now,
            happened: event.timestamp,
        };
        let Effect::Person(change) = effect(event) else {
            let owner = self.owners.get(&name).map(|owner| owner.person);
            return (
                owner.unwrap_or_else(|| person_id(team, &event.distinct_id)),
                "{}".to_owned(),
            );
        };
        if let Some(merge) = &change.merge {
            self.merge(&name, merge, at);
        }
        let id = self.person_of(&name, at);
        let person = self.persons.get_mut(&id).expect("the person of a name is known");
        if changed(person, &change) {
            person.change(now);
            self.changed_persons.insert(id);
        }
        let person = &self.persons[&id];
        (id.1, Value::Object(person.properties.clone()).to_string())
    }

    /// The person of a name; made if there is none.
    fn person_of(&mut self, name: &Name, at: Moment) -> Id {
        let owner = self.owners.get(name).map(|owner| owner.person);
        let id = (name.0, owner.unwrap_or_else(|| person_id(name.0, &name.1)));
        if owner.is_none() {
            self.own(name, id.1, at.now);
        }
        if self.persons.get(&id).is_none_or(|person| person.is_deleted) {
            // One who was merged away and comes back must not be taken for an old version.
            let version = self.persons.get(&id).map_or(0, |person| person.version);
            self.persons.insert(id, nobody(version, at));
            self.changed_persons.insert(id);
        }
        id
    }

    fn own(&mut self, name: &Name, person: Uuid, now: Time) {
        let version = self.owners.get(name).map_or(0, |owner| next(owner.version, now));
        let owner = Owner {
            person,
            version,
            inserted_at: now,
        };
        self.owners.insert(name.clone(), owner);
        self.changed_owners.insert(name.clone());
    }

    fn merge(&mut self, name: &Name, merge: &Merge, at: Moment) {
        let other = (name.0, merge.distinct_id.clone());
        match (self.owners.get(name).copied(), self.owners.get(&other).copied()) {
            // Whoever was first seen anonymously keeps what is known of them, under both names.
            (None, Some(owner)) => self.join_if_room(name, (name.0, owner.person), at),
            (_, None) => {
                let person = self.person_of(name, at);
                self.join_if_room(&other, person, at);
            }
            (Some(stays), Some(goes)) if stays.person != goes.person => {
                self.unite((name.0, stays.person), (name.0, goes.person), merge.is_forced, at);
            }
            _ => {}
        }
    }

    /// Gives a person a name that was nobody's. With too many of them, the name makes a person of its own.
    fn join_if_room(&mut self, name: &Name, person: Id, at: Moment) {
        if number(&self.names_of(person)) < MOST_DISTINCT_IDS {
            self.own(name, person.1, at.now);
        } else {
            self.person_of(name, at);
        }
    }

    fn unite(&mut self, stays: Id, goes: Id, is_forced: bool, at: Moment) {
        let names = self.names_of(goes);
        let is_too_many = number(&names) + number(&self.names_of(stays)) > MOST_DISTINCT_IDS;
        let mut gone = self.persons.remove(&goes).unwrap_or_else(|| nobody(0, at));
        if is_too_many || (gone.is_identified && !is_forced) {
            self.persons.insert(goes, gone);
            return;
        }
        let kept = self.persons.entry(stays).or_insert_with(|| nobody(0, at));
        let (known, found) = (
            std::mem::take(&mut kept.properties),
            std::mem::take(&mut gone.properties),
        );
        kept.properties = merged(known, found);
        kept.created_at = kept.created_at.min(gone.created_at);
        kept.change(at.now);
        gone.is_deleted = true;
        gone.change(at.now);
        self.persons.insert(goes, gone);
        self.changed_persons.extend([stays, goes]);
        for name in names {
            self.own(&name, stays.1, at.now);
        }
    }

    fn names_of(&self, person: Id) -> Vec<Name> {
        let is_theirs = |(name, owner): &(&Name, &Owner)| (name.0, owner.person) == person;
        self.owners
            .iter()
            .filter(is_theirs)
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub(super) fn owner(&self, team: i64, name: &str) -> Option<Uuid> {
        self.owners.get(&(team, name.to_owned())).map(|owner| owner.person)
    }

    /// Whether an event may be taken by what is remembered: whose it is is known, and it changes nobody.
    pub(super) fn leaves_as_is(&self, name: &Name, event: &Incoming) -> bool {
        let Some(owner) = self.owners.get(name) else {
            return false;
        };
        let Effect::Person(change) = effect(event) else {
            return true;
        };
        let person = self.persons.get(&(name.0, owner.person));
        change.merge.is_none() && person.is_some_and(|person| !changed(&mut person.clone(), &change))
    }
}

fn number(names: &[Name]) -> i64 {
    i64::try_from(names.len()).unwrap_or(i64::MAX)
}

/// When an event came, and when it happened: a person exists since then.
#[derive(Debug, Clone, Copy)]
struct Moment {
    now: Time,
    happened: Time,
}

fn nobody(version: i64, at: Moment) -> Person {
    Person {
        properties: Map::new(),
        is_identified: false,
        is_deleted: false,
        created_at: at.happened,
        version: next(version, at.now),
        inserted_at: at.now,
    }
}

fn changed(person: &mut Person, change: &Change) -> bool {
    let is_found_out = change.identifies && !person.is_identified;
    person.is_identified |= change.identifies;
    change.apply(&mut person.properties) || is_found_out
}

/// The other name of an event that makes two persons one.
pub(super) fn merges_with(event: &Incoming) -> Option<String> {
    match effect(event) {
        Effect::Person(Change { merge: Some(merge), .. }) => Some(merge.distinct_id),
        _ => None,
    }
}
