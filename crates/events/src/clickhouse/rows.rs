//! Rows as the tables take them, in Arrow.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use serde_json::Value;
use uuid::Uuid;

use super::insert::{ids, texts, times};
use super::people::People;
use crate::{Incoming, Result, Time, elements};

/// Rows of the table of events.
#[derive(Debug, Default)]
pub(super) struct EventRows {
    rows: Vec<Row>,
    /// How long their texts are.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct Row {
    team: i64,
    uuid: Uuid,
    event: String,
    distinct_id: String,
    properties: String,
    elements_chain: String,
    timestamp: Time,
    person: Uuid,
    person_properties: Arc<str>,
    now: Time,
}

impl EventRows {
    pub(super) fn push(
        &mut self,
        team: i64,
        event: &Incoming,
        now: Time,
        (person, person_properties): (Uuid, Arc<str>),
    ) {
        let mut properties = event.properties.clone();
        let elements_chain = elements::take_chain(&mut properties);
        let properties = Value::Object(properties).to_string();
        let row = Row {
            team,
            uuid: event.uuid.unwrap_or_else(Uuid::now_v7),
            event: event.event.clone(),
            distinct_id: event.distinct_id.clone(),
            properties,
            elements_chain,
            timestamp: event.timestamp,
            person,
            person_properties,
            now,
        };
        self.bytes += row.bytes();
        self.rows.push(row);
    }

    /// Pieces that end when they have so many bytes. Persons are shared by rows, but copied for each into what is inserted.
    pub(super) fn portions(&self, full_at: usize) -> impl Iterator<Item = &[Row]> {
        let mut bytes = 0;
        self.rows.chunk_by(move |row, _| {
            bytes += row.bytes();
            let has_room = bytes < full_at;
            bytes = if has_room { bytes } else { 0 };
            has_room
        })
    }
}

impl Row {
    /// How long its texts are.
    fn bytes(&self) -> usize {
        self.properties.len() + self.elements_chain.len() + self.person_properties.len()
    }

    /// What it is known by.
    pub(super) fn id(&self) -> (i64, Uuid) {
        (self.team, self.uuid)
    }
}

pub(super) fn event_rows(rows: &[Row]) -> Result<RecordBatch> {
    let teams: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.team)));
    Ok(RecordBatch::try_from_iter([
        ("team_id", teams),
        ("uuid", ids(rows.iter().map(|row| row.uuid))),
        ("event", texts(rows.iter().map(|row| &row.event))),
        ("distinct_id", texts(rows.iter().map(|row| &row.distinct_id))),
        ("properties", texts(rows.iter().map(|row| &row.properties))),
        ("elements_chain", texts(rows.iter().map(|row| &row.elements_chain))),
        ("timestamp", times(rows.iter().map(|row| row.timestamp))),
        ("person_id", ids(rows.iter().map(|row| row.person))),
        (
            "person_properties",
            texts(rows.iter().map(|row| &row.person_properties)),
        ),
        ("created_at", times(rows.iter().map(|row| row.now))),
        ("inserted_at", times(rows.iter().map(|row| row.now))),
    ])?)
}

pub(super) fn owner_rows(people: &People) -> Result<RecordBatch> {
    let rows: Vec<_> = people
        .changed_owners
        .iter()
        .map(|name| (name, &people.owners[name]))
        .collect();
    let teams: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(name, _)| name.0)));
    let versions: ArrayRef = Arc::new(Int64Array::from_iter_values(
        rows.iter().map(|(_, owner)| owner.version),
    ));
    Ok(RecordBatch::try_from_iter([
        ("team_id", teams),
        ("distinct_id", texts(rows.iter().map(|(name, _)| &name.1))),
        ("person_id", ids(rows.iter().map(|(_, owner)| owner.person))),
        ("version", versions),
        ("inserted_at", times(rows.iter().map(|(_, owner)| owner.inserted_at))),
    ])?)
}

pub(super) fn person_rows(people: &People) -> Result<RecordBatch> {
    let rows: Vec<_> = people
        .changed_persons
        .iter()
        .map(|id| (id, &people.persons[id]))
        .collect();
    let flag = |flags: Vec<bool>| -> ArrayRef { Arc::new(BooleanArray::from(flags)) };
    let teams: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(id, _)| id.0)));
    let versions: ArrayRef = Arc::new(Int64Array::from_iter_values(
        rows.iter().map(|(_, person)| person.version),
    ));
    let properties = rows.iter().map(|(_, person)| &person.properties);
    Ok(RecordBatch::try_from_iter([
        ("team_id", teams),
        ("id", ids(rows.iter().map(|(id, _)| id.1))),
        ("properties", texts(properties)),
        (
            "is_identified",
            flag(rows.iter().map(|(_, person)| person.is_identified).collect()),
        ),
        (
            "is_deleted",
            flag(rows.iter().map(|(_, person)| person.is_deleted).collect()),
        ),
        ("created_at", times(rows.iter().map(|(_, person)| person.created_at))),
        ("version", versions),
        ("inserted_at", times(rows.iter().map(|(_, person)| person.inserted_at))),
    ])?)
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn many_rows_of_a_large_person_are_inserted_in_portions() {
        let large: Arc<str> = "x".repeat(500).into();
        let mut rows = EventRows::default();
        for n in 0..10 {
            let event = Incoming {
                uuid: Some(Uuid::from_u128(n)),
                event: "x".to_owned(),
                distinct_id: "ada".to_owned(),
                properties: Map::new(),
                timestamp: Time::UNIX_EPOCH,
            };
            rows.push(1, &event, Time::UNIX_EPOCH, (Uuid::nil(), large.clone()));
        }
        let sizes: Vec<_> = rows.portions(2_000).map(<[Row]>::len).collect();
        assert_eq!(sizes, [4, 4, 2]);
        let all: Vec<_> = rows.portions(2_000).flatten().map(Row::id).collect();
        let expected: Vec<_> = (0..10).map(|n| (1_i64, Uuid::from_u128(n))).collect();
        assert_eq!(all, expected, "in their order");
        assert_eq!(rows.portions(usize::MAX).count(), 1);
        assert_eq!(EventRows::default().portions(2_000).count(), 0);
    }
}
