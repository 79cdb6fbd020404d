//! The first rows of an export, as they would land.

use events::Scan;
use serde::Serialize;
use serde_json::{Map, Value};
use service::access::{Caller, ReadExports};
use service::{ExportId, Result};

use crate::exporter::{Exports, query_of, store_failed, unusable};
use crate::{destinations, formats};

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
            found.extend(formats::objects(&batch).map_err(|error| unusable(&error))?);
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
