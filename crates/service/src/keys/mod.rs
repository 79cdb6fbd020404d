//! Personal API keys: what a user hands to a program, and how far the program gets with it.

pub(crate) mod cases;
pub(crate) mod sql;
mod usage;

pub use crate::restrictions::KeyRestrictions;
pub(crate) use cases::{forget_all, forget_organization, forget_vouched};
pub use usage::KeyUse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::types::Json;

use crate::activity::Recorded;
use crate::clock::Time;
use crate::id::{KeyId, OrganizationId, TeamId, UserId};
use crate::scope::Scope;
use crate::text::Line;

/// What people call a key.
pub type Label = Line<40>;

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct Key {
    pub id: KeyId,
    #[serde(skip)]
    pub user_id: UserId,
    pub label: Label,
    pub mask_value: String,
    pub scopes: Json<Vec<Scope>>,
    pub scoped_organizations: Json<Vec<OrganizationId>>,
    pub scoped_teams: Json<Vec<TeamId>>,
    pub created_at: Time,
    pub updated_at: Time,
    #[serde(skip)]
    pub last_used_at: Option<Time>,
    /// What it was ever used for.
    #[serde(skip)]
    pub used_scopes: Json<Vec<Scope>>,
    pub last_rolled_at: Option<Time>,
    pub expires_at: Option<Time>,
    /// Its secret was told on the word of an organization's identity provider.
    #[serde(skip)]
    pub(crate) is_from_idp_session: bool,
}

impl Key {
    /// What it may do and never did: a key with less would have served as well.
    pub fn unused_scopes(&self) -> Vec<Scope> {
        let is_unused = |held: &&Scope| match held {
            Scope::Everything => self.used_scopes.is_empty(),
            _ => !self.used_scopes.contains(held),
        };
        self.scopes.iter().filter(is_unused).copied().collect()
    }

    /// The least it could have done everything with so far, of what it may do now.
    pub fn needed_scopes(&self) -> Vec<Scope> {
        let is_allowed = |used: &Scope| self.scopes.iter().any(|held| held.covers(*used));
        let used: Vec<Scope> = self.used_scopes.iter().copied().filter(is_allowed).collect();
        let is_in_another = |scope: &Scope| used.iter().any(|other| other != scope && other.covers(*scope));
        used.iter().copied().filter(|scope| !is_in_another(scope)).collect()
    }
}

/// A key that was just made, with the one sight of its secret.
#[derive(Debug, Clone)]
pub struct Fresh {
    pub key: Key,
    pub secret: String,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "label": "CI", "scopes": ["organization:read"] }]))]
pub struct NewKey {
    /// A label to recognize the key.
    pub label: Label,
    /// Its scopes.
    #[schemars(length(min = 1, max = 20))]
    pub scopes: Vec<Scope>,
    /// The organizations that it can access; all of yours if empty.
    #[schemars(length(max = 100))]
    pub scoped_organizations: Option<Vec<OrganizationId>>,
    /// The teams that it can access; all of them if empty.
    #[schemars(length(max = 100))]
    pub scoped_teams: Option<Vec<TeamId>>,
    /// When it expires. Omit it for no expiration.
    #[schemars(extend("x-nullable" = true))]
    pub expires_at: Option<Time>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "label": "CI", "scopes": ["organization:write"] }]))]
pub struct KeyPatch {
    /// A label to recognize the key.
    pub label: Option<Label>,
    /// Its scopes.
    #[schemars(length(min = 1, max = 20))]
    pub scopes: Option<Vec<Scope>>,
    /// The organizations that it can access; all of yours if empty.
    #[schemars(length(max = 100))]
    pub scoped_organizations: Option<Vec<OrganizationId>>,
    /// The teams that it can access; all of them if empty.
    #[schemars(length(max = 100))]
    pub scoped_teams: Option<Vec<TeamId>>,
    /// When it expires; null for no expiration.
    #[serde(default, deserialize_with = "crate::text::given")]
    #[schemars(extend("x-nullable" = true))]
    pub expires_at: Option<Option<Time>>,
}

impl Recorded for Key {
    const SCOPE: &'static str = "PersonalAPIKey";

    fn organization(&self) -> Option<OrganizationId> {
        None
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.label.to_string()
    }
}
