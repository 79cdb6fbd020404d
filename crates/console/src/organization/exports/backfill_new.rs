//! A new backfill: its range, picked from the calendar or typed.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chrono::{Datelike, NaiveDateTime};
use exports::Exports;
use serde::Deserialize;
use serde_json::json;
use service::access::ChangeExports;
use service::batch_exports::{BackfillPlan, BackfillRequest};
use service::{Error, ExportId, Time};

use super::calendar::{Calendar, FORMAT, Picked, View};
use super::month::Month;
use super::{figures, runs};
use crate::choices::Switch;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, InQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/exports/{export}/backfills/new/",
        get(form).post(begin),
    )
}

#[derive(Template)]
#[template(path = "organization/exports/backfill_new.html")]
struct NewPage {
    frame: Frame,
    alerts: Vec<String>,
    /// Where pages of this export begin.
    base: String,
    month: String,
    start: Field,
    end: Field,
    resend: Switch,
    /// What it would come to, unless something is wrong.
    plan: Option<String>,
    /// What the next click does.
    hint: &'static str,
    calendar: Calendar,
    curl: AsCurl,
}

/// What was picked or typed: links call it by its short name, the form as the service does.
#[derive(Debug, Default, Deserialize)]
struct BackfillForm {
    #[serde(default, alias = "start_at")]
    start: String,
    #[serde(default, alias = "end_at")]
    end: String,
    #[serde(default)]
    resend: String,
    #[serde(default)]
    month: String,
}

impl BackfillForm {
    fn is_resend(&self) -> bool {
        !self.resend.is_empty()
    }

    fn request(&self) -> Result<BackfillRequest, Error> {
        Ok(BackfillRequest {
            start_at: time("start_at", &self.start)?,
            end_at: time("end_at", &self.end)?,
            resend: self.is_resend().then_some(true),
        })
    }
}

/// Without a zone it is UTC: intervals are aligned to it.
fn time(field: &'static str, text: &str) -> Result<Option<Time>, Error> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let formats = [FORMAT, "%Y-%m-%dT%H:%M:%S"];
    let read = formats
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    // Years beyond these cannot be reckoned with, and are slips of the hand.
    let read = read.filter(|read| (1970..=9000).contains(&read.year()));
    let wrong = || Error::invalid(field, "invalid_input", "enter a valid time, such as 2026-11-15T09:00");
    read.map(|read| Some(read.and_utc())).ok_or_else(wrong)
}

async fn form(
    State(exports): State<Exports>,
    access: OrganizationAccess<ChangeExports>,
    Id(id): Id<ExportId>,
    InQuery(wanted): InQuery<BackfillForm>,
) -> Result<Response, Failure> {
    let planned = match wanted.request() {
        Ok(request) => exports.plan_backfill(&access.caller, id, &request).await,
        Err(error) => Err(error),
    };
    match planned {
        Ok(plan) => new_page(&exports, &access, id, &wanted, Ok(plan)).await,
        Err(error) => new_page(&exports, &access, id, &wanted, Err(Problems::try_from(error)?)).await,
    }
}

async fn begin(
    State(exports): State<Exports>,
    mut access: OrganizationAccess<ChangeExports>,
    Id(id): Id<ExportId>,
    Sent(wanted): Sent<BackfillForm>,
) -> Result<Response, Failure> {
    let begun = match wanted.request() {
        Ok(request) => exports.backfill(&access.caller, id, &request).await,
        Err(error) => Err(error),
    };
    match begun {
        Ok((_, backfill)) => Ok(go_to(&access.path(&format!(
            "exports/{id}/backfills/{}/?done=backfill-started",
            backfill.id
        )))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(exports.service()).await?;
            new_page(&exports, &access, id, &wanted, Err(problems)).await
        }
    }
}

async fn new_page(
    exports: &Exports,
    access: &OrganizationAccess<ChangeExports>,
    id: ExportId,
    wanted: &BackfillForm,
    planned: Result<BackfillPlan, Problems>,
) -> Result<Response, Failure> {
    let service = exports.service();
    let export = service.batch_export(&access.caller, id).await?.export;
    let (base, now) = (access.path(&format!("exports/{id}/")), service.clock().now());
    let (plan, problems) = match planned {
        Ok(plan) => (Some(plan), Problems::default()),
        Err(problems) => (None, problems),
    };
    // What cannot be read is said beside its field; the calendar does without it.
    let read = |text: &str| time("", text).ok().flatten();
    let picked = Picked {
        start: read(&wanted.start),
        end: read(&wanted.end),
    };
    let path = format!("{base}backfills/new/");
    let view = View {
        interval: export.interval,
        month: Month::read(&wanted.month, picked.start.unwrap_or(now)),
        picked,
        path: &path,
        is_resend: wanted.is_resend(),
    };
    let covered = exports.coverage(&access.caller, id, view.span()).await?;
    let shown = NewPage {
        frame: runs::frame(access, &export).through(&format!("exports/{id}/backfills/"), "Backfills"),
        alerts: problems.besides(&["start_at", "end_at"]),
        base,
        month: view.month.text(),
        start: Field::minute("start_at", "From")
            .optional()
            .hint("Defaults to the earliest data.")
            .holding(wanted.start.as_str())
            .judged(&problems),
        end: Field::minute("end_at", "Until")
            .optional()
            .hint("Defaults to the last complete interval.")
            .holding(wanted.end.as_str())
            .judged(&problems),
        resend: resend(wanted.is_resend()),
        plan: plan.map(|plan| words(&plan, wanted.is_resend())),
        hint: hint(picked),
        calendar: view.calendar(&covered, now),
        curl: AsCurl::new(service, [call(access, id, picked, wanted.is_resend())]),
    };
    Ok(page_again(&problems, &shown))
}

fn resend(is_on: bool) -> Switch {
    let hint = "Data at the destination is replaced, not duplicated. When off, only missing intervals are exported.";
    Switch::new("resend", "Re-export delivered intervals", hint, is_on)
}

fn hint(picked: Picked) -> &'static str {
    match (picked.start, picked.end) {
        (None, None) => "Choose the first interval of the range.",
        (Some(_), None) => "Now choose the last interval of the range. By default, it is the last complete one.",
        _ => "The range is selected. Start the backfill above, or choose a new first interval.",
    }
}

fn words(plan: &BackfillPlan, is_resend: bool) -> String {
    if plan.intervals == 0 {
        return "Nothing to backfill: the range has no data, or scheduled runs deliver it.".to_owned();
    }
    let range = figures::interval(plan.start_at, plan.end_at);
    let count = show::counted(plan.intervals, "interval");
    let rest = if is_resend {
        "All of them are exported again"
    } else {
        "Intervals already delivered are skipped"
    };
    format!("{range} UTC: {count}. {rest}.")
}

fn call(access: &OrganizationAccess<ChangeExports>, id: ExportId, picked: Picked, is_resend: bool) -> Call {
    let mut body = json!({});
    for (key, time) in [("start_at", picked.start), ("end_at", picked.end)] {
        if let Some(time) = time {
            body[key] = show::exactly(time).into();
        }
    }
    if is_resend {
        body["resend"] = true.into();
    }
    let path = access.api(&format!("batch_exports/{id}/backfills/"));
    Call::post::<ChangeExports>("Start the backfill", path).sending(body)
}
