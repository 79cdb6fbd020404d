//! What was delivered for an interval, written beside its files as the last of them.

use std::collections::HashSet;

use arrow::datatypes::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};
use service::Time;
use uuid::Uuid;

use crate::Delivery;
use crate::formats::Facts;

/// Of [`Record`]; readers can tell later ones apart.
const VERSION: u32 = 1;

/// `files` is what the origin writes, so its readers work; the rest is ours.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    pub files: Vec<String>,
    pub hedgerow: Record,
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
    pub schema: Vec<ColumnRecord>,
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
