//! Diagnostics: everything that signing in through a domain needs, looked at step by step.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use identity::{Identity, Step, Verdict};
use service::access::ChangeDomains;
use service::domains::Domain;
use service::{DomainId, Service};

use super::frame::{below, frame_below};
use crate::curl::{AsCurl, Call};
use crate::failure::Failure;
use crate::organization::OrganizationAccess;
use crate::organization::frame::Frame;
use crate::page::page;
use crate::show;
use crate::state::Console;
use crate::visitor::Id;

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/domains/{domain}/checks/",
        get(offer).post(run),
    )
}

#[derive(Template)]
#[template(path = "organization/domains/checks.html")]
struct ChecksPage {
    frame: Frame,
    id: DomainId,
    name: String,
    /// None: nobody has looked yet.
    found: Option<Found>,
    curl: AsCurl,
}

struct Found {
    summary: &'static str,
    is_ok: bool,
    steps: Vec<Shown>,
}

struct Shown {
    title: &'static str,
    class: &'static str,
    word: &'static str,
    message: String,
    recommended_action: String,
}

impl From<&Step> for Shown {
    fn from(step: &Step) -> Self {
        let (class, word) = in_words(step.status);
        let said = |text: &str| match text {
            "" => String::new(),
            text => show::sentence(text),
        };
        Self {
            title: title(step.name),
            class,
            word,
            message: said(&step.message),
            recommended_action: said(&step.recommended_action),
        }
    }
}

fn in_words(status: Verdict) -> (&'static str, &'static str) {
    match status {
        Verdict::Ok => (" tag-good", "Passed"),
        Verdict::Warning => (" tag-warning", "Warning"),
        Verdict::Failed => (" tag-danger", "Failed"),
        Verdict::Skipped => ("", "Skipped"),
    }
}

fn title(step: &'static str) -> &'static str {
    match step {
        "dns" => "DNS record",
        "saml_settings" => "SAML settings",
        "saml_metadata" => "IdP metadata",
        "saml_certificates" => "Signing certificate",
        "clock" => "Clock skew",
        "saml_request" => "Sign-in request",
        "oidc_discovery" => "OpenID Connect discovery",
        "jit_provisioning" => "Automatic provisioning (JIT)",
        "enforcement" => "Enforcement",
        other => other,
    }
}

impl From<&[Step]> for Found {
    fn from(steps: &[Step]) -> Self {
        let has = |status| steps.iter().any(|step| step.status == status);
        let is_ok = !has(Verdict::Failed);
        let summary = if has(Verdict::Failed) {
            "Sign-in won't work yet. Fix the failed checks first."
        } else if has(Verdict::Warning) {
            "No checks failed. Review the warnings."
        } else {
            "All checks passed."
        };
        Self {
            summary,
            is_ok,
            steps: steps.iter().map(Shown::from).collect(),
        }
    }
}

async fn offer(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
) -> Result<Response, Failure> {
    let domain = service.domain(&access.caller, id).await?;
    Ok(checks_page(&service, &access, &domain, None))
}

/// Changes nothing, but asks others: so it takes a button.
async fn run(
    State(identity): State<Identity>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
) -> Result<Response, Failure> {
    let service = identity.service();
    let steps = identity.test_domain(&access.caller, id).await?;
    let domain = service.domain(&access.caller, id).await?;
    Ok(checks_page(service, &access, &domain, Some(steps.as_slice().into())))
}

fn checks_page(
    service: &Service,
    access: &OrganizationAccess<ChangeDomains>,
    domain: &Domain,
    found: Option<Found>,
) -> Response {
    let path = access.api(&format!("{}test/", below(domain.id)));
    let call = Call::post::<ChangeDomains>("Run diagnostics", path);
    page(&ChecksPage {
        frame: frame_below(access, domain),
        id: domain.id,
        name: domain.domain.clone(),
        found,
        curl: AsCurl::new(service, [call]),
    })
}
