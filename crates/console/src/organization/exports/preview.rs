//! The first rows of an export, as they would land.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use exports::{Exports, Preview};
use serde_json::Value;
use service::access::ReadExports;
use service::{ExportId, Service};

use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::page_again;
use crate::show;
use crate::state::Console;
use crate::visitor::Id;

/// Longer texts are cut: a row should still be seen as a row.
const MAX_CELL: usize = 200;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/exports/{export}/preview/",
        get(show_preview),
    )
}

#[derive(Template)]
#[template(path = "organization/exports/preview.html")]
struct PreviewPage {
    frame: Frame,
    alerts: Vec<String>,
    name: String,
    path: String,
    columns: Vec<(String, &'static str)>,
    rows: Vec<Vec<Cell>>,
    count: String,
    curl: AsCurl,
}

/// None: there is no value.
struct Cell(Option<String>);

impl From<Option<&Value>> for Cell {
    fn from(value: Option<&Value>) -> Self {
        let text = match value {
            None | Some(Value::Null) => return Self(None),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        if text.chars().count() <= MAX_CELL {
            return Self(Some(text));
        }
        let start: String = text.chars().take(MAX_CELL).collect();
        Self(Some(format!("{start}…")))
    }
}

async fn show_preview(
    State(service): State<Service>,
    State(exports): State<Exports>,
    mut access: OrganizationAccess<ReadExports>,
    Id(id): Id<ExportId>,
) -> Result<Response, Failure> {
    access.give_up_slot();
    let preview = exports.preview(&access.caller, id).await;
    // Afterwards, as many may wait for a preview.
    let export = service.batch_export(&access.caller, id).await?.export;
    let (preview, problems) = match preview {
        Ok(preview) => (preview, Problems::default()),
        Err(error) => (nothing(), Problems::try_from(error)?),
    };
    let below = format!("exports/{id}/");
    let api = access.api(&format!("batch_exports/{id}/preview/"));
    let cells = preview.rows.iter().map(|row| {
        let cells = preview.columns.iter().map(|column| row.get(&column.name).into());
        cells.collect()
    });
    let count = i64::try_from(preview.rows.len()).unwrap_or(i64::MAX);
    let shown = PreviewPage {
        frame: Frame::new(&access, Section::Exports)
            .below()
            .through(&below, export.name.to_string()),
        alerts: problems.besides(&[]),
        name: export.name.to_string(),
        path: access.path(&below),
        rows: cells.collect(),
        count: show::counted(count, "row"),
        columns: preview
            .columns
            .iter()
            .map(|column| (column.name.clone(), column.kind))
            .collect(),
        curl: AsCurl::new(&service, [Call::get::<ReadExports>("Read the first rows", api)]),
    };
    Ok(page_again(&problems, &shown))
}

fn nothing() -> Preview {
    Preview {
        columns: Vec::new(),
        rows: Vec::new(),
    }
}
