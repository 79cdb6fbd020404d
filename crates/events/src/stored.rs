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
    /// Whether nothing is left out; else it is large, and [`Events::stored_event`] has all of it.
    pub is_whole: bool,
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

    /// The events of a team that came in from `start` on and before `end`, oldest first, after the first `skip`. Of a large one properties and
    /// elements are left out, and it comes alone: many may read at the same time.
    #[boxed]
    pub async fn stored(&self, team: i64, start: Time, end: Time, skip: usize, most: Most) -> Result<StoredEvents> {
        let _turn = match self {
            Self::Embedded(store) => Some(store.turn_to_look().await?),
            Self::ClickHouse(_) => None,
        };
        let mut rows = self.scan_in(Portion::SMALL, scan(team, start, end, skip, most.events));
        let (mut events, mut bytes) = (Vec::new(), 0_usize);
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let event = stored(&batch, row);
                bytes = bytes.saturating_add(event.bytes());
                let is_alone = !event.is_whole;
                let is_next = events.is_empty() || (bytes <= most.bytes && !is_alone);
                if is_next {
                    events.push(event);
                }
                if !is_next || is_alone {
                    return Ok(StoredEvents { events, is_end: false });
                }
            }
        }
        let is_end = events.len() < most.events;
        Ok(StoredEvents { events, is_end })
    }

    /// The first event that [`Self::stored`] would give, however large it is. No other is read.
    #[boxed]
    pub async fn stored_event(&self, team: i64, start: Time, end: Time, skip: usize) -> Result<Option<Stored>> {
        let mut rows = self.scan_in(Portion::ONE, scan(team, start, end, skip, 1));
        let batch = rows.next().await.transpose()?;
        let batch = batch.filter(|batch| batch.num_rows() > 0);
        Ok(batch.map(|batch| stored(&batch, 0)))
    }
}

fn scan(team: i64, start: Time, end: Time, skip: usize, limit: usize) -> Scan {
    Scan {
        team,
        query: Query::of(Model::Events, &COLUMNS),
        start: Some(start),
        end,
        skip,
        limit: Some(limit),
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
    let is_whole = text(3).is_some();
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
        is_whole,
    }
}
