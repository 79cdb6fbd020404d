//! What stands around every page of an organization: whose it is, where one is, and where else one can go.

use service::access::ReadOrganization;
use service::credentials::Credential;
use service::{OrganizationId, Page, Service, Window};

use super::Inside;
use crate::failure::Failure;
use crate::show;
use crate::visitor::Account;

/// As many as the switcher shows; the list has all of them.
const MOST_IN_SWITCHER: i64 = 12;

/// A part of the console. What is not built yet is not here, so that no link leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Members,
    Invites,
    Teams,
    Domains,
    Exports,
    Apps,
    Activity,
    Settings,
}

impl Section {
    const ALL: [Self; 9] = [
        Self::Overview,
        Self::Members,
        Self::Invites,
        Self::Teams,
        Self::Domains,
        Self::Exports,
        Self::Apps,
        Self::Activity,
        Self::Settings,
    ];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Overview => "",
            Self::Members => "members/",
            Self::Invites => "invites/",
            Self::Teams => "teams/",
            Self::Domains => "domains/",
            Self::Exports => "exports/",
            Self::Apps => "apps/",
            Self::Activity => "activity/",
            Self::Settings => "settings/",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Members => "Members",
            Self::Invites => "Invites",
            Self::Teams => "Teams",
            Self::Domains => "Domains",
            Self::Exports => "Batch exports",
            Self::Apps => "Apps",
            Self::Activity => "Activity",
            Self::Settings => "Settings",
        }
    }
}

/// An organization that somebody belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Belonging {
    pub(crate) id: OrganizationId,
    pub(crate) name: String,
    pub(crate) level: &'static str,
    pub(crate) members: String,
    pub(crate) asks_for_second_factor: bool,
}

/// The organizations that one belongs to and can reach now, newest first.
pub(crate) async fn belongings(service: &Service, account: &Account) -> Result<Page<Belonging>, Failure> {
    belongings_in(service, account, Window::new(Some(MOST_IN_SWITCHER), None)).await
}

pub(crate) async fn belongings_in(
    service: &Service,
    account: &Account,
    window: Window,
) -> Result<Page<Belonging>, Failure> {
    let credential = Credential::Session(&account.session);
    let principal = service
        .principal::<ReadOrganization>(credential, account.request())
        .await?;
    let seen = service.organizations(&principal, window).await?;
    Ok(seen.map(|seen| Belonging {
        id: seen.organization.id,
        name: seen.organization.name.to_string(),
        level: show::level(seen.level),
        members: show::counted(seen.organization.member_count, "member"),
        asks_for_second_factor: seen.organization.enforce_2fa,
    }))
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) person: String,
    pub(super) organization: String,
    /// Where paths below the organization begin.
    pub(super) base: String,
    pub(super) organizations: Vec<Choice>,
    pub(super) notice: &'static str,
    section: Section,
    crumbs: Vec<Crumb>,
}

#[derive(Debug)]
pub(super) struct Choice {
    pub(super) id: OrganizationId,
    pub(super) name: String,
    pub(super) is_here: bool,
}

#[derive(Debug)]
pub(super) struct MenuItem {
    pub(super) path: &'static str,
    pub(super) title: &'static str,
    /// As browsers are told: whether one is on its page, or somewhere below it.
    pub(super) current: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct Crumb {
    pub(super) path: String,
    pub(super) title: String,
}

impl Frame {
    pub(super) fn new<P>(inside: &Inside<P>, section: Section) -> Self {
        let here = inside.organization.id;
        let organizations = inside.belongings.iter().map(|belonging| Choice {
            id: belonging.id,
            name: belonging.name.clone(),
            is_here: belonging.id == here,
        });
        Self {
            person: inside.account.user.called(),
            organization: inside.organization.name.to_string(),
            base: format!("/organizations/{here}/"),
            organizations: organizations.collect(),
            notice: "",
            section,
            crumbs: Vec::new(),
        }
    }

    /// A page below one of the section's: the way back leads through it.
    pub(super) fn below(mut self) -> Self {
        self.crumbs = vec![
            Crumb {
                path: self.base.clone(),
                title: self.organization.clone(),
            },
            Crumb {
                path: format!("{}{}", self.base, self.section.path()),
                title: self.section.title().to_owned(),
            },
        ];
        self
    }

    /// One step further down.
    pub(super) fn through(mut self, below: &str, title: impl Into<String>) -> Self {
        self.crumbs.push(Crumb {
            path: format!("{}{below}", self.base),
            title: title.into(),
        });
        self
    }

    /// Says what has just happened.
    pub(super) fn noting(mut self, done: &str) -> Self {
        self.notice = notice(done);
        self
    }

    pub(super) fn menu(&self) -> impl Iterator<Item = MenuItem> {
        let here = self.section;
        let current = if self.crumbs.is_empty() { "page" } else { "true" };
        Section::ALL.into_iter().map(move |section| MenuItem {
            path: section.path(),
            title: section.title(),
            current: (section == here).then_some(current),
        })
    }

    pub(super) fn crumbs(&self) -> &[Crumb] {
        &self.crumbs
    }
}

fn notice(done: &str) -> &'static str {
    match done {
        "created" => "The organization is there. Invite the people you work with.",
        "joined" => "Welcome. You have joined the organization.",
        "saved" => "Saved.",
        "level-changed" => "The level is changed, and holds from now on.",
        "removed" => "The member is removed, and reaches nothing here any more.",
        "withdrawn" => "The invite is withdrawn. Its link does not work any more.",
        "team-created" => "The team is there. Its token is below.",
        "team-deleted" => "The team is deleted.",
        "domain-added" => "The domain is there. Prove that it is yours with the record below.",
        "domain-seen" => "The record is there: the domain is verified. Next, connect your identity provider below.",
        "domain-not-seen" => "We looked. What was seen stands below.",
        "domain-removed" => "The domain is removed. Nothing is enforced for its addresses any more.",
        "connected" => "Saved. Run the checks, then sign in once.",
        "disconnected" => "The provider is disconnected. Nobody gets in through it any more.",
        "enforced" => "Saved. People with addresses here sign in this way only.",
        "not-enforced" => "Enforcement is off. People sign in as they like again.",
        "app-installed" => "The app is there. Set it up for a team to have it run.",
        "app-saved" => "The app is saved.",
        "app-deleted" => "The app is deleted.",
        "app-is-newest" => "Nothing newer was found.",
        "app-can-be-updated" => "There is something newer.",
        "config-upgraded" => "The configuration runs the newest version from now on.",
        "app-updated" => "The app has its new code, and runs with it from now on.",
        "app-rolled-back" => "The app has the other code again, and runs with it from now on.",
        "source-saved" => "Saved. The code loads, and is run from now on.",
        "file-deleted" => "The file is deleted. The version before still has it.",
        "app-set-up" => "The configuration is there.",
        "configuration-deleted" => "The configuration is deleted.",
        "paused" => "The export is paused. A run that is under way goes on to its end.",
        "unpaused" => "The export goes on with the interval that is under way.",
        "unpaused-and-filling" => "The export goes on, and a backfill delivers what passed meanwhile.",
        "retried" => "The run is queued again, and begins in a moment.",
        "run-cancelled" => {
            "The run is cancelled. What it had sent is taken back. Retry delivers the interval after all."
        }
        "backfill-begun" => "The backfill has begun. You may leave this page: it goes on by itself.",
        "backfill-cancelled" => "The backfill is cancelled. What was delivered stays.",
        "export-created" => {
            "The export is there. Its first run comes by itself when the interval under way is over; the time is below."
        }
        "export-created-paused" => "The export is there, and paused. Unpause it to have it run.",
        "export-deleted" => "The export is deleted. What it delivered stays where it is.",
        _ => "",
    }
}
