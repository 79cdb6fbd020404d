//! What was delivered for an interval, written beside its files as the last of them.

use std::collections::HashSet;

use arrow_schema::{DataType, Field, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use service::Time;
use uuid::Uuid;

use crate::Delivery;
use crate::destinations::answers::Bounded;
use crate::formats::Facts;

/// Of [`Record`]; readers can tell later ones apart.
const VERSION: u32 = 1;
/// Of an interval.
const MAX_FILES: usize = 200_000;

/// `files` is what the origin writes, so its readers work; the rest is ours.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(deserialize_with = "few")]
    pub files: Vec<String>,
    pub hedgerow: Record,
}

/// What another delivery of the interval needs to know: the rest is not built, as a run keeps this to its end.
#[derive(Debug, Deserialize)]
pub(crate) struct EarlierManifest {
    #[serde(deserialize_with = "few")]
    pub(crate) files: Vec<String>,
    pub(crate) hedgerow: EarlierRecord,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EarlierRecord {
    pub(crate) export: Uuid,
}

/// Names can be short, and a store can send any manifest: in memory, each takes more than its text.
fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Bounded::<T, MAX_FILES>::deserialize(deserializer).map(|Bounded(items)| items)
}

/// Enough to check a delivery without asking anybody.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    pub export: Uuid,
    pub model: String,
    pub interval: Interval,
    pub rows: u64,
    pub bytes: u64,
    #[serde(deserialize_with = "few")]
    pub schema: Vec<ColumnRecord>,
    #[serde(deserialize_with = "few")]
    pub files: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    pub start: Time,
    pub end: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnRecord {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub key: String,
    pub bytes: u64,
    pub rows: u64,
    pub sha256: String,
}

impl Entry {
    pub(crate) fn new(key: String, facts: Facts) -> Self {
        Self {
            key,
            bytes: facts.bytes,
            rows: facts.rows,
            sha256: facts.sha256,
        }
    }
}

impl Manifest {
    pub(crate) fn new(delivery: &Delivery, files: Vec<Entry>) -> Self {
        Self {
            files: files.iter().map(|file| file.key.clone()).collect(),
            hedgerow: Record {
                version: VERSION,
                export: delivery.export.0,
                model: delivery.model.name().to_owned(),
                interval: Interval {
                    start: delivery.start,
                    end: delivery.end,
                },
                rows: files.iter().map(|file| file.rows).sum(),
                bytes: files.iter().map(|file| file.bytes).sum(),
                schema: columns(&delivery.schema),
                files,
            },
        }
    }

    /// Whether its two lists of files, and its sums, say the same.
    pub(crate) fn agrees_with_itself(&self) -> bool {
        let record = &self.hedgerow;
        let plain: HashSet<&str> = self.files.iter().map(String::as_str).collect();
        let ours: HashSet<&str> = record.files.iter().map(|file| file.key.as_str()).collect();
        plain == ours
            && self.files.len() == record.files.len()
            && record.rows == record.files.iter().map(|file| file.rows).sum::<u64>()
            && record.bytes == record.files.iter().map(|file| file.bytes).sum::<u64>()
    }
}

fn columns(schema: &Schema) -> Vec<ColumnRecord> {
    let record = |field: &Field| ColumnRecord {
        name: field.name().clone(),
        kind: kind(field).to_owned(),
    };
    schema.fields().iter().map(|field| record(field)).collect()
}

fn kind(field: &Field) -> &'static str {
    match field.data_type() {
        DataType::Utf8 if field.metadata().contains_key("json") => "json",
        DataType::Int64 => "int",
        DataType::Float64 => "float",
        DataType::Boolean => "bool",
        DataType::Timestamp(..) => "time",
        _ => "text",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_an_earlier_manifest_only_the_files_are_read() {
        let export = Uuid::from_u128(7);
        let text =
            json!({ "files": ["a", "b"], "hedgerow": { "export": export, "schema": 1, "files": null } }).to_string();
        let earlier: EarlierManifest = serde_json::from_str(&text).unwrap();
        assert_eq!((earlier.files.len(), earlier.hedgerow.export), (2, export));
        let files = vec!["a"; MAX_FILES + 1];
        let text = json!({ "files": files, "hedgerow": { "export": export } }).to_string();
        assert!(serde_json::from_str::<EarlierManifest>(&text).is_err());
    }

    #[test]
    fn a_manifest_with_no_end_of_files_is_refused() {
        let manifest = |count: usize| {
            json!({
                "files": vec![""; count],
                "hedgerow": {
                    "version": 1, "export": Uuid::nil(), "model": "events", "rows": 0, "bytes": 0, "schema": [], "files": [],
                    "interval": { "start": "2026-11-18T00:00:00Z", "end": "2026-11-18T01:00:00Z" },
                },
            })
            .to_string()
        };
        assert!(serde_json::from_str::<Manifest>(&manifest(MAX_FILES)).is_ok());
        assert!(serde_json::from_str::<Manifest>(&manifest(MAX_FILES + 1)).is_err());
    }
}
