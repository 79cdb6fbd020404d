//! One backfill: how far it has got, and calling it off.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use service::access::{ChangeExports, Permission, ReadExports};
use service::batch_exports::{Backfill, BackfillStatus};
use service::{BackfillId, ExportId, Service, Time};

use super::backfills::range;
use super::status::{self, Tag};
use super::{figures, runs};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::confirm::ConfirmPage;
use crate::organization::frame::Frame;
use crate::page::{go_to, page, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Ids, PageQuery};

macro_rules! backfill {
    ($rest:literal) => {
        concat!(
            "/organizations/{organization}/exports/{export}/backfills/{backfill}/",
            $rest
        )
    };
}

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route(backfill!(""), get(show_backfill))
        .route(backfill!("cancel/"), get(ask).post(cancel))
}

#[derive(Template)]
#[template(path = "organization/exports/backfill.html")]
struct BackfillPage {
    frame: Frame,
    /// Where pages of this export begin.
    base: String,
    id: BackfillId,
    range: String,
    tag: Tag,
    text: &'static str,
    done: i64,
    total: i64,
    facts: Vec<(&'static str, String)>,
    is_live: bool,
    may_cancel: bool,
    curl: AsCurl,
}

async fn show_backfill(
    State(service): State<Service>,
    access: OrganizationAccess<ReadExports>,
    Ids(export, id): Ids<ExportId, BackfillId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let export = service.batch_export(&access.caller, export).await?.export;
    let backfill = service.backfill(&access.caller, export.id, id).await?;
    let is_live = backfill.status == BackfillStatus::Running;
    let may_cancel = is_live && access.may::<ChangeExports>();
    let api = api_path(&access, &backfill);
    let read = Call::get::<ReadExports>("Read the backfill", api.as_str());
    let cancel = Call::post::<ChangeExports>("Cancel the backfill", format!("{api}cancel/"));
    Ok(page(&BackfillPage {
        frame: runs::frame(&access, &export)
            .through(&format!("exports/{}/backfills/", export.id), "Backfills")
            .noting(&asked.done),
        base: access.path(&format!("exports/{}/", export.id)),
        id,
        range: range(&backfill),
        tag: status::tag_of_backfill(backfill.status),
        text: text(&backfill),
        done: backfill.finished_runs.min(backfill.total_runs),
        total: backfill.total_runs,
        facts: facts(&backfill, service.clock().now()),
        is_live,
        may_cancel,
        curl: AsCurl::new(&service, [read].into_iter().chain(may_cancel.then_some(cancel))),
    }))
}

fn text(backfill: &Backfill) -> &'static str {
    match backfill.status {
        BackfillStatus::Running => "Runs are created a few at a time, so that scheduled runs are not delayed.",
        BackfillStatus::Completed if backfill.total_runs == 0 => {
            "There was nothing to backfill: the range has no data, or scheduled runs deliver it."
        }
        BackfillStatus::Completed => "Everything in this range has been delivered.",
        BackfillStatus::Failed => {
            "Some runs failed. The other intervals were delivered. Open the failed runs, fix the errors, and retry them."
        }
        BackfillStatus::Cancelled => "The backfill was cancelled. What was delivered before stays.",
    }
}

fn facts(backfill: &Backfill, now: Time) -> Vec<(&'static str, String)> {
    let of = |done: i64, total: i64| format!("{} of {}", figures::number(done), figures::number(total));
    let done = backfill.finished_runs.min(backfill.total_runs);
    let mut facts = vec![
        ("Intervals completed", of(done, backfill.total_runs)),
        ("Skipped, already delivered", figures::number(backfill.skipped_runs)),
        (
            "Scope",
            if backfill.is_resend {
                "All intervals"
            } else {
                "Missing intervals only"
            }
            .to_owned(),
        ),
        ("Started", show::ago(backfill.created_at, now)),
    ];
    if let Some(end) = backfill.finished_at {
        facts.push(("Duration", figures::took(end - backfill.created_at)));
    }
    facts
}

fn api_path<P: Permission>(access: &OrganizationAccess<P>, backfill: &Backfill) -> String {
    access.api(&format!(
        "batch_exports/{}/backfills/{}/",
        backfill.batch_export, backfill.id
    ))
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeExports>,
    Ids(export, id): Ids<ExportId, BackfillId>,
) -> Result<Response, Failure> {
    confirm_page(&service, &access, (export, id), &Problems::default()).await
}

async fn cancel(
    State(service): State<Service>,
    mut access: OrganizationAccess<ChangeExports>,
    Ids(export, id): Ids<ExportId, BackfillId>,
) -> Result<Response, Failure> {
    match service.cancel_backfill(&access.caller, export, id).await {
        Ok(_) => Ok(go_to(
            &access.path(&format!("exports/{export}/backfills/{id}/?done=backfill-cancelled")),
        )),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            access.hold_slot(&service).await?;
            confirm_page(&service, &access, (export, id), &problems).await
        }
    }
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeExports>,
    (export, id): (ExportId, BackfillId),
    problems: &Problems,
) -> Result<Response, Failure> {
    let export = service.batch_export(&access.caller, export).await?.export;
    let backfill = service.backfill(&access.caller, export.id, id).await?;
    let left = (backfill.total_runs - backfill.finished_runs).max(0);
    let below = format!("exports/{}/backfills/", export.id);
    let api = api_path(access, &backfill);
    let shown = ConfirmPage {
        frame: runs::frame(access, &export)
            .through(&below, "Backfills")
            .through(&format!("{below}{id}/"), range(&backfill)),
        alerts: problems.besides(&[]),
        heading: "Cancel this backfill?".to_owned(),
        text: "What was delivered stays. You can start another backfill of the same range at any time. This cancels:"
            .to_owned(),
        losses: vec![
            format!("{} not delivered yet", show::counted(left, "interval")),
            "runs in progress: what they sent is rolled back".to_owned(),
        ],
        typed: None,
        button: "Cancel backfill",
        back: access.path(&format!("{below}{id}/")),
        curl: AsCurl::new(
            service,
            [Call::post::<ChangeExports>(
                "Cancel the backfill",
                format!("{api}cancel/"),
            )],
        ),
    };
    Ok(page_again(problems, &shown))
}
