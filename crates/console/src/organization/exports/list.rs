//! The list of exports: how each stands, and how its last runs fared.

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::extract::State as Shared;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::{ChangeExports, Permission, ReadExports, ReadTeams};
use service::batch_exports::ExportSeen;
use service::{ExportId, Service, TeamId, Time, Window};

use super::labels::{self, State};
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::organization::recent_runs::{Legend, RecentRuns};
use crate::page::page;
use crate::paging::{PageNumber, Pages};
use crate::show;
use crate::state::Console;
use crate::visitor::InQuery;

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/exports/", get(list))
}

#[derive(Template)]
#[template(path = "organization/exports/list.html")]
struct ListPage {
    frame: Frame,
    exports: Vec<Row>,
    legend: Option<Legend>,
    /// With one team there is nothing to tell apart.
    has_teams: bool,
    pages: Pages,
    may_change: bool,
    curl: AsCurl,
}

struct Row {
    id: ExportId,
    name: String,
    kind: &'static str,
    model: &'static str,
    interval: &'static str,
    state: State,
    picture: Option<RecentRuns>,
    next: Option<(String, String)>,
    team: String,
}

impl Row {
    fn new(seen: &ExportSeen, teams: &HashMap<TeamId, String>, now: Time) -> Self {
        let export = &seen.export;
        Self {
            id: export.id,
            name: export.name.to_string(),
            kind: export.kind.title(),
            model: labels::model(export.model.name()),
            interval: labels::interval(export.interval),
            state: State::of(seen),
            picture: RecentRuns::new(&seen.latest_runs),
            next: export
                .next_run_at
                .map(|time| (show::until(time, now), show::exactly(time))),
            team: teams.get(&export.team_id).cloned().unwrap_or_default(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct ExportsQuery {
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

async fn list(
    Shared(service): Shared<Service>,
    access: OrganizationAccess<ReadExports>,
    InQuery(asked): InQuery<ExportsQuery>,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    let exports = service.batch_exports(&access.caller, place.window()).await?;
    let teams: HashMap<TeamId, String> = teams(&service, &access).await?.into_iter().collect();
    let now = service.clock().now();
    let call = Call::get::<ReadExports>("List the batch exports", access.api("batch_exports/"));
    let rows: Vec<Row> = exports.items.iter().map(|seen| Row::new(seen, &teams, now)).collect();
    Ok(page(&ListPage {
        frame: Frame::new(&access, Section::Exports).noting(&asked.done),
        legend: Legend::of(rows.iter().filter_map(|row| row.picture.as_ref())),
        exports: rows,
        has_teams: teams.len() > 1,
        pages: Pages::new(&access.path("exports/"), &[], place, exports.count),
        may_change: access.may::<ChangeExports>(),
        curl: AsCurl::new(&service, [call]),
    }))
}

/// The teams of the organization, the one that exports belong to unless told otherwise first.
pub(super) async fn teams<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
) -> Result<Vec<(TeamId, String)>, Failure> {
    let reader = access.also::<ReadTeams>(service).await?;
    let all = Window::new(Some(Window::MAX_LIMIT), None);
    let teams = service.teams(&reader, all).await?;
    let named = teams.items.into_iter().map(|team| (team.id, team.name.to_string()));
    Ok(named.collect())
}
