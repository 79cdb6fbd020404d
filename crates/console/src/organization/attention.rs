//! What somebody should look at first.

use service::Time;
use service::batch_exports::ExportSeen;
use service::domains::Domain;
use service::invites::Invite;
use service::pipeline::{App, AppUse, AppsSeen};

use super::recent_runs::RecentRuns;
use super::{apps, domains, exports};
use crate::show;

/// What is longer is cut: the whole of it is where the link leads.
const MAX_REASON: usize = 200;

/// One thing to look at, and where.
pub(super) struct Item {
    pub(super) text: String,
    pub(super) more: String,
    pub(super) is_urgent: bool,
    pub(super) picture: Option<RecentRuns>,
    /// A path below the organization, and what it is called.
    pub(super) link: Option<(String, &'static str)>,
}

impl Item {
    fn new(text: impl Into<String>, more: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            more: more.into(),
            is_urgent: false,
            picture: None,
            link: None,
        }
    }

    fn urgent(mut self) -> Self {
        self.is_urgent = true;
        self
    }

    fn at(mut self, path: impl Into<String>, title: &'static str) -> Self {
        self.link = Some((path.into(), title));
        self
    }
}

/// Everything, the urgent first.
pub(super) fn items(
    invites: &[Invite],
    domains: &[Domain],
    exports: &[ExportSeen],
    apps: &AppsSeen,
    now: Time,
) -> Vec<Item> {
    let mut items: Vec<Item> = of_invites(invites, now).into_iter().collect();
    items.extend(undelivered(invites));
    items.extend(domains.iter().filter_map(of_domain));
    items.extend(exports.iter().filter_map(of_export));
    items.extend(apps.given_up.items.iter().map(of_use));
    items.extend(apps.outdated.items.iter().map(of_app));
    // Stable: within each, the order stays.
    items.sort_by_key(|item| !item.is_urgent);
    items
}

fn count(found: impl Iterator) -> i64 {
    i64::try_from(found.count()).unwrap_or(i64::MAX)
}

fn of_invites(invites: &[Invite], now: Time) -> Option<Item> {
    let expired = count(invites.iter().filter(|invite| invite.is_expired(now)));
    (expired > 0).then(|| {
        let text = match expired {
            1 => "1 invite has expired".to_owned(),
            expired => format!("{expired} invites have expired"),
        };
        Item::new(text, "Resend or revoke them.").at("invites/", "Invites")
    })
}

fn undelivered(invites: &[Invite]) -> Option<Item> {
    let lost = count(invites.iter().filter(|invite| invite.emailing_error.is_some()));
    (lost > 0).then(|| {
        let text = format!("{} could not be delivered", show::counted(lost, "invitation email"));
        Item::new(text, "Check the addresses, or share a new link yourself.")
            .urgent()
            .at("invites/", "Invites")
    })
}

fn of_domain(domain: &Domain) -> Option<Item> {
    let name = &domain.domain;
    if domain.lost_at.is_some() {
        let more = "Restore it, or the domain will no longer be verified.";
        let item = Item::new(format!("The DNS record for {name} is missing"), more).urgent();
        return Some(item.at(domains::below(domain.id), "View"));
    }
    let more = "The domain has no effect until its DNS record is found.";
    (!domain.is_verified())
        .then(|| Item::new(format!("{name} is not verified"), more).at(domains::below(domain.id), "Verify"))
}

fn of_export(seen: &ExportSeen) -> Option<Item> {
    let name = &seen.export.name;
    let item = if let Some(run) = exports::latest_failure(seen) {
        let why = run.latest_error.as_deref();
        let why = why.unwrap_or("the last run failed");
        let state = if seen.export.paused {
            "failed and is paused"
        } else {
            "is failing"
        };
        Item::new(format!("{name} {state}"), show::sentence(why)).urgent()
    } else if seen.export.paused {
        Item::new(format!("{name} is paused"), "Nothing is exported until you resume it.")
    } else {
        return None;
    };
    Some(Item {
        picture: RecentRuns::new(&seen.latest_runs),
        ..item.at(format!("exports/{}/", seen.export.id), "View export")
    })
}

fn of_use(used: &AppUse) -> Item {
    let text = format!("{} was disabled for {}", used.app_name, used.team_name);
    // Apps may say as much as they like.
    let error = used.latest_error.as_deref().unwrap_or_default();
    let mut why: String = error.chars().take(MAX_REASON).collect();
    if why.len() < error.len() {
        why.push('…');
    }
    Item::new(text, format!("It failed repeatedly. {why}"))
        .urgent()
        .at(apps::configuration(used), "View configuration")
}

fn of_app(app: &App) -> Item {
    let latest = app.latest_tag.as_deref().unwrap_or_default();
    let more = match app.tag.as_deref() {
        None | Some("") => format!("The latest version is {latest}."),
        Some(tag) => format!("Installed: {tag}. Latest: {latest}."),
    };
    Item::new(format!("An update is available for {}", app.name), more).at(apps::update(app), "View update")
}
