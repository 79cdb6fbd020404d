//! Rows as the tables take them, in Arrow.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
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
struct Row {
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
        self.bytes += properties.len() + elements_chain.len() + person_properties.len();
        self.rows.push(Row {
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
        });
    }

    pub(super) fn finish(self) -> Result<RecordBatch> {
        let rows = &self.rows;
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
