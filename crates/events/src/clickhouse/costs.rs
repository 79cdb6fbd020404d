//! How much work it is to store an append once everybody whom it is about is read.

use std::collections::HashMap;

use serde_json::Value;

use super::append::Append;
use super::people::{Id, Name, People, set_by, touches_properties};
use crate::persons::{self, BYTES_OF_VALUE, NO_PROPERTIES, cost_of_values};
use crate::{Incoming, size};

/// To change one byte of properties is as much work as to store so many that are not changed.
const CARRIED: usize = 2;

/// How many bytes of properties its events may change: all of a person's are read and written again for each, with those that earlier ones
/// have set, and those of two persons who become one. Values count as bytes. So do the properties that events carry, their own and their
/// person's. Looks no further than `most`.
pub(super) fn work(append: &Append, people: &People, most: usize) -> usize {
    let mut costs = Costs::new(people);
    let mut total = append.bytes / CARRIED;
    for event in &append.events {
        if total > most {
            break;
        }
        total += costs.of_event(append.team, event);
    }
    total
}

/// How much properties are.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    /// As text.
    bytes: usize,
    /// What it takes to read and write them, in bytes.
    cost: usize,
}

impl Size {
    /// Nothing is read for one who has none.
    fn of_properties(text: &str) -> Self {
        if text == NO_PROPERTIES {
            return Self::default();
        }
        Self {
            bytes: text.len(),
            cost: text.len() + cost_of_values(text),
        }
    }

    fn of_property(key: &str, value: &Value) -> Self {
        let bytes = key.len() + size::text(value);
        Self {
            bytes,
            cost: bytes + size::values(value) * BYTES_OF_VALUE,
        }
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.cost += other.cost;
    }

    /// How much more this is than another.
    fn beyond(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            cost: self.cost.saturating_sub(other.cost),
        }
    }
}

/// What it takes to read and write the persons of an append, as its events make them larger, and several of them one.
struct Costs<'a> {
    people: &'a People,
    known: HashMap<Id, Size>,
    /// The largest that events have set of each property.
    largest: HashMap<(Id, &'a str), Size>,
    /// Who was merged into whom.
    merged_into: HashMap<Id, Id>,
}

impl<'a> Costs<'a> {
    fn new(people: &'a People) -> Self {
        Self {
            people,
            known: HashMap::new(),
            largest: HashMap::new(),
            merged_into: HashMap::new(),
        }
    }

    /// But what the event itself carries.
    fn of_event(&mut self, team: i64, event: &'a Incoming) -> usize {
        let (name, mut total) = ((team, event.distinct_id.clone()), 0);
        if let Some(merge) = persons::merge(event) {
            total += self.unite(&name, &(team, merge.distinct_id));
        }
        let id = self.id_of(&name);
        if touches_properties(event) {
            self.set(id, event);
            let removed = event.properties.get("$unset").map_or(0, size::values);
            total += self.of(id).cost + removed * BYTES_OF_VALUE;
        }
        total + self.bytes_of(id) / CARRIED
    }

    fn id_of(&self, name: &Name) -> Id {
        let mut id = self.people.id_of(name);
        while let Some(other) = self.merged_into.get(&id) {
            id = *other;
        }
        id
    }

    fn of(&mut self, id: Id) -> &mut Size {
        let people = self.people;
        self.known
            .entry(id)
            .or_insert_with(|| Size::of_properties(people.properties_of(id)))
    }

    /// Whoever is only carried is not looked into.
    fn bytes_of(&self, id: Id) -> usize {
        match self.known.get(&id) {
            Some(size) => size.bytes,
            None => self.people.properties_of(id).len(),
        }
    }

    fn set(&mut self, id: Id, event: &'a Incoming) {
        for (key, value) in set_by(event) {
            let largest = self.largest.entry((id, key)).or_default();
            let more = Size::of_property(key, value).beyond(*largest);
            largest.add(more);
            self.of(id).add(more);
        }
    }

    /// Says what it takes to make them one. Nothing is parsed for one who has no properties.
    fn unite(&mut self, name: &Name, other: &Name) -> usize {
        let (stays, goes) = (self.id_of(name), self.id_of(other));
        if stays == goes {
            return 0;
        }
        let (kept, found) = (*self.of(stays), *self.of(goes));
        self.merged_into.insert(goes, stays);
        self.of(stays).add(found);
        if found.cost == 0 { 0 } else { kept.cost + found.cost }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use serde_json::{Map, json};

    use super::*;
    use crate::{Hold, Time};

    const MAX: usize = 2 << 20;

    /// So many events of as many names who are not known.
    fn append(count: usize, properties: &Value) -> Append {
        let events = (0..count).map(|n| Incoming {
            uuid: None,
            event: "x".to_owned(),
            distinct_id: format!("d{n}"),
            properties: properties.as_object().map_or_else(Map::new, Clone::clone),
            timestamp: Time::UNIX_EPOCH,
        });
        let (append, _) = Append::new(
            Arc::new(Hold::default()),
            1,
            events.collect(),
            Time::UNIX_EPOCH,
            Instant::now(),
        );
        append
    }

    #[test]
    fn small_values_are_more_work_than_their_text() {
        let values: Map<String, Value> = (0..9_990).map(|n| (format!("{n:x}"), json!(1))).collect();
        let text = json!(values).to_string().len();
        assert!(12 * text < MAX, "little text");
        let people = People::default();
        for properties in [json!({"$set": values}), json!({"$set_once": {"a": values}})] {
            assert!(work(&append(12, &properties), &people, MAX) > MAX);
        }
        assert!(work(&append(12, &json!({"a": values})), &people, MAX) < MAX / 2);
    }

    #[test]
    fn no_more_is_looked_at_than_decides() {
        let large = json!({"$set": {"a": "x".repeat(100_000)}});
        let found = work(&append(200, &large), &People::default(), MAX);
        assert!((MAX..10_000_000 + MAX).contains(&found), "{found}");
        assert!(found < work(&append(200, &large), &People::default(), usize::MAX));
    }

    #[test]
    fn what_events_carry_of_their_own_is_work() {
        let own = json!({"a": "x".repeat(17_000)});
        assert!(work(&append(240, &own), &People::default(), MAX) < MAX);
        assert!(work(&append(260, &own), &People::default(), MAX) > MAX);
    }
}
