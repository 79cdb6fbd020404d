//! The organization at a glance, and what needs somebody first.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use service::access::{ReadActivity, ReadDomains, ReadExports, ReadInvites, ReadOrganization, WriteInvites};
use service::activity::ActivityFilter;
use service::batch_exports::ExportSeen;
use service::domains::Domain;
use service::invites::Invite;
use service::pipeline::AppsSeen;
use service::{ExportId, Page, Service, Window};

use super::activity_entry::ActivityEntry;
use super::attention::{self, Item};
use super::first_steps::{Present, Step};
use super::frame::{Frame, Section};
use super::recent_runs::{Legend, RecentRuns};
use super::{OrganizationAccess, apps, exports, first_steps};
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::page::page;
use crate::state::Console;
use crate::visitor::PageQuery;

/// As many as fit beside everything else.
const EXPORTS_SHOWN: i64 = 8;
const ITEMS_SHOWN: usize = 12;
const ENTRIES_SHOWN: i64 = 6;

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/organizations/{organization}/", get(overview))
}

#[derive(Template)]
#[template(path = "organization/overview.html")]
struct OverviewPage {
    frame: Frame,
    steps: Vec<Step>,
    attention: Vec<Item>,
    /// How many there are besides those that are shown.
    more_attention: i64,
    figures: Vec<Figure>,
    exports: Vec<Export>,
    legend: Option<Legend>,
    entries: Vec<ActivityEntry>,
    may_invite: bool,
    curl: AsCurl,
}

/// How many there are of something.
struct Figure {
    number: i64,
    title: &'static str,
    more: String,
    /// A path below the organization, where there is a page.
    path: Option<&'static str>,
}

struct Export {
    id: ExportId,
    name: String,
    state: exports::State,
    picture: Option<RecentRuns>,
}

impl From<&ExportSeen> for Export {
    fn from(seen: &ExportSeen) -> Self {
        Self {
            id: seen.export.id,
            name: seen.export.name.to_string(),
            state: exports::State::of(seen),
            picture: RecentRuns::new(&seen.latest_runs),
        }
    }
}

/// All that is looked through.
struct Seen {
    teams: i64,
    invites: Arc<Page<Invite>>,
    domains: Page<Domain>,
    /// The newest.
    exports: Arc<Page<ExportSeen>>,
    exports_needing_attention: Arc<Page<ExportSeen>>,
    apps: AppsSeen,
}

impl Seen {
    async fn read(service: &Service, access: &OrganizationAccess<ReadOrganization>) -> Result<Self, Failure> {
        let all = Window::new(Some(Window::MAX_LIMIT), None);
        let items = few(number(ITEMS_SHOWN));
        let organization = service.organization(&access.caller).await?;
        let invites = access.also::<ReadInvites>(service).await?;
        let domains = access.also::<ReadDomains>(service).await?;
        let exports = access.also::<ReadExports>(service).await?;
        Ok(Self {
            teams: number(organization.teams.len()),
            invites: service.invites(&invites, all).await?,
            domains: service.domains(&domains, all).await?,
            exports: service.batch_exports(&exports, few(EXPORTS_SHOWN)).await?,
            exports_needing_attention: service.exports_needing_attention(&exports, items).await?,
            apps: apps::seen(service, access, items).await?,
        })
    }

    fn present(&self, members: i64) -> Present {
        Present {
            members,
            invites: self.invites.count,
            domains: self.domains.count,
            exports: self.exports.count,
            apps: self.apps.count,
        }
    }

    fn figures(&self, members: i64) -> Vec<Figure> {
        let verified = self.domains.items.iter().filter(|domain| domain.is_verified()).count();
        let figure = |number, title, path| Figure {
            number,
            title,
            more: String::new(),
            path,
        };
        vec![
            figure(members, "Members", Some("members/")),
            figure(self.invites.count, "Pending invites", Some("invites/")),
            figure(self.teams, "Teams", Some("teams/")),
            Figure {
                more: format!("{verified} verified"),
                ..figure(self.domains.count, "Domains", Some("domains/"))
            },
            Figure {
                more: match self.exports_needing_attention.count {
                    0 => String::new(),
                    count => format!("{count} paused or failing"),
                },
                ..figure(self.exports.count, "Batch exports", Some("exports/"))
            },
            Figure {
                more: match self.apps.given_up.count {
                    0 => String::new(),
                    count => format!("{count} disabled after failures"),
                },
                ..figure(self.apps.count, "Pipeline apps", Some("apps/"))
            },
        ]
    }
}

/// How many of them were not read.
fn left_out<T>(page: &Page<T>) -> i64 {
    page.count - number(page.items.len())
}

fn few(count: i64) -> Window {
    Window::new(Some(count), None)
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

async fn overview(
    State(service): State<Service>,
    access: OrganizationAccess<ReadOrganization>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let seen = Seen::read(&service, &access).await?;
    let now = service.clock().now();
    let reader = access.also::<ReadActivity>(&service).await?;
    let entries = service
        .activity(&reader, &ActivityFilter::default(), few(ENTRIES_SHOWN))
        .await?;
    let call = Call::get::<ReadOrganization>("Read the organization", access.api(""));
    let mut attention = attention::items(
        &seen.invites.items,
        &seen.domains.items,
        &seen.exports_needing_attention.items,
        &seen.apps,
        now,
    );
    let members = access.organization.member_count;
    let steps = first_steps::left(&service, &access, seen.present(members)).await?;
    // Not twice on one page.
    let is_inviting_a_step = steps.iter().any(|step| step.path == access.path("invites/new/"));
    let unread =
        left_out(&seen.exports_needing_attention) + left_out(&seen.apps.given_up) + left_out(&seen.apps.outdated);
    let more_attention = number(attention.len().saturating_sub(ITEMS_SHOWN)) + unread;
    attention.truncate(ITEMS_SHOWN);
    let exports: Vec<Export> = seen.exports.items.iter().map(Export::from).collect();
    let pictures = attention.iter().map(|item| &item.picture);
    let pictures = pictures.chain(exports.iter().map(|export| &export.picture)).flatten();
    Ok(page(&OverviewPage {
        frame: Frame::new(&access, Section::Overview).noting(&asked.done),
        steps,
        legend: Legend::of(pictures),
        attention,
        more_attention,
        figures: seen.figures(members),
        exports,
        entries: entries
            .items
            .iter()
            .map(|entry| ActivityEntry::new(entry, now))
            .collect(),
        may_invite: access.may::<WriteInvites>() && !is_inviting_a_step,
        curl: AsCurl::new(&service, [call]),
    }))
}
