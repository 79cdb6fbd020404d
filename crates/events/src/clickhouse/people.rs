//! Persons of one group of appends: what is known of them, and what the group's events do to them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::dropped_updates::{self, Why};
use crate::persons::{
    Allowance, Applied, BYTES_OF_MOVED_ID, Change, Effect, MAX_DISTINCT_IDS, Merge, NO_PROPERTIES, cost_of_values,
    effect, is_told_to_keep_none, merge, merged_text, person_id,
};
use crate::{Incoming, Time, size};

/// A distinct id of a team.
pub(super) type Name = (i64, String);
/// A person of a team.
pub(super) type Id = (i64, Uuid);

/// Properties longer than this are not read just to see whether an event changes them.
const MUCH: usize = 16 * 1024;

/// Where an event says what it changes of a person's properties.
const CHANGING: [&str; 3] = ["$set", "$set_once", "$unset"];

/// What is left of properties that many events carry when ClickHouse has compressed them, one part in so many, about.
const COMPRESSED: usize = 4;

/// Whom a distinct id belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Owner {
    pub person: Uuid,
    pub version: i64,
    pub inserted_at: Time,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Person {
    /// As JSON: values take many times as much memory.
    pub properties: Arc<str>,
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
    /// Whose properties or names were left where they are, because those of their group are too much; nothing may change them now.
    pub left_out: HashSet<Id>,
    /// Those of them whose names were not read.
    pub names_not_read: HashSet<Id>,
    /// How long the properties are of those who were looked up, whether they were read or left out.
    pub sizes: HashMap<Id, usize>,
    /// The names of each person, from the first merge on: looking through all owners for each merge would take too long.
    names: Option<HashMap<Id, Vec<Name>>>,
}

impl People {
    /// Does to persons what an event tells. Returns whose event it is, and that person's properties then.
    pub(super) fn take(
        &mut self,
        team: i64,
        event: &Incoming,
        now: Time,
        allowance: &mut Allowance,
    ) -> (Uuid, Arc<str>) {
        let name = (team, event.distinct_id.clone());
        let at = Moment {
            now,
            happened: event.timestamp,
        };
        let Effect::Person(change) = effect(event) else {
            let owner = self.owners.get(&name).map(|owner| owner.person);
            return (
                owner.unwrap_or_else(|| person_id(team, &event.distinct_id)),
                NO_PROPERTIES.into(),
            );
        };
        let is_left_out = !allowance.is_enough_for(&change) || self.leaves_out(&name, &change);
        if let Some(merge) = change.merge.as_ref().filter(|_| !is_left_out) {
            let cost = self.merge(&name, merge, at);
            allowance.spend(cost);
        }
        let id = self.person_of(&name, at);
        if is_left_out {
            dropped_updates::note(team, Why::TooMuchAtOnce);
            return (id.1, NO_PROPERTIES.into());
        }
        let person = self.persons.get_mut(&id).expect("the person of a name is known");
        if change.touches_properties() {
            let values = cost_of_values(&person.properties) + change.cost_of_unset();
            allowance.spend(2 * person.properties.len() + values);
        }
        let (mut is_too_large, mut written) = (false, 0);
        if changed(person, &change, &mut is_too_large) {
            person.change(now);
            written = person.properties.len();
            self.changed_persons.insert(id);
        }
        if is_too_large {
            dropped_updates::note(team, Why::TooLarge);
        }
        let properties = self.persons[&id].properties.clone();
        let copied = properties.len() / COMPRESSED;
        let is_carried = allowance.is_enough_to_store(copied);
        allowance.spend(properties.len());
        allowance.store(written + if is_carried { copied } else { 0 });
        if !is_carried {
            dropped_updates::note(team, Why::TooMuchAtOnce);
            return (id.1, NO_PROPERTIES.into());
        }
        (id.1, properties)
    }

    /// Whether a person whom an event is about was not read as a whole.
    fn leaves_out(&self, name: &Name, change: &Change) -> bool {
        let other = change.merge.as_ref().map(|merge| (name.0, merge.distinct_id.clone()));
        [Some(name), other.as_ref()]
            .into_iter()
            .flatten()
            .any(|name| self.is_left_out(name))
    }

    fn is_left_out(&self, name: &Name) -> bool {
        self.left_out.contains(&self.id_of(name))
    }

    pub(super) fn has_left_out(&self) -> bool {
        !self.left_out.is_empty()
    }

    pub(super) fn is_about_left_out(&self, team: i64, event: &Incoming) -> bool {
        self.ids_of(team, event).any(|id| self.left_out.contains(&id))
    }

    /// Whom an event is about.
    pub(super) fn ids_of(&self, team: i64, event: &Incoming) -> impl Iterator<Item = Id> {
        let names = [Some(event.distinct_id.clone()), merges_with(event)];
        names.into_iter().flatten().map(move |name| self.id_of(&(team, name)))
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
        if let Some(names) = &mut self.names {
            names.entry((name.0, person)).or_default().push(name.clone());
        }
        self.changed_owners.insert(name.clone());
    }

    /// Says what that took, in bytes of properties.
    fn merge(&mut self, name: &Name, merge: &Merge, at: Moment) -> usize {
        let other = (name.0, merge.distinct_id.clone());
        match (self.owners.get(name).copied(), self.owners.get(&other).copied()) {
            // Whoever was first seen anonymously keeps what is known of them, under both names.
            (None, Some(owner)) => self.join_if_room(name, (name.0, owner.person), at),
            (_, None) => {
                let person = self.person_of(name, at);
                self.join_if_room(&other, person, at);
            }
            (Some(stays), Some(goes)) if stays.person != goes.person => {
                return self.unite((name.0, stays.person), (name.0, goes.person), merge.is_forced, at);
            }
            _ => {}
        }
        0
    }

    /// Gives a person a name that was nobody's. With too many of them, the name makes a person of its own.
    fn join_if_room(&mut self, name: &Name, person: Id, at: Moment) {
        if number(self.names_of(person)) < MAX_DISTINCT_IDS {
            self.own(name, person.1, at.now);
        } else {
            self.person_of(name, at);
        }
    }

    fn unite(&mut self, stays: Id, goes: Id, is_forced: bool, at: Moment) -> usize {
        let is_too_many = number(self.names_of(goes)) + number(self.names_of(stays)) > MAX_DISTINCT_IDS;
        let mut gone = self.persons.remove(&goes).unwrap_or_else(|| nobody(0, at));
        if is_too_many || (gone.is_identified && !is_forced) {
            self.persons.insert(goes, gone);
            return 0;
        }
        let kept = self.persons.entry(stays).or_insert_with(|| nobody(0, at));
        let found = std::mem::replace(&mut gone.properties, NO_PROPERTIES.into());
        let (properties, is_whole) = merged_text(&kept.properties, &found);
        if !is_whole {
            dropped_updates::note(stays.0, Why::TooLarge);
        }
        let cost = match &*found {
            // Nothing is parsed for one who has none.
            NO_PROPERTIES => 0,
            _ => cost_of(&kept.properties) + cost_of(&found) + properties.len(),
        };
        kept.properties = properties;
        kept.created_at = kept.created_at.min(gone.created_at);
        kept.change(at.now);
        gone.is_deleted = true;
        gone.change(at.now);
        self.persons.insert(goes, gone);
        self.changed_persons.extend([stays, goes]);
        let names = self.names().remove(&goes).unwrap_or_default();
        for name in &names {
            self.own(name, stays.1, at.now);
        }
        cost + names.len() * BYTES_OF_MOVED_ID
    }

    fn names_of(&mut self, person: Id) -> &[Name] {
        self.names().get(&person).map_or(&[], Vec::as_slice)
    }

    fn names(&mut self) -> &mut HashMap<Id, Vec<Name>> {
        self.names.get_or_insert_with(|| {
            let mut names: HashMap<Id, Vec<Name>> = HashMap::new();
            for (name, owner) in &self.owners {
                names.entry((name.0, owner.person)).or_default().push(name.clone());
            }
            names
        })
    }

    pub(super) fn owner_of(&self, name: &Name) -> Option<Id> {
        self.owners.get(name).map(|owner| (name.0, owner.person))
    }

    /// How long the properties of a name's person are, as far as they were read.
    pub(super) fn bytes_of(&self, name: &Name) -> usize {
        let person = self.persons.get(&self.id_of(name));
        person.map_or(0, |person| person.properties.len())
    }

    /// The properties of a person, as far as they were read.
    pub(super) fn properties_of(&self, id: Id) -> &str {
        let person = self.persons.get(&id);
        person.map_or(NO_PROPERTIES, |person| &*person.properties)
    }

    /// Whom a name belongs to, or will.
    pub(super) fn id_of(&self, name: &Name) -> Id {
        self.owner_of(name)
            .unwrap_or_else(|| (name.0, person_id(name.0, &name.1)))
    }

    /// Whether an event may be taken by what is remembered: whose it is is known, and it changes nobody.
    pub(super) fn leaves_as_is(&self, name: &Name, event: &Incoming) -> bool {
        let Some(owner) = self.owners.get(name) else {
            return false;
        };
        let person = self.persons.get(&(name.0, owner.person));
        let is_much = person.is_some_and(|person| person.properties.len() > MUCH);
        if is_much && touches_properties(event) {
            // Looking it up is less work than reading it again for each event.
            return false;
        }
        let Effect::Person(change) = effect(event) else {
            return true;
        };
        let is_same = |person: &Person| !changed(&mut person.clone(), &change, &mut false);
        change.merge.is_none() && person.is_some_and(is_same)
    }
}

fn cost_of(properties: &str) -> usize {
    properties.len() + cost_of_values(properties)
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
        properties: NO_PROPERTIES.into(),
        is_identified: false,
        is_deleted: false,
        created_at: at.happened,
        version: next(version, at.now),
        inserted_at: at.now,
    }
}

/// Changes a person, and says whether anything is different. `is_left_out` tells whether it would have become too large.
fn changed(person: &mut Person, change: &Change, is_left_out: &mut bool) -> bool {
    let is_found_out = change.identifies && !person.is_identified;
    person.is_identified |= change.identifies;
    let applied = change.apply_to(&person.properties);
    *is_left_out = change.is_too_large || matches!(applied, Applied::TooLarge(_));
    match applied {
        Applied::Changed(properties) | Applied::TooLarge(Some(properties)) => {
            person.properties = properties;
            true
        }
        Applied::Same | Applied::TooLarge(None) => is_found_out,
    }
}

/// Whether an event may change properties of a person, as far as can be told without reading what it sets.
pub(super) fn touches_properties(event: &Incoming) -> bool {
    CHANGING.iter().any(|key| event.properties.contains_key(*key))
}

/// How many values an event sets or removes, about.
pub(super) fn changed_values(event: &Incoming) -> usize {
    let changing = CHANGING.iter().filter_map(|key| event.properties.get(*key));
    changing.map(size::values).sum()
}

/// The properties that an event sets, in either way.
pub(super) fn set_by(event: &Incoming) -> impl Iterator<Item = (&str, &Value)> {
    let objects = ["$set", "$set_once"].map(|key| event.properties.get(key).and_then(Value::as_object));
    let fields = objects.into_iter().flatten().flatten();
    fields.map(|(key, value)| (key.as_str(), value))
}

/// The other name of an event that makes two persons one. Copies nothing of what it sets.
pub(super) fn merges_with(event: &Incoming) -> Option<String> {
    if is_told_to_keep_none(&event.properties) {
        return None;
    }
    merge(event).map(|merge| merge.distinct_id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::fair_queue::Source;
    use crate::persons::Budgets;

    const AT: Moment = Moment {
        now: Time::UNIX_EPOCH,
        happened: Time::UNIX_EPOCH,
    };

    #[test]
    fn merges_into_a_person_of_many_values_count_as_work() {
        let mut people = People::default();
        let large = people.person_of(&(1, "large".to_owned()), AT);
        let values: Map<String, Value> = (0..9_900).map(|n| (format!("k{n:05}"), json!("x"))).collect();
        people.persons.get_mut(&large).unwrap().properties = json!(values).to_string().into();
        let mut allowance = Allowance::new(0, Budgets::default().of((1, Source::Inside), 0));
        for n in 0..100 {
            let name = format!("small-{n}");
            let small = people.person_of(&(1, name.clone()), AT);
            people.persons.get_mut(&small).unwrap().properties = r#"{"b":1}"#.into();
            let event = Incoming {
                uuid: None,
                event: "$identify".to_owned(),
                distinct_id: "large".to_owned(),
                properties: Map::from_iter([("$anon_distinct_id".to_owned(), json!(name))]),
                timestamp: Time::UNIX_EPOCH,
            };
            people.take(1, &event, AT.now, &mut allowance);
        }
        let merged = people.owners.values().filter(|owner| owner.person == large.1).count() - 1;
        assert!((5..20).contains(&merged), "{merged}");
    }

    #[test]
    fn a_merge_with_one_who_has_no_properties_costs_only_the_names() {
        let mut people = People::default();
        let [large, small, none] = ["large", "small", "none"].map(|name| people.person_of(&(1, name.to_owned()), AT));
        let values: Map<String, Value> = (0..1_000).map(|n| (format!("k{n:05}"), json!("x"))).collect();
        people.persons.get_mut(&large).unwrap().properties = json!(values).to_string().into();
        people.persons.get_mut(&small).unwrap().properties = r#"{"b":1}"#.into();
        assert_eq!(people.unite(large, none, false, AT), BYTES_OF_MOVED_ID);
        assert!(people.unite(large, small, false, AT) > 20_000 + BYTES_OF_MOVED_ID);
    }
}
