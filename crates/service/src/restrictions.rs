//! What a credential is restricted to.

use crate::id::{OrganizationId, TeamId};
use crate::scope::Scope;

/// How far a credential gets, whoever holds it. Empty lists of organizations and teams mean all of them.
#[derive(Debug, Clone)]
pub struct KeyRestrictions {
    pub scopes: Vec<Scope>,
    pub organizations: Vec<OrganizationId>,
    pub teams: Vec<TeamId>,
}

impl KeyRestrictions {
    /// As far as the user.
    pub fn everything() -> Self {
        Self {
            scopes: vec![Scope::Everything],
            organizations: Vec::new(),
            teams: Vec::new(),
        }
    }

    /// As far as the user, in one organization: what its own identity provider can vouch for.
    pub fn within(organization: OrganizationId) -> Self {
        Self {
            organizations: vec![organization],
            ..Self::everything()
        }
    }

    pub fn covers(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|held| held.covers(scope))
    }

    /// Whether some organizations or teams of the user are out of reach.
    pub(crate) fn are_any(&self) -> bool {
        !self.organizations.is_empty() || !self.teams.is_empty()
    }

    pub fn reaches(&self, organization: OrganizationId) -> bool {
        self.organizations.is_empty() || self.organizations.contains(&organization)
    }
}
