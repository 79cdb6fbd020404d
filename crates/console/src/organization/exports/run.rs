//! One run: how far it is, what happened in it, and asking for it again or calling it off.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use service::access::{ChangeExports, Permission, ReadExports};
use service::batch_exports::{LogEntry, LogFilter, LogLevel, Run, RunStatus};
use service::{BackfillId, ExportId, RunId, Service};

use super::progress::Progress;
use super::status::{self, Tag};
use super::{figures, runs};
use crate::choices::Select;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::paging::{PageNumber, Pages, with_query};
use crate::show;
use crate::state::Console;
use crate::visitor::{Ids, InQuery};

macro_rules! run {
    ($rest:literal) => {
        concat!("/organizations/{organization}/exports/{export}/runs/{run}/", $rest)
    };
}

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(run!(""), get(show_run))
        .route(run!("retry/"), post(retry))
        .route(run!("cancel/"), post(cancel))
}

#[derive(Template)]
#[template(path = "organization/exports/run.html")]
struct RunPage {
    frame: Frame,
    alerts: Vec<String>,
    /// Where pages of this export begin.
    base: String,
    /// This very page, filters included.
    here: String,
    id: RunId,
    interval: String,
    tag: Tag,
    advice: String,
    error: Option<String>,
    progress: Progress,
    /// Something moves.
    is_live: bool,
    backfill: Option<BackfillId>,
    act: Option<Act>,
    level: Select,
    is_filtered: bool,
    logs: Vec<Line>,
    pages: Pages,
    curl: AsCurl,
}

/// What can be done about a run.
struct Act {
    path: &'static str,
    button: &'static str,
    class: &'static str,
    hint: &'static str,
}

impl Act {
    fn about(status: RunStatus) -> Self {
        if !status.is_over() {
            return Self {
                path: "cancel/",
                button: "Cancel run",
                class: "danger",
                hint: "What it sent is rolled back. You can retry it later.",
            };
        }
        let is_delivered = status == RunStatus::Completed;
        Self {
            path: "retry/",
            button: if is_delivered { "Re-run" } else { "Retry" },
            class: if is_delivered { "" } else { "primary" },
            hint: "Exports the interval again from the start. Existing data is replaced, not duplicated.",
        }
    }
}

struct Line {
    time: String,
    exactly: String,
    tag: Tag,
    message: String,
}

impl From<&LogEntry> for Line {
    fn from(entry: &LogEntry) -> Self {
        let (word, class) = match entry.level {
            LogLevel::Info => ("Info", ""),
            LogLevel::Warning => ("Warning", "tag-warning"),
            LogLevel::Error => ("Error", "tag-danger"),
        };
        Self {
            time: entry.created_at.format("%-d %b, %H:%M:%S").to_string(),
            exactly: show::exactly(entry.created_at),
            tag: Tag { word, class },
            message: entry.message.clone(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct RunQuery {
    /// Which log entries.
    #[serde(default)]
    level: String,
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

async fn show_run(
    State(service): State<Service>,
    access: OrganizationAccess<ReadExports>,
    Ids(export, run): Ids<ExportId, RunId>,
    InQuery(asked): InQuery<RunQuery>,
) -> Result<Response, Failure> {
    run_page(&service, &access, (export, run), &asked, &Problems::default()).await
}

async fn retry(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeExports>,
    Ids(export, run): Ids<ExportId, RunId>,
) -> Result<Response, Failure> {
    let retried = service.retry_run(&access.caller, export, run).await;
    after(&service, &mut access, (export, run), retried, "retried").await
}

async fn cancel(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeExports>,
    Ids(export, run): Ids<ExportId, RunId>,
) -> Result<Response, Failure> {
    let cancelled = service.cancel_run(&access.caller, export, run).await;
    after(&service, &mut access, (export, run), cancelled, "run-cancelled").await
}

async fn after(
    service: &Service,
    access: &mut OrganizationAccess<ChangeExports>,
    ids: (ExportId, RunId),
    changed: service::Result<Run>,
    done: &str,
) -> Result<Response, Failure> {
    match changed {
        Ok(_) => Ok(go_to(
            &access.path(&format!("exports/{}/runs/{}/?done={done}", ids.0, ids.1)),
        )),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(service).await?;
            run_page(service, access, ids, &RunQuery::default(), &problems).await
        }
    }
}

async fn run_page<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    (export, id): (ExportId, RunId),
    asked: &RunQuery,
    problems: &Problems,
) -> Result<Response, Failure> {
    let reader = access.also::<ReadExports>(service).await?;
    let export = service.batch_export(&reader, export).await?.export;
    let run = service.run(&reader, export.id, id).await?;
    let (level, place): (Option<LogLevel>, _) = (asked.level.parse().ok(), PageNumber::read(&asked.page));
    let filter = LogFilter {
        run: Some(id),
        level,
        ..LogFilter::default()
    };
    let logs = service.export_logs(&reader, export.id, &filter, place.window()).await?;
    let level = level.map(LogLevel::as_str).unwrap_or_default();
    let base = access.path(&format!("exports/{}/", export.id));
    let path = format!("{base}runs/{id}/");
    let shown = RunPage {
        frame: runs::frame(access, &export)
            .through(&format!("exports/{}/runs/", export.id), "Runs")
            .noting(&asked.done),
        alerts: problems.besides(&[]),
        here: with_query(&path, [("level", level), ("page", asked.page.as_str())]),
        base,
        id,
        interval: figures::interval(run.data_interval_start, run.data_interval_end),
        tag: status::tag(run.status),
        advice: status::advice(&run, export.paused),
        error: run.latest_error.as_deref().map(show::sentence),
        progress: Progress::new(&run, service.clock().now()),
        is_live: !run.status.is_over(),
        backfill: run.backfill,
        act: access.may::<ChangeExports>().then(|| Act::about(run.status)),
        level: select(level),
        is_filtered: !level.is_empty(),
        logs: logs.items.iter().map(Line::from).collect(),
        pages: Pages::new(&path, &[("level", level)], place, logs.count),
        curl: AsCurl::new(service, calls(access, &run, level)),
    };
    Ok(page_again(problems, &shown))
}

fn select(chosen: &str) -> Select {
    let levels = [
        ("", "All"),
        ("INFO", "Info"),
        ("WARNING", "Warnings"),
        ("ERROR", "Errors"),
    ];
    Select::new("level", "Level", levels, chosen)
}

fn calls<P: Permission>(access: &OrganizationAccess<P>, run: &Run, level: &str) -> Vec<Call> {
    let api = access.api(&format!("batch_exports/{}/runs/{}/", run.batch_export, run.id));
    let logs = with_query(&format!("{api}logs/"), [("level", level)]);
    let mut calls = vec![
        Call::get::<ReadExports>("Read the run", api.as_str()),
        Call::get::<ReadExports>("Read its log", logs),
    ];
    if access.may::<ChangeExports>() {
        calls.push(if run.status.is_over() {
            Call::post::<ChangeExports>("Re-run the interval", format!("{api}retry/"))
        } else {
            Call::post::<ChangeExports>("Cancel the run", format!("{api}cancel/"))
        });
    }
    calls
}
