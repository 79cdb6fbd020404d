//! What the writer remembers for a short while, so that most events need no look-up.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::people::{Id, Name, Owner, People, Person};
use crate::recent_uuids::Remembered;

/// How long a person may be remembered: so old may the properties be that an event carries.
const FRESH: Duration = Duration::from_secs(10);
/// How many names are remembered.
const MAX_NAMES: usize = 50_000;
/// How many bytes of properties of persons.
const MAX_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Memory {
    owners: HashMap<Name, (Owner, Instant)>,
    persons: HashMap<Id, (Person, Instant)>,
    /// At least as many bytes as the properties of these have.
    bytes: usize,
    /// Ids that senders gave: what this process stored lately is not stored again when a program repeats its request.
    uuids: Remembered,
}

impl Memory {
    pub(super) fn has_seen(&self, team: i64, uuid: Uuid) -> bool {
        self.uuids.contains(team, uuid)
    }

    /// Those of these names who are remembered.
    pub(super) fn people<'a>(&self, names: impl Iterator<Item = &'a Name>) -> People {
        let mut people = People::default();
        for name in names {
            let Some((owner, _)) = self.owners.get(name).filter(|(_, at)| at.elapsed() < FRESH) else {
                continue;
            };
            let id = (name.0, owner.person);
            if let Some((person, _)) = self.persons.get(&id).filter(|(_, at)| at.elapsed() < FRESH) {
                people.owners.insert(name.clone(), *owner);
                people.persons.entry(id).or_insert_with(|| person.clone());
            }
        }
        people
    }

    /// Remembers those who were looked up or changed; the rest gets no younger by being used.
    pub(super) fn remember(&mut self, people: &People, looked_up: &HashSet<Name>) {
        if self.owners.len() > MAX_NAMES || self.bytes > MAX_BYTES {
            self.forget_people();
        }
        let now = Instant::now();
        for name in looked_up.union(&people.changed_owners) {
            let Some(owner) = people.owners.get(name) else { continue };
            self.owners.insert(name.clone(), (*owner, now));
            let id = (name.0, owner.person);
            if people.persons.contains_key(&id) {
                self.remember_person(id, people, now);
            }
        }
        for id in &people.changed_persons {
            self.remember_person(*id, people, now);
        }
    }

    /// One who was not read as a whole is read again the next time.
    fn remember_person(&mut self, id: Id, people: &People, now: Instant) {
        let person = &people.persons[&id];
        if people.left_out.contains(&id) || self.bytes > MAX_BYTES {
            self.persons.remove(&id);
            return;
        }
        self.bytes += person.properties.len();
        self.persons.insert(id, (person.clone(), now));
    }

    pub(super) fn see(&mut self, uuids: HashSet<(i64, Uuid)>) {
        let teams: HashSet<i64> = uuids.iter().map(|(team, _)| *team).collect();
        for (team, uuid) in uuids {
            self.uuids.insert(team, uuid);
        }
        for team in teams {
            self.uuids.end_batch(team, 0);
        }
    }

    pub(super) fn forget_team(&mut self, team: i64) {
        self.forget_people();
        self.uuids.forget_some(team, usize::MAX);
    }

    /// Forgets persons, of whom it is not known what was written. What was stored stays known.
    pub(super) fn forget_people(&mut self) {
        self.owners.clear();
        self.persons.clear();
        self.bytes = 0;
    }
}
