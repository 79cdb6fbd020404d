use std::fmt;
use std::str::FromStr;

use crate::id::DomainId;

/// A way to sign in that somebody else checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sso {
    Saml,
    Oidc,
    Google,
    GitHub,
    GitLab,
}

impl Sso {
    pub const ALL: [Self; 5] = [Self::Saml, Self::Oidc, Self::Google, Self::GitHub, Self::GitLab];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Saml => "saml",
            Self::Oidc => "oidc",
            Self::Google => "google-oauth2",
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Saml => "SAML",
            Self::Oidc => "OpenID Connect",
            Self::Google => "Google",
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
        }
    }

    /// Whose subjects these are. Those of one domain's provider say nothing about another's.
    pub(super) fn provider(self, domain: Option<DomainId>) -> String {
        match domain {
            Some(id) => format!("{self}:{id}"),
            None => self.to_string(),
        }
    }

    /// Whether the provider is a domain's own, rather than the whole instance's.
    pub(crate) fn is_of_domain(self) -> bool {
        matches!(self, Self::Saml | Self::Oidc)
    }
}

impl fmt::Display for Sso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Sso {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|sso| sso.as_str() == text).ok_or(())
    }
}
