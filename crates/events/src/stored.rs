//! Events one by one, for those who hand each of them on.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use hogql::{Column, Model, Query};
use serde_json::Value;

use crate::{Events, Result, Scan, Time};

/// An event as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub uuid: String,
    pub event: String,
    pub distinct_id: String,
    pub properties: Value,
    pub timestamp: Time,
    /// When it came in: what scans go by.
    pub ingested_at: Time,
    pub elements_chain: String,
    pub person_id: Option<String>,
    pub person_properties: Value,
}

const COLUMNS: [Column; 9] = [
    Column::Uuid,
    Column::Event,
    Column::DistinctId,
    Column::Properties,
    Column::Timestamp,
    Column::InsertedAt,
    Column::ElementsChain,
    Column::PersonId,
    Column::PersonProperties,
];

impl Events {
    /// The events of a team that came in from `start` on and before `end`, oldest first: at most `limit`, after the first
    /// `skip`.
    pub async fn stored(&self, team: i64, start: Time, end: Time, skip: usize, limit: usize) -> Result<Vec<Stored>> {
        let mut rows = self.scan(Scan {
            team,
            query: Query::of(Model::Events, &COLUMNS),
            start: Some(start),
            end,
            limit: Some(skip.saturating_add(limit)),
        });
        let mut found = Vec::new();
        let mut left = skip;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let skipped = left.min(batch.num_rows());
            left -= skipped;
            found.extend((skipped..batch.num_rows()).map(|row| stored(&batch, row)));
        }
        Ok(found)
    }
}

fn stored(batch: &RecordBatch, row: usize) -> Stored {
    let text = |column: usize| {
        let texts = batch.column(column).as_string::<i32>();
        texts.is_valid(row).then(|| texts.value(row))
    };
    let time = |column: usize| {
        let times = batch.column(column).as_primitive::<TimestampMicrosecondType>();
        Time::from_timestamp_micros(times.value(row)).unwrap_or_default()
    };
    let json = |column: usize| {
        text(column)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    };
    let owned = |column: usize| text(column).unwrap_or_default().to_owned();
    Stored {
        uuid: owned(0),
        event: owned(1),
        distinct_id: owned(2),
        properties: json(3),
        timestamp: time(4),
        ingested_at: time(5),
        elements_chain: owned(6),
        person_id: text(7).map(str::to_owned),
        person_properties: json(8),
    }
}
