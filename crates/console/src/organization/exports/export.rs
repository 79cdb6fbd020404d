//! One export: where it goes, how it stands, and what can be done with it.

use askama::Template;
use axum::Router;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};
use service::access::{ChangeExports, ReadExports};
use service::batch_exports::destination::{ConfigField, FieldKind};
use service::batch_exports::{BatchExport, ExportSeen, Run};
use service::{ExportId, RunId, Service, Time};

use super::figures;
use super::inputs::option_title;
use super::labels::{self, State};
use super::list::teams;
use super::status::{self, Tag};
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::organization::recent_runs::{Legend, RecentRuns};
use crate::page::page;
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, PageQuery};

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/exports/{export}/", get(show_export))
}

#[derive(Template)]
#[template(path = "organization/exports/export.html")]
struct ExportPage {
    frame: Frame,
    id: ExportId,
    name: String,
    state: State,
    is_paused: bool,
    failure: Option<Failed>,
    picture: Option<RecentRuns>,
    legend: Option<Legend>,
    latest: Option<Latest>,
    next: String,
    /// When the first run starts, as long as there was none.
    first_run: Option<String>,
    /// A run is in progress.
    is_live: bool,
    facts: Vec<(&'static str, String)>,
    destination: Vec<(&'static str, String)>,
    query: Option<String>,
    may_change: bool,
    curl: AsCurl,
}

struct Failed {
    run: RunId,
    text: String,
}

impl Failed {
    fn of(seen: &ExportSeen) -> Option<Self> {
        let run = labels::latest_failure(seen)?;
        let why = run.latest_error.as_deref().unwrap_or("the run failed");
        Some(Self {
            run: run.id,
            text: show::sentence(why),
        })
    }
}

/// The newest run, and how it stands.
struct Latest {
    id: RunId,
    interval: String,
    tag: Tag,
}

impl From<&Run> for Latest {
    fn from(run: &Run) -> Self {
        Self {
            id: run.id,
            interval: figures::interval(run.data_interval_start, run.data_interval_end),
            tag: status::tag(run.status),
        }
    }
}

async fn show_export(
    Shared(service): Shared<Service>,
    access: OrganizationAccess<ReadExports>,
    Id(id): Id<ExportId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let seen = service.batch_export(&access.caller, id).await?;
    let export = &seen.export;
    let teams = teams(&service, &access).await?;
    let team = teams.into_iter().find(|(team, _)| *team == export.team_id);
    let team = team.map(|(_, name)| name).unwrap_or_default();
    let may_change = access.may::<ChangeExports>();
    let picture = RecentRuns::new(&seen.latest_runs);
    Ok(page(&ExportPage {
        frame: Frame::new(&access, Section::Exports).below().noting(&asked.done),
        id,
        name: export.name.to_string(),
        state: State::of(&seen),
        is_paused: export.paused,
        failure: Failed::of(&seen),
        legend: Legend::of(&picture),
        picture,
        latest: seen.latest_runs.first().map(Latest::from),
        next: next_run(export, service.clock().now()),
        first_run: labels::first_run(export, service.clock().now()),
        is_live: seen.latest_runs.iter().any(|run| !run.status.is_over()),
        facts: facts(export, team),
        destination: settings(export),
        query: export.hogql_query.clone(),
        may_change,
        curl: AsCurl::new(&service, calls(&access, export, may_change)),
    }))
}

fn next_run(export: &BatchExport, now: Time) -> String {
    match export.next_run_at {
        Some(time) => format!("{}, at {}", show::until(time, now), labels::minute(time)),
        None if export.paused => "None while paused".to_owned(),
        None => "None: the end date has passed".to_owned(),
    }
}

fn facts(export: &BatchExport, team: String) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Data", labels::model(export.model.name()).to_owned()),
        ("Team", team),
        ("Frequency", labels::interval(export.interval).to_owned()),
    ];
    let times = [
        ("Start date", export.start_at),
        ("End date", export.end_at),
        ("Last paused", export.last_paused_at),
    ];
    facts.extend(
        times
            .into_iter()
            .filter_map(|(label, time)| Some((label, labels::minute(time?)))),
    );
    facts.push(("Created", labels::minute(export.created_at)));
    facts.push(("Last updated", labels::minute(export.updated_at)));
    facts
}

/// What may be shown of where it goes, in the table's words and order.
fn settings(export: &BatchExport) -> Vec<(&'static str, String)> {
    let mut shown = vec![("Type", export.kind.title().to_owned())];
    settings_of(export.kind.fields(), &export.config, &mut shown);
    shown
}

fn settings_of(
    fields: impl Iterator<Item = &'static ConfigField>,
    config: &Map<String, Value>,
    shown: &mut Vec<(&'static str, String)>,
) {
    for field in fields {
        match (field.kind, config.get(field.key)) {
            (FieldKind::Group(inner), Some(Value::Object(inside))) => settings_of(inner.iter(), inside, shown),
            (FieldKind::Choice(_), Some(Value::String(chosen))) => {
                shown.push((field.label, option_title(chosen).to_owned()));
            }
            (_, Some(value)) => shown.extend(said(value).map(|text| (field.label, text))),
            (_, None) => {}
        }
    }
}

/// None: there is nothing to see.
fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Bool(is_on) => Some(if *is_on { "Yes" } else { "No" }.to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(said).collect();
            (!items.is_empty()).then(|| items.join(", "))
        }
        Value::Null | Value::Object(_) => None,
    }
}

fn calls(access: &OrganizationAccess<ReadExports>, export: &BatchExport, may_change: bool) -> Vec<Call> {
    let api = access.api(&format!("batch_exports/{}/", export.id));
    let mut calls = vec![Call::get::<ReadExports>("Read the export", &api)];
    if may_change && export.paused {
        let unpause = Call::post::<ChangeExports>("Resume the export", format!("{api}unpause/"));
        calls.push(unpause.sending(json!({ "backfill": true })));
    } else if may_change {
        let pause = Call::post::<ChangeExports>("Pause the export", format!("{api}pause/"));
        calls.push(pause.sending(json!({})));
    }
    calls
}
