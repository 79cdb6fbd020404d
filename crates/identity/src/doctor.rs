//! The doctor: looks at everything a sign-in through a domain needs, and says what was seen and what to do.

use auth::saml::IdentityProvider;
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
    /// It works, but not for long, or not as one might think.
    Warning,
    Failed,
    /// There is nothing to look at.
    Skipped,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Step {
    /// What was looked at: `dns`, `saml_settings`, `saml_metadata`, `saml_certificates`, `clock`, `saml_request`,
    /// `oidc_discovery`, `joining`, `enforcement`.
    pub name: &'static str,
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// What to do about it; empty if nothing.
    pub todo: String,
}

impl Step {
    fn new(name: &'static str, verdict: Verdict, seen: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            name,
            verdict,
            seen: seen.into(),
            todo: todo.into(),
        }
    }

    fn ok(name: &'static str, seen: impl Into<String>) -> Self {
        Self::new(name, Verdict::Ok, seen, "")
    }

    fn skipped(name: &'static str, seen: impl Into<String>) -> Self {
        Self::new(name, Verdict::Skipped, seen, "")
    }
}

impl Identity {
    /// Walks through the set-up of a domain. Changes nothing.
    pub async fn test_domain(&self, caller: &Caller<ChangeDomains>, id: DomainId) -> Result<Vec<Step>> {
        let domain = self.service.domain(caller, id).await?;
        let mut steps = Vec::new();
        if caller.actor.request.is_dry_run {
            // No outbound call in a dry run.
            steps.push(Step::skipped("dns", "a dry run asks nobody"));
        } else {
            steps.push(self.dns_step(&domain).await);
            steps.extend(self.saml_network_steps(&domain).await);
            steps.push(self.discovery_step(&domain).await?);
        }
        steps.push(saml_settings_step(&domain));
        steps.push(certificates_step(&domain, self.service.clock().now()));
        steps.push(self.request_step(&domain));
        steps.push(joining_step(&domain));
        steps.push(self.enforcement_step(&domain).await?);
        steps.sort_by_key(|step| ORDER.iter().position(|name| *name == step.name));
        Ok(steps)
    }

    async fn dns_step(&self, domain: &Domain) -> Step {
        let problem = self.look_for_record(domain).await.problem(domain);
        match (problem, domain.is_verified()) {
            (None, true) => Step::ok("dns", format!("the record at {} is as it should be", domain.record())),
            (None, false) => Step::new(
                "dns",
                Verdict::Warning,
                "the record is there, but the domain has not been verified yet",
                "verify the domain",
            ),
            (Some(finding), true) => Step::new(
                "dns",
                Verdict::Warning,
                finding.detail,
                "put the record back: without it the domain stops counting as verified after seven days",
            ),
            (Some(finding), false) => Step::new("dns", Verdict::Failed, finding.detail, "add the record, then verify"),
        }
    }

    /// What the identity provider says of itself now, and what its clock says.
    async fn saml_network_steps(&self, domain: &Domain) -> Vec<Step> {
        if !domain.has_saml() {
            return vec![
                Step::skipped("saml_metadata", "SAML is not set up"),
                Step::skipped("clock", "there is no identity provider to compare with"),
            ];
        }
        vec![self.metadata_step(domain).await, self.clock_step(domain).await]
    }

    async fn metadata_step(&self, domain: &Domain) -> Step {
        const NAME: &str = "saml_metadata";
        if domain.saml_metadata_url.is_empty() {
            return Step::skipped(
                NAME,
                "the settings were typed in, not read from an address, so there is nothing to compare",
            );
        }
        let todo = "import the metadata again";
        match self.fetch_metadata(&domain.saml_metadata_url).await {
            Err(error) => Step::new(
                NAME,
                Verdict::Warning,
                format!("the metadata cannot be read: {error}"),
                "check the address",
            ),
            Ok(now) if now.entity_id != domain.saml_entity_id || now.sso_url != domain.saml_acs_url => Step::new(
                NAME,
                Verdict::Failed,
                "the metadata names another entity id or sign-in address",
                todo,
            ),
            Ok(now) if has_other_certificates(domain, &now) => Step::new(
                NAME,
                Verdict::Warning,
                "the metadata lists other certificates than were imported: the provider is changing them",
                todo,
            ),
            Ok(_) => Step::ok(NAME, "the metadata is what was imported"),
        }
    }

    async fn clock_step(&self, domain: &Domain) -> Step {
        const NAME: &str = "clock";
        let answer = self.deps.http.get(&domain.saml_acs_url, "*/*", 64 * 1024).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // The browser reaches it, we need not: a provider inside a private network is fine.
                return Step::new(
                    NAME,
                    Verdict::Warning,
                    error.to_string(),
                    "nothing, if browsers can reach it",
                );
            }
        };
        let date = answer.headers().get("date").and_then(|value| value.to_str().ok());
        let Some(theirs) = date.and_then(|text| DateTime::parse_from_rfc2822(text).ok()) else {
            return Step::skipped(NAME, "the identity provider does not tell the time");
        };
        let apart = (self.service.clock().now() - theirs.with_timezone(&Utc)).abs();
        let seen = format!("the clocks are {} seconds apart", apart.num_seconds());
        if apart > SKEW {
            return Step::new(NAME, Verdict::Failed, seen, "set both clocks by a time server (NTP)");
        }
        Step::ok(NAME, seen)
    }

    async fn discovery_step(&self, domain: &Domain) -> Result<Step> {
        const NAME: &str = "oidc_discovery";
        if !domain.has_oidc() {
            return Ok(Step::skipped(NAME, "OIDC is not set up"));
        }
        Ok(match self.discover(domain).await? {
            Ok(()) => Step::ok(NAME, "the provider answers, and says of itself what it should"),
            Err(refusal) => Step::new(NAME, Verdict::Failed, refusal.detail, "check oidc_issuer"),
        })
    }

    /// A sign-in as it would begin, without anybody being sent anywhere.
    fn request_step(&self, domain: &Domain) -> Step {
        const NAME: &str = "saml_request";
        let Some(provider) = domain.identity_provider() else {
            return Step::skipped(NAME, "SAML is not set up");
        };
        let us = domain.service_provider(self.service.instance());
        let id = auth::saml::new_request_id(self.service.random().bytes());
        match auth::saml::sign_in_url(&us, &provider, &id, "", self.service.clock().now()) {
            Ok(url) => Step::new(
                NAME,
                Verdict::Ok,
                format!("people would be sent to {}", url.host_str().unwrap_or_default()),
                format!(
                    "the identity provider must know us by the entity id (audience) {} and send answers to {}",
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
                "people with addresses here may sign in as they like",
            ));
        };
        let (instance, now) = (self.service.instance(), self.service.clock().now());
        if let Err(reason) = domain.is_ready(sso, instance, now) {
            return Ok(Step::new(
                NAME,
                Verdict::Failed,
                reason,
                "complete the set-up, or switch enforcement off",
            ));
        }
        if !self.service.an_owner_would_get_in(domain, sso).await? {
            let todo = "let an owner sign in this way once, or make recovery codes";
            return Ok(Step::new(NAME, Verdict::Failed, "no owner could sign in", todo));
        }
        let seen = if domain.is_verified() {
            format!("people with addresses here must sign in with {}", sso.title())
        } else {
            format!(
                "people will have to sign in with {} once the domain is verified",
                sso.title()
            )
        };
        Ok(Step::ok(NAME, seen))
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
    "joining",
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
        0 => Step::ok(NAME, "entity id, sign-in address and certificate are there"),
        3 => Step::skipped(NAME, "SAML is not set up"),
        _ => Step::new(
            NAME,
            Verdict::Failed,
            format!("missing: {}", missing.join(", ")),
            "fill them in",
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
        return Step::skipped(NAME, "there is no certificate");
    }
    let Some(provider) = domain.identity_provider() else {
        return Step::skipped(NAME, "SAML is not set up");
    };
    let end = provider
        .certificates
        .iter()
        .map(|certificate| certificate.not_after)
        .max();
    let Some(end) = end else {
        return Step::new(NAME, Verdict::Failed, "there is no certificate", "add one");
    };
    let seen = format!("good until {}", end.format("%-d %B %Y"));
    let todo = "ask the identity provider for its next certificate and add it below the present one";
    if !provider.certificates.any_valid_at(now) {
        return Step::new(
            NAME,
            Verdict::Failed,
            format!("no certificate is valid now ({seen})"),
            todo,
        );
    }
    if end - now < SOON {
        return Step::new(NAME, Verdict::Warning, seen, todo);
    }
    Step::ok(NAME, seen)
}

fn joining_step(domain: &Domain) -> Step {
    const NAME: &str = "joining";
    if domain.jit_provisioning_enabled {
        return Step::ok(NAME, "whoever signs in for the first time becomes a member");
    }
    let todo = "set jit_provisioning_enabled if newcomers shall join by signing in";
    Step::new(
        NAME,
        Verdict::Ok,
        "newcomers need an invite before they can sign in",
        todo,
    )
}
