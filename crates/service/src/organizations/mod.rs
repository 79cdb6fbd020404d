//! Organizations: what everything else belongs to.

mod cases;
pub(crate) mod creation;
pub(crate) mod creators;
mod slug;
pub(crate) mod sql;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activity::Recorded;
use crate::cache::{Weigh, rows_of};
use crate::clock::Time;
use crate::id::{OrganizationId, UserId};
use crate::level::Level;
use crate::teams::Team;
use crate::text::Name;
use crate::users::Person;

/// What a self-hosted organization may do with pipeline apps: everything.
pub const PLUGINS_ROOT: i16 = 9;

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct Organization {
    pub id: OrganizationId,
    pub name: Name,
    pub slug: String,
    pub plugins_access_level: i16,
    pub is_member_join_email_enabled: bool,
    pub enforce_2fa: bool,
    /// A JSON object as a string.
    pub metadata: String,
    pub customer_id: Option<String>,
    pub member_count: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// An organization that comes into being, with all that it has from the first moment.
pub(crate) struct NewlyCreated<'a> {
    pub(crate) organization: Organization,
    pub(crate) team: Team,
    pub(crate) owner: &'a Person,
    /// Who it is counted for. Nobody, if the owner is an operator.
    pub(crate) creator: Option<UserId>,
    /// Whether they can have created only so many.
    pub(crate) is_limited: bool,
}

/// A feature available to the organization. There is no billing: all features are available.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Feature {
    pub key: &'static str,
    pub name: &'static str,
}

pub const FEATURES: [Feature; 6] = [
    Feature {
        key: "organizations_projects",
        name: "Unlimited organizations and teams",
    },
    Feature {
        key: "audit_logs",
        name: "Activity log",
    },
    Feature {
        key: "automatic_provisioning",
        name: "Verified domains and just-in-time provisioning",
    },
    Feature {
        key: "saml",
        name: "Single sign-on with SAML and OpenID Connect",
    },
    Feature {
        key: "sso_enforcement",
        name: "SSO enforcement",
    },
    Feature {
        key: "2fa_enforcement",
        name: "Required two-factor authentication",
    },
];

/// An organization as one of its members sees it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub organization: Organization,
    pub level: Level,
    pub teams: Vec<Team>,
}

impl Weigh for Seen {
    fn rows(&self) -> usize {
        rows_of(self.organization.metadata.len()) + self.teams.len()
    }
}

/// Which organization is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrganizationRef {
    Id(OrganizationId),
    /// `@current`: the one the key is limited to, else the user's current one.
    Current,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "name": "Acme" }]))]
pub struct NewOrganization {
    /// The organization's name.
    pub name: Name,
    /// Whether members get an email when someone joins. Defaults to true.
    pub is_member_join_email_enabled: Option<bool>,
    /// Whether members must use two-factor authentication. Defaults to false.
    pub enforce_2fa: Option<bool>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "name": "Acme, Inc.", "enforce_2fa": true }]))]
pub struct OrganizationPatch {
    /// The organization's name. The slug does not change.
    pub name: Option<Name>,
    /// Whether members get an email when someone joins.
    pub is_member_join_email_enabled: Option<bool>,
    /// Whether members must use two-factor authentication.
    pub enforce_2fa: Option<bool>,
}

impl Organization {
    fn change(&mut self, patch: &OrganizationPatch) {
        let OrganizationPatch {
            name,
            is_member_join_email_enabled,
            enforce_2fa,
        } = patch;
        self.name = name.clone().unwrap_or_else(|| self.name.clone());
        self.is_member_join_email_enabled = is_member_join_email_enabled.unwrap_or(self.is_member_join_email_enabled);
        self.enforce_2fa = enforce_2fa.unwrap_or(self.enforce_2fa);
    }
}

impl Recorded for Organization {
    const SCOPE: &'static str = "Organization";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}
