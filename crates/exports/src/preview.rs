//! The first rows of an export, as they would land.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampMicrosecondType};
use chrono::{DateTime, SecondsFormat, Utc};
use events::Scan;
use serde::Serialize;
use serde_json::{Map, Value};
use service::access::{Caller, ReadExports};
use service::{ExportId, Result};

use crate::destinations;
use crate::exporter::{Exports, query_of, store_failed, unusable};

const ROWS: usize = 10;

/// What an export would deliver first.
#[derive(Debug, Clone, Serialize)]
pub struct Preview {
    pub columns: Vec<PreviewColumn>,
    pub rows: Vec<Map<String, Value>>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PreviewColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
}

impl Exports {
    pub async fn preview(&self, caller: &Caller<ReadExports>, id: ExportId) -> Result<Preview> {
        let core = &self.core;
        let export = core.service.batch_export(caller, id).await?.export;
        let config = export.destination(core.service.instance())?;
        let destination = destinations::open(&config, &core.outside).map_err(|error| unusable(&error))?;
        let scan = Scan {
            team: export.team_id.0,
            query: query_of(&export, destination.layout(export.model)),
            start: None,
            end: core.service.clock().now(),
            limit: Some(ROWS),
        };
        let columns = scan.query.fields.iter().map(column).collect();
        let mut rows = core.events.scan(scan);
        let mut found = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(|error| store_failed(&error))?;
            found.extend((0..batch.num_rows()).map(|row| object(&batch, row)));
        }
        Ok(Preview { columns, rows: found })
    }
}

fn column(field: &hogql::Field) -> PreviewColumn {
    let kind = match field.kind {
        hogql::Type::Text => "text",
        hogql::Type::Json => "json",
        hogql::Type::Int => "integer",
        hogql::Type::Float => "float",
        hogql::Type::Bool => "boolean",
        hogql::Type::Time => "timestamp",
    };
    PreviewColumn {
        name: field.alias.clone(),
        kind,
    }
}

fn object(batch: &RecordBatch, row: usize) -> Map<String, Value> {
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(batch.columns());
    fields
        .map(|(field, column)| {
            let is_json = field.metadata().contains_key("json");
            (field.name().clone(), value(column, row, is_json))
        })
        .collect()
}

fn value(column: &dyn Array, row: usize, is_json: bool) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Utf8 => {
            let text = column.as_string::<i32>().value(row);
            let parsed = is_json.then(|| serde_json::from_str(text).ok()).flatten();
            parsed.unwrap_or_else(|| text.into())
        }
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into(),
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Timestamp(..) => {
            let micros = column.as_primitive::<TimestampMicrosecondType>().value(row);
            let time = DateTime::<Utc>::from_timestamp_micros(micros);
            time.map(|time| time.to_rfc3339_opts(SecondsFormat::Micros, true))
                .into()
        }
        other => format!("{other}").into(),
    }
}
