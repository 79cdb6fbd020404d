//! The backfills of an export.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::{ChangeExports, ReadExports};
use service::batch_exports::Backfill;
use service::{BackfillId, ExportId, Service, Time};

use super::status::{self, Tag};
use super::{figures, runs};
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::page;
use crate::paging::{PageNumber, Pages};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, InQuery};

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/exports/{export}/backfills/", get(list))
}

#[derive(Template)]
#[template(path = "organization/exports/backfills.html")]
struct BackfillsPage {
    frame: Frame,
    /// Where pages of this export begin.
    base: String,
    name: String,
    backfills: Vec<Row>,
    pages: Pages,
    may_backfill: bool,
    curl: AsCurl,
}

struct Row {
    id: BackfillId,
    range: String,
    tag: Tag,
    /// So many intervals of so many.
    meter: (i64, i64),
    begun: String,
    exactly: String,
}

impl Row {
    fn new(backfill: &Backfill, now: Time) -> Self {
        Self {
            id: backfill.id,
            range: range(backfill),
            tag: status::tag_of_backfill(backfill.status),
            meter: (backfill.finished_runs.min(backfill.total_runs), backfill.total_runs),
            begun: show::ago(backfill.created_at, now),
            exactly: show::exactly(backfill.created_at),
        }
    }
}

/// What it fills. Where nothing was to be filled, it ends where it begins.
pub(super) fn range(backfill: &Backfill) -> String {
    if backfill.start_at < backfill.end_at {
        figures::interval(backfill.start_at, backfill.end_at)
    } else {
        format!("an empty range before {}", show::day(backfill.end_at))
    }
}

#[derive(Debug, Default, Deserialize)]
struct BackfillsQuery {
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadExports>,
    Id(id): Id<ExportId>,
    InQuery(asked): InQuery<BackfillsQuery>,
) -> Result<Response, Failure> {
    let export = service.batch_export(&access.caller, id).await?.export;
    let place = PageNumber::read(&asked.page);
    let backfills = service.backfills(&access.caller, id, place.window()).await?;
    let now = service.clock().now();
    let api = access.api(&format!("batch_exports/{id}/backfills/"));
    let base = access.path(&format!("exports/{id}/"));
    Ok(page(&BackfillsPage {
        frame: runs::frame(&access, &export).noting(&asked.done),
        name: export.name.to_string(),
        backfills: backfills.items.iter().map(|backfill| Row::new(backfill, now)).collect(),
        pages: Pages::new(&format!("{base}backfills/"), &[], place, backfills.count),
        base,
        may_backfill: access.may::<ChangeExports>(),
        curl: AsCurl::new(&service, [Call::get::<ReadExports>("List the backfills", api)]),
    }))
}
