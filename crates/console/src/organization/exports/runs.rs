//! The runs of an export: as a picture, and one by one.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::{ChangeExports, ReadExports};
use service::batch_exports::{BatchExport, Run, RunFilter, RunStatus};
use service::{ExportId, RunId, Service};

use super::runs_chart::{self, RunsChart};
use super::status::{self, Tag};
use super::{figures, labels};
use crate::choices::Select;
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::page;
use crate::paging::{PageNumber, Pages, with_query};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, InQuery};

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/exports/{export}/runs/", get(list))
}

#[derive(Template)]
#[template(path = "organization/exports/runs.html")]
struct RunsPage {
    frame: Frame,
    /// Where pages of this export begin.
    base: String,
    export: ExportId,
    name: String,
    chart: Option<RunsChart>,
    status: Select,
    /// Only runs of this backfill.
    backfill: String,
    is_filtered: bool,
    count: String,
    runs: Vec<Row>,
    /// When the first run starts, as long as there was none.
    first_run: Option<String>,
    pages: Pages,
    may_backfill: bool,
    curl: AsCurl,
}

struct Row {
    id: RunId,
    interval: String,
    tag: Tag,
    rows: String,
    size: String,
    took: String,
    attempts: i64,
    error: Option<String>,
}

impl From<&Run> for Row {
    fn from(run: &Run) -> Self {
        let known = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        Self {
            id: run.id,
            interval: figures::interval(run.data_interval_start, run.data_interval_end),
            tag: status::tag(run.status),
            rows: known(run.records_completed.map(figures::number)),
            size: known(run.bytes_exported.map(figures::bytes)),
            took: known(runs_chart::duration(run)),
            attempts: run.attempt,
            error: run.latest_error.as_deref().map(show::sentence),
        }
    }
}

/// The filters, as they stand in the address.
#[derive(Debug, Default, Deserialize)]
struct RunsQuery {
    #[serde(default)]
    status: String,
    #[serde(default)]
    backfill: String,
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

impl RunsQuery {
    /// What cannot be read says nothing.
    fn filter(&self) -> RunFilter {
        RunFilter {
            status: self.status.parse().ok(),
            backfill: self.backfill.parse().ok(),
            ..RunFilter::default()
        }
    }
}

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadExports>,
    Id(id): Id<ExportId>,
    InQuery(asked): InQuery<RunsQuery>,
) -> Result<Response, Failure> {
    let export = service.batch_export(&access.caller, id).await?.export;
    let newest = service.newest_runs(&access.caller, id, runs_chart::SHOWN).await?;
    let (filter, place) = (asked.filter(), PageNumber::read(&asked.page));
    let runs = service.runs(&access.caller, id, &filter, place.window()).await?;
    let status = filter.status.map(RunStatus::as_str).unwrap_or_default();
    let backfill = filter.backfill.map(|id| id.to_string()).unwrap_or_default();
    let filters = [("status", status), ("backfill", backfill.as_str())];
    let below = format!("exports/{id}/runs/");
    let api = access.api(&format!("batch_exports/{id}/runs/"));
    let call = Call::get::<ReadExports>("List the runs", with_query(&api, filters));
    Ok(page(&RunsPage {
        frame: frame(&access, &export).noting(&asked.done),
        base: access.path(&format!("exports/{id}/")),
        export: id,
        name: export.name.to_string(),
        chart: RunsChart::new(&newest),
        status: select(status),
        is_filtered: filters.iter().any(|(_, value)| !value.is_empty()),
        count: show::counted(runs.count, "run"),
        runs: runs.items.iter().map(Row::from).collect(),
        first_run: labels::first_run(&export, service.clock().now()),
        pages: Pages::new(&access.path(&below), &filters, place, runs.count),
        may_backfill: access.may::<ChangeExports>(),
        curl: AsCurl::new(&service, [call]),
        backfill,
    }))
}

fn select(chosen: &str) -> Select {
    let known = status::FILTERS.iter().map(|(status, title)| (status.as_str(), *title));
    Select::new("status", "Status", [("", "All")].into_iter().chain(known), chosen)
}

/// What stands around the pages of an export's runs and backfills.
pub(super) fn frame<P>(access: &OrganizationAccess<P>, export: &BatchExport) -> Frame {
    let below = format!("exports/{}/", export.id);
    Frame::new(access, Section::Exports)
        .below()
        .through(&below, export.name.to_string())
}
