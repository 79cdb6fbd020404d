//! What stands around every page of an organization: whose it is, where one is, and where else one can go.

use service::OrganizationId;

use super::OrganizationAccess;

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

    /// The page of the documentation that explains it.
    const fn docs(self) -> &'static str {
        match self {
            Self::Overview | Self::Activity => "/docs/console/",
            Self::Members | Self::Invites => "/docs/invites/",
            Self::Teams => "/docs/capture/",
            Self::Domains => "/docs/domains/",
            Self::Exports => "/docs/exports/",
            Self::Apps => "/docs/apps/",
            Self::Settings => "/docs/concepts/",
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
    pub(super) fn new<P>(access: &OrganizationAccess<P>, section: Section) -> Self {
        let here = access.organization.id;
        let organizations = access.memberships.iter().map(|membership| Choice {
            id: membership.id,
            name: membership.name.clone(),
            is_here: membership.id == here,
        });
        Self {
            person: access.account.user.called(),
            organization: access.organization.name.to_string(),
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

    pub(super) const fn docs(&self) -> &'static str {
        self.section.docs()
    }

    pub(super) fn crumbs(&self) -> &[Crumb] {
        &self.crumbs
    }
}

fn notice(done: &str) -> &'static str {
    match done {
        "created" => "Organization created. Invite the people you work with.",
        "joined" => "Welcome. You've joined the organization.",
        "saved" => "Saved.",
        "role-changed" => "Role updated.",
        "removed" => "Member removed. They no longer have access.",
        "revoked" => "Invite revoked. Its link no longer works.",
        "team-created" => "Team created. Its token is below.",
        "team-deleted" => "Team deleted.",
        "domain-added" => "Domain added. Verify it with the DNS record below.",
        "domain-verified" => "Domain verified. Next, connect your identity provider below.",
        "domain-record-not-found" => "Record not found. Details below.",
        "domain-checked" => "Check finished. Details below.",
        "domain-removed" => "Domain removed. SSO is no longer enforced for its addresses.",
        "connected" => "Saved. Run diagnostics, then sign in once.",
        "disconnected" => "Identity provider disconnected. Nobody can sign in with it.",
        "enforced" => "Saved. People with addresses on this domain must sign in this way.",
        "enforced-later" => "Saved. It takes effect when the domain is verified.",
        "not-enforced" => "Enforcement disabled. People can sign in with any method.",
        "app-installed" => "App created. Set it up for a team to run it.",
        "app-saved" => "App saved.",
        "app-deleted" => "App deleted.",
        "app-is-up-to-date" => "The app is up to date.",
        "app-can-be-updated" => "An update is available.",
        "config-upgraded" => "Configuration updated. It now runs the latest version.",
        "app-updated" => "App updated. It now runs the new version.",
        "app-rolled-back" => "Version restored. The app now runs it.",
        "source-saved" => "Saved. The app now runs the new code.",
        "file-deleted" => "File deleted. Earlier versions still have it.",
        "app-set-up" => "Configuration created.",
        "configuration-deleted" => "Configuration deleted.",
        "paused" => "Export paused. A run in progress will finish.",
        "unpaused" => "Export resumed, from the current interval on.",
        "unpaused-with-backfill" => "Export resumed. A backfill delivers the missed intervals.",
        "retried" => "Run queued. It starts in a moment.",
        "run-cancelled" => "Run cancelled. What it sent is rolled back. Retry it to deliver the interval.",
        "backfill-started" => "Backfill started. You can leave this page: it continues in the background.",
        "backfill-cancelled" => "Backfill cancelled. What was delivered stays.",
        "export-created" => "Export created.",
        "export-created-paused" => "Export created and paused. Resume it to start exporting.",
        "export-deleted" => "Export deleted. What it delivered stays at the destination.",
        _ => "",
    }
}
