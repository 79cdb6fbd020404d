//! The first rows of an export, as they would land.

use std::time::Duration;

use boxed::boxed;
use events::{Rows, Scan};
use serde::Serialize;
use serde_json::{Map, Value};
use service::access::{Caller, ReadExports};
use service::{Error, ExportId, Result};

use crate::exporter::{Exports, query_of, store_failed, unusable};
use crate::{destinations, formats};

const ROWS: usize = 10;
/// Of all rows together, written as JSON. As values they take many times as much memory.
const MAX_BYTES: usize = 1 << 20;
/// Waiting for others' previews counts, too.
const MAX_TIME: Duration = Duration::from_secs(10);

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
    #[boxed]
    pub async fn preview(&self, caller: &Caller<ReadExports>, id: ExportId) -> Result<Preview> {
        // All of it when it is its turn: a query takes memory from the moment it is parsed, and many may wait.
        let shown = self.first_rows(caller, id);
        let shown = self.core.previews.run(caller.user, caller.organization, shown);
        let shown = tokio::time::timeout(MAX_TIME, shown).await.unwrap_or(Ok(None))?;
        shown.ok_or_else(too_slow)?
    }

    async fn first_rows(&self, caller: &Caller<ReadExports>, id: ExportId) -> Result<Preview> {
        let core = &self.core;
        let export = core.service.batch_export(caller, id).await?.export;
        let config = export.destination(core.service.instance())?;
        let destination =
            destinations::open(&config, &core.deps.of(export.organization_id)).map_err(|error| unusable(&error))?;
        let scan = Scan {
            team: export.team_id.0,
            query: query_of(&export, destination.layout(export.model)),
            start: None,
            end: core.service.clock().now(),
            skip: 0,
            limit: Some(ROWS),
        };
        let columns = scan.query.fields.iter().map(column).collect();
        let rows = objects(core.events.scan_to_show(scan, MAX_BYTES)).await?;
        Ok(Preview { columns, rows })
    }
}

/// Dropped, it ends the reading.
async fn objects(mut rows: Rows) -> Result<Vec<Map<String, Value>>> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(|error| not_read(&error))?;
        let lines = formats::lines(&batch).map_err(|error| unusable(&error))?;
        bytes += lines.len();
        if bytes > MAX_BYTES {
            return Err(too_large());
        }
        found.extend(formats::objects(&lines).map_err(|error| unusable(&error))?);
    }
    Ok(found)
}

fn not_read(error: &events::Error) -> Error {
    match error {
        events::Error::TooLarge => too_large(),
        error if error.is_out_of_memory() => out_of_memory(),
        error => store_failed(error),
    }
}

/// It is the preview that is too large: a run takes larger rows.
fn too_large() -> Error {
    Error::Conflict {
        code: "query_too_large",
        detail: format!(
            "the first {ROWS} rows are larger than {} MiB, too large for a preview: select less, or shorten texts with substring",
            MAX_BYTES >> 20
        ),
    }
}

fn out_of_memory() -> Error {
    Error::Conflict {
        code: "query_too_large",
        detail:
            "the query needs more memory at ClickHouse than a preview has: select less, or shorten texts with substring"
                .to_owned(),
    }
}

fn too_slow() -> Error {
    Error::Conflict {
        code: "preview_timed_out",
        detail: format!(
            "{ROWS} rows could not be found within {} seconds, or less while many previews run: make the query simpler or less \
             selective",
            MAX_TIME.as_secs()
        ),
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
