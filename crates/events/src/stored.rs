//! Events one by one, for those who hand each of them on.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch};
use boxed::boxed;
use hogql::{Column, Model, Query};
use serde_json::value::RawValue;

use crate::rows::Portion;
use crate::{Events, Result, Scan, Time};

/// An event as it is kept. Properties stay text: as values they take up to a hundred times as much memory.
#[derive(Debug, Clone)]
pub struct Stored {
    pub uuid: String,
    pub event: String,
    pub distinct_id: String,
    pub properties: Box<RawValue>,
    pub timestamp: Time,
    /// When it came in: what scans go by.
    pub ingested_at: Time,
    pub elements_chain: String,
    pub person_id: Option<String>,
    pub person_properties: Box<RawValue>,
}

impl Stored {
    /// How much it takes, about.
    pub fn bytes(&self) -> usize {
        let texts = [&self.uuid, &self.event, &self.distinct_id, &self.elements_chain].map(String::len);
        let properties = self.properties.get().len() + self.person_properties.get().len();
        size_of::<Self>() + texts.iter().sum::<usize>() + properties
    }
}

/// How much is read: what comes first ends it, but there is always one event.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    pub events: usize,
    pub bytes: usize,
}

#[derive(Debug)]
pub struct StoredEvents {
    pub events: Vec<Stored>,
    /// Whether there are no more.
    pub is_end: bool,
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
    /// Whether [`Self::stored`] would give any.
    #[boxed]
    pub async fn has_stored(&self, team: i64, start: Time, end: Time, skip: usize) -> Result<bool> {
        let scan = Scan {
            team,
            query: Query::of(Model::Events, &[]),
            start: Some(start),
            end,
            skip,
            limit: Some(1),
        };
        Ok(self.count(scan).await? > 0)
    }

    /// The events of a team that came in from `start` on and before `end`, oldest first, after the first `skip`.
    #[boxed]
    pub async fn stored(&self, team: i64, start: Time, end: Time, skip: usize, most: Most) -> Result<StoredEvents> {
        let scan = Scan {
            team,
            query: Query::of(Model::Events, &COLUMNS),
            start: Some(start),
            end,
            skip,
            limit: Some(most.events),
        };
        let mut rows = self.scan_in(Portion::SMALL, scan);
        let (mut events, mut bytes) = (Vec::new(), 0_usize);
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let event = stored(&batch, row);
                bytes = bytes.saturating_add(event.bytes());
                if bytes > most.bytes && !events.is_empty() {
                    return Ok(StoredEvents { events, is_end: false });
                }
                events.push(event);
            }
        }
        let is_end = events.len() < most.events;
        Ok(StoredEvents { events, is_end })
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
        let read = text(column).and_then(|text| serde_json::from_str(text).ok());
        read.unwrap_or_else(|| RawValue::NULL.to_owned())
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
