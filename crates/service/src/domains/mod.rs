//! Domains: proven in DNS, and how people with addresses there sign in.

mod cases;
mod name;
mod rules;
pub(crate) mod sql;
mod verification;

pub use verification::{DnsLookup, Finding};

use auth::saml::{Certificates, IdentityProvider, ServiceProvider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::types::Json;

use crate::Instance;
use crate::activity::Recorded;
use crate::clock::Time;
use crate::error::Result;
use crate::id::{DomainId, OrganizationId};
use crate::sso::Sso;

#[derive(Debug, Clone, Serialize, sqlx::FromRow)]
pub struct Domain {
    pub id: DomainId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    pub domain: String,
    #[serde(skip)]
    pub verification_challenge: String,
    pub verified_at: Option<Time>,
    #[serde(skip)]
    pub checked_at: Option<Time>,
    /// Since when the record of a verified domain has been missing.
    pub lost_at: Option<Time>,
    /// Why the last verification failed, if it did.
    #[serde(skip)]
    pub verification_error: Option<Json<Finding>>,
    pub jit_provisioning_enabled: bool,
    /// How people with addresses here must sign in; empty: as they like.
    pub sso_enforcement: String,
    pub saml_entity_id: String,
    /// Where people are sent to sign in. The name is the interface's.
    pub saml_acs_url: String,
    pub saml_x509_cert: String,
    /// The metadata URL that the three were imported from, if any.
    pub saml_metadata_url: String,
    /// Whether the identity provider may begin a sign-in that nobody asked for here.
    pub saml_idp_initiated: bool,
    pub oidc_issuer: String,
    pub oidc_client_id: String,
    /// Encrypted.
    pub oidc_client_secret: Option<Vec<u8>>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// The fields of a new domain.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "domain": "example.com" }]))]
pub struct NewDomain {
    /// A registered domain name or a subdomain. It cannot be changed later.
    #[schemars(length(min = 1, max = 253))]
    pub domain: String,
    #[serde(flatten)]
    pub settings: DomainPatch,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{ "jit_provisioning_enabled": true, "sso_enforcement": "saml" }]))]
pub struct DomainPatch {
    /// Whether users are added automatically on their first sign-in through this domain.
    pub jit_provisioning_enabled: Option<bool>,
    /// The sign-in method that users of this domain must use: `saml`, `oidc`, `google-oauth2`, `github`, `gitlab`, or
    /// empty for any.
    #[serde(default, deserialize_with = "crate::text::nullable")]
    #[schemars(extend("x-nullable" = true, "enum" = ["", "saml", "oidc", "google-oauth2", "github", "gitlab", null]))]
    pub sso_enforcement: Option<String>,
    /// The identity provider's entity ID (issuer).
    #[serde(default, deserialize_with = "crate::text::nullable")]
    #[schemars(length(max = 512), extend("x-nullable" = true))]
    pub saml_entity_id: Option<String>,
    /// The identity provider's SSO URL (https).
    #[serde(default, deserialize_with = "crate::text::nullable")]
    #[schemars(length(max = 512), extend("x-nullable" = true))]
    pub saml_acs_url: Option<String>,
    /// The identity provider's certificate, PEM or bare base64. Several are allowed for rotation.
    #[serde(default, deserialize_with = "crate::text::nullable")]
    #[schemars(length(max = 32_768), extend("x-nullable" = true))]
    pub saml_x509_cert: Option<String>,
    /// Whether IdP-initiated sign-in is allowed. Defaults to false.
    pub saml_idp_initiated: Option<bool>,
    /// The issuer of an OpenID provider, such as `https://login.example.com`.
    #[serde(default, deserialize_with = "crate::text::nullable")]
    #[schemars(length(max = 512), extend("x-nullable" = true))]
    pub oidc_issuer: Option<String>,
    #[serde(default, deserialize_with = "crate::text::nullable")]
    #[schemars(length(max = 512), extend("x-nullable" = true))]
    pub oidc_client_id: Option<String>,
    /// Encrypted and never returned. Omit it to keep the current value.
    #[serde(default, deserialize_with = "crate::text::nullable")]
    #[schemars(length(max = 2048), extend("x-nullable" = true, "format" = "password", "writeOnly" = true))]
    pub oidc_client_secret: Option<String>,
}

impl Domain {
    pub fn is_verified(&self) -> bool {
        self.verified_at.is_some()
    }

    pub fn has_saml(&self) -> bool {
        !(self.saml_entity_id.is_empty() || self.saml_acs_url.is_empty() || self.saml_x509_cert.is_empty())
    }

    pub fn has_oidc(&self) -> bool {
        !(self.oidc_issuer.is_empty() || self.oidc_client_id.is_empty() || self.oidc_client_secret.is_none())
    }

    /// How people must sign in while the domain is verified.
    pub fn enforced(&self) -> Option<Sso> {
        self.is_verified().then(|| self.sso_enforcement.parse().ok()).flatten()
    }

    /// The name of the record that proves the domain.
    pub fn record(&self) -> String {
        format!("_hedgerow-challenge.{}", self.domain)
    }

    /// Us, as the identity provider of this domain knows us.
    pub fn service_provider(&self, instance: &Instance) -> ServiceProvider {
        let base = format!("{}/saml/{}", instance.site_url, self.id);
        ServiceProvider {
            entity_id: format!("{base}/metadata/"),
            acs_url: format!("{base}/acs/"),
        }
    }

    /// The identity provider, if all three of its fields are there and good.
    pub fn identity_provider(&self) -> Option<IdentityProvider> {
        if !self.has_saml() {
            return None;
        }
        Some(IdentityProvider {
            entity_id: self.saml_entity_id.clone(),
            sso_url: self.saml_acs_url.clone(),
            certificates: Certificates::parse(&self.saml_x509_cert).ok()?,
        })
    }

    /// What the provider of this domain may be asked with.
    pub fn oidc_secret(&self, instance: &Instance) -> Result<Option<String>> {
        let Some(encrypted) = &self.oidc_client_secret else {
            return Ok(None);
        };
        let plain = instance.encryptor.decrypt(&self.secret_place(), encrypted)?;
        Ok(String::from_utf8(plain).ok())
    }

    fn secret_place(&self) -> String {
        format!("domain/{}/oidc_client_secret", self.id)
    }
}

impl Recorded for Domain {
    const SCOPE: &'static str = "OrganizationDomain";

    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization_id)
    }

    fn item(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        self.domain.clone()
    }
}
