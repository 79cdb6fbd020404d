//! Diagnostics: looks at everything a sign-in through a domain needs, and says what was seen and what to do.

use auth::saml::IdentityProvider;
use boxed::boxed;
use chrono::{DateTime, TimeDelta, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use service::access::{Caller, ChangeDomains};
use service::domains::Domain;
use service::sso::Sso;
use service::{DomainId, Result};

use crate::Identity;

/// Certificates that end sooner than this are worth a warning.
const SOON: TimeDelta = TimeDelta::days(30);
/// Clocks may differ by this much before assertions are refused.
const SKEW: TimeDelta = TimeDelta::seconds(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    /// Passed with a warning.
    Warning,
    Failed,
    /// Skipped: nothing to check.
    Skipped,
}

/// One diagnostic check.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Step {
    /// The check: `dns`, `saml_settings`, `saml_metadata`, `saml_certificates`, `clock`, `saml_request`,
    /// `oidc_discovery`, `jit_provisioning`, `enforcement`.
    pub name: &'static str,
    pub status: Verdict,
    /// The result.
    pub message: String,
    /// The recommended action; empty if there is none.
    pub recommended_action: String,
}

impl Step {
    fn new(
        name: &'static str,
        status: Verdict,
        message: impl Into<String>,
        recommended_action: impl Into<String>,
    ) -> Self {
        Self {
            name,
            status,
            message: message.into(),
            recommended_action: recommended_action.into(),
        }
    }

    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, message, "")
    }

    fn skipped(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Verdict::Skipped, message, "")
    }
}

impl Identity {
    /// Walks through the set-up of a domain. Changes nothing.
    #[boxed]
    pub async fn test_domain(&self, caller: &Caller<ChangeDomains>, id: DomainId) -> Result<Vec<Step>> {
        let domain = self.service.domain(caller, id).await?;
        let mut steps = Vec::new();
        if caller.actor.request.is_dry_run {
            // No outbound call in a dry run.
            steps.push(Step::skipped("dns", "not checked in a dry run"));
        } else {
            steps.push(self.dns_step(&domain).await);
            steps.extend(self.saml_network_steps(&domain).await);
            steps.push(self.discovery_step(&domain).await?);
        }
        steps.push(saml_settings_step(&domain));
        steps.push(certificates_step(&domain, self.service.clock().now()));
        steps.push(self.request_step(&domain));
        steps.push(jit_step(&domain));
        steps.push(self.enforcement_step(&domain).await?);
        steps.sort_by_key(|step| ORDER.iter().position(|name| *name == step.name));
        Ok(steps)
    }

    async fn dns_step(&self, domain: &Domain) -> Step {
        let problem = self.look_for_record_in_turn(domain).await.problem(domain);
        match (problem, domain.is_verified()) {
            (None, true) => Step::ok("dns", format!("the record at {} is correct", domain.record())),
            (None, false) => Step::new(
                "dns",
                Verdict::Warning,
                "the record was found, but the domain is not verified yet",
                "verify the domain",
            ),
            (Some(finding), true) => Step::new(
                "dns",
                Verdict::Warning,
                finding.detail,
                "restore the record: without it, the domain is no longer verified after seven days",
            ),
            (Some(finding), false) => Step::new("dns", Verdict::Failed, finding.detail, "add the record, then verify"),
        }
    }

    /// What the identity provider says of itself now, and what its clock says.
    async fn saml_network_steps(&self, domain: &Domain) -> Vec<Step> {
        if !domain.has_saml() {
            return vec![
                Step::skipped("saml_metadata", "SAML is not configured"),
                Step::skipped("clock", "no identity provider to compare with"),
            ];
        }
        vec![self.metadata_step(domain).await, self.clock_step(domain).await]
    }

    async fn metadata_step(&self, domain: &Domain) -> Step {
        const NAME: &str = "saml_metadata";
        if domain.saml_metadata_url.is_empty() {
            return Step::skipped(
                NAME,
                "the settings were not imported from a URL, so there is nothing to compare",
            );
        }
        let action = "import the metadata again";
        match self
            .fetch_metadata(domain.organization_id, &domain.saml_metadata_url)
            .await
        {
            Err(error) => Step::new(
                NAME,
                Verdict::Warning,
                format!("the metadata could not be read: {error}"),
                "check the metadata URL",
            ),
            Ok(now) if now.entity_id != domain.saml_entity_id || now.sso_url != domain.saml_acs_url => Step::new(
                NAME,
                Verdict::Failed,
                "the metadata has a different entity ID or SSO URL",
                action,
            ),
            Ok(now) if has_other_certificates(domain, &now) => Step::new(
                NAME,
                Verdict::Warning,
                "the metadata lists different certificates than were imported: the identity provider is rotating them",
                action,
            ),
            Ok(_) => Step::ok(NAME, "the metadata matches what was imported"),
        }
    }

    async fn clock_step(&self, domain: &Domain) -> Step {
        const NAME: &str = "clock";
        let organization = Some(domain.organization_id);
        let _permit = self.exchanges.begin(organization).await;
        let answer = self
            .http_of(organization)
            .get(&domain.saml_acs_url, "*/*", 64 * 1024)
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // The browser reaches it, we need not: a provider inside a private network is fine.
                return Step::new(
                    NAME,
                    Verdict::Warning,
                    error.to_string(),
                    "none if browsers can reach it",
                );
            }
        };
        let date = answer.headers().get("date").and_then(|value| value.to_str().ok());
        let Some(theirs) = date.and_then(|text| DateTime::parse_from_rfc2822(text).ok()) else {
            return Step::skipped(NAME, "the identity provider sends no Date header");
        };
        let apart = (self.service.clock().now() - theirs.with_timezone(&Utc)).abs();
        let message = format!("the clocks are {} seconds apart", apart.num_seconds());
        if apart > SKEW {
            return Step::new(NAME, Verdict::Failed, message, "synchronize both clocks with NTP");
        }
        Step::ok(NAME, message)
    }

    async fn discovery_step(&self, domain: &Domain) -> Result<Step> {
        const NAME: &str = "oidc_discovery";
        if !domain.has_oidc() {
            return Ok(Step::skipped(NAME, "OpenID Connect is not configured"));
        }
        Ok(match self.discover(domain).await? {
            Ok(()) => Step::ok(NAME, "the discovery document was read and is valid"),
            Err(refusal) => Step::new(NAME, Verdict::Failed, refusal.detail, "check oidc_issuer"),
        })
    }

    /// A sign-in as it would begin, without anybody being sent anywhere.
    fn request_step(&self, domain: &Domain) -> Step {
        const NAME: &str = "saml_request";
        let Some(provider) = domain.identity_provider() else {
            return Step::skipped(NAME, "SAML is not configured");
        };
        let us = domain.service_provider(self.service.instance());
        let id = auth::saml::new_request_id(self.service.random().bytes());
        match auth::saml::sign_in_url(&us, &provider, &id, "", self.service.clock().now()) {
            Ok(url) => Step::new(
                NAME,
                Verdict::Ok,
                format!("users are redirected to {}", url.host_str().unwrap_or_default()),
                format!(
                    "in the identity provider, set the entity ID (audience) to {} and the ACS URL to {}",
                    us.entity_id, us.acs_url
                ),
            ),
            Err(error) => Step::new(NAME, Verdict::Failed, error.to_string(), "check saml_acs_url"),
        }
    }

    async fn enforcement_step(&self, domain: &Domain) -> Result<Step> {
        const NAME: &str = "enforcement";
        let Ok(sso) = domain.sso_enforcement.parse::<Sso>() else {
            return Ok(Step::skipped(
                NAME,
                "people with addresses on this domain can sign in with any method",
            ));
        };
        let (instance, now) = (self.service.instance(), self.service.clock().now());
        if let Err(reason) = domain.is_ready(sso, instance, now) {
            return Ok(Step::new(
                NAME,
                Verdict::Failed,
                reason,
                "complete the configuration, or disable enforcement",
            ));
        }
        if !self.service.an_owner_would_get_in(domain, sso).await? {
            let action = "have an owner sign in this way once, or create recovery codes";
            return Ok(Step::new(NAME, Verdict::Failed, "no owner could sign in", action));
        }
        let message = if domain.is_verified() {
            format!("people with addresses on this domain must sign in with {}", sso.title())
        } else {
            format!(
                "people with addresses on this domain must sign in with {} once it is verified",
                sso.title()
            )
        };
        Ok(Step::ok(NAME, message))
    }
}

/// The order in which a sign-in would meet these.
const ORDER: [&str; 9] = [
    "dns",
    "saml_settings",
    "saml_metadata",
    "saml_certificates",
    "clock",
    "saml_request",
    "oidc_discovery",
    "jit_provisioning",
    "enforcement",
];

fn saml_settings_step(domain: &Domain) -> Step {
    const NAME: &str = "saml_settings";
    let fields = [
        ("saml_entity_id", &domain.saml_entity_id),
        ("saml_acs_url", &domain.saml_acs_url),
        ("saml_x509_cert", &domain.saml_x509_cert),
    ];
    let missing: Vec<&str> = fields
        .iter()
        .filter(|(_, text)| text.is_empty())
        .map(|(name, _)| *name)
        .collect();
    match missing.len() {
        0 => Step::ok(NAME, "the entity ID, SSO URL and certificate are set"),
        3 => Step::skipped(NAME, "SAML is not configured"),
        _ => Step::new(
            NAME,
            Verdict::Failed,
            format!("missing: {}", missing.join(", ")),
            "set the missing fields",
        ),
    }
}

fn has_other_certificates(domain: &Domain, now: &IdentityProvider) -> bool {
    domain
        .identity_provider()
        .is_none_or(|known| known.certificates != now.certificates)
}

fn certificates_step(domain: &Domain, now: DateTime<Utc>) -> Step {
    const NAME: &str = "saml_certificates";
    if domain.saml_x509_cert.is_empty() {
        return Step::skipped(NAME, "no certificate is configured");
    }
    let Some(provider) = domain.identity_provider() else {
        return Step::skipped(NAME, "SAML is not configured");
    };
    let end = provider
        .certificates
        .iter()
        .map(|certificate| certificate.not_after)
        .max();
    let Some(end) = end else {
        return Step::new(NAME, Verdict::Failed, "no certificate is configured", "add one");
    };
    let message = format!("expires on {}", end.format("%-d %B %Y"));
    let action = "get the next certificate from the identity provider and add it below the current one";
    if !provider.certificates.any_valid_at(now) {
        return Step::new(
            NAME,
            Verdict::Failed,
            format!("no certificate is valid now ({message})"),
            action,
        );
    }
    if end - now < SOON {
        return Step::new(NAME, Verdict::Warning, message, action);
    }
    Step::ok(NAME, message)
}

fn jit_step(domain: &Domain) -> Step {
    const NAME: &str = "jit_provisioning";
    if domain.jit_provisioning_enabled {
        return Step::ok(NAME, "users are added automatically on first sign-in");
    }
    let action = "to add users automatically on first sign-in, set jit_provisioning_enabled";
    Step::new(
        NAME,
        Verdict::Ok,
        "new users need an invite before they can sign in",
        action,
    )
}
