//! One domain: its verification, the ways in, who may join, and who has tried.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeDomains, MakeRecoveryCodes, Permission, ReadAttempts, ReadDomains};
use service::domains::{Domain, DomainPatch};
use service::sso::Sso;
use service::{DomainId, Service};

use super::attempts::{self, Row};
use super::enforcement;
use super::frame::below;
use super::verification::Verification;
use crate::choices::{Select, Switch};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::form_version::FormVersion;
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::{go_to, page_again};
use crate::show;
use crate::state::Console;
use crate::visitor::{Id, PageQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/domains/{domain}/", get(show_domain))
        .route(
            "/organizations/{organization}/domains/{domain}/provisioning/",
            get(back_to_domain).post(save_provisioning),
        )
}

#[derive(Template)]
#[template(path = "organization/domains/domain.html")]
struct DomainPage {
    frame: Frame,
    alerts: Vec<String>,
    id: DomainId,
    name: String,
    added: String,
    verification: Verification,
    ways: Vec<ProviderLink>,
    provisioning: Option<(FormVersion, Switch)>,
    adds_new_users: bool,
    enforced: Option<&'static str>,
    choice: Option<Select>,
    may_make_codes: bool,
    attempts: Option<Vec<Row>>,
    curl: AsCurl,
}

/// A provider of the domain's own.
struct ProviderLink {
    title: &'static str,
    /// Below the domain's page.
    path: &'static str,
    is_set_up: bool,
    /// The provider, as far as it is known.
    provider: String,
}

fn ways(domain: &Domain) -> Vec<ProviderLink> {
    let way = |sso: Sso, path, is_set_up, provider: &str| ProviderLink {
        title: sso.title(),
        path,
        is_set_up,
        provider: provider.to_owned(),
    };
    vec![
        way(Sso::Saml, "saml/", domain.has_saml(), &domain.saml_entity_id),
        way(Sso::Oidc, "oidc/", domain.has_oidc(), &domain.oidc_issuer),
    ]
}

async fn show_domain(
    State(service): State<Service>,
    access: OrganizationAccess<ReadDomains>,
    Id(id): Id<DomainId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let domain = service.domain(&access.caller, id).await?;
    let provisioning = ProvisioningForm::of(&domain);
    domain_page(
        &service,
        &access,
        &domain,
        &provisioning,
        &asked.done,
        &Problems::default(),
    )
    .await
}

/// A switch that is off is not sent at all.
#[derive(Deserialize)]
struct ProvisioningForm {
    #[serde(default)]
    jit_provisioning_enabled: String,
    #[serde(default)]
    seen: FormVersion,
}

impl ProvisioningForm {
    fn of(domain: &Domain) -> Self {
        let word = if domain.jit_provisioning_enabled { "yes" } else { "" };
        Self {
            jit_provisioning_enabled: word.to_owned(),
            seen: FormVersion::of(domain.updated_at),
        }
    }

    fn is_on(&self) -> bool {
        self.jit_provisioning_enabled == "yes"
    }

    fn switch(&self) -> Switch {
        Switch::new(
            "jit_provisioning_enabled",
            "Automatically add users on first sign-in",
            "Applies to users with addresses on this domain who sign in through your identity provider. They join as \
             Members. When this is off, new users need an invite.",
            self.is_on(),
        )
    }
}

/// What was refused stands at this address; who opens it again is led to the page.
async fn back_to_domain(access: OrganizationAccess<ChangeDomains>, Id(id): Id<DomainId>) -> Response {
    go_to(&access.path(&below(id)))
}

async fn save_provisioning(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    Sent(sent): Sent<ProvisioningForm>,
) -> Result<Response, Failure> {
    let patch = DomainPatch {
        jit_provisioning_enabled: Some(sent.is_on()),
        ..DomainPatch::default()
    };
    let precondition = |now: &Domain| sent.seen.fits(now.updated_at);
    match service.update_domain(&access.caller, id, &patch, &precondition).await {
        Ok(_) => Ok(go_to(&access.path(&format!("{}?done=saved", below(id))))),
        Err(error) => {
            let problems = Problems::try_from(error)?;
            let domain = service.domain(&access.caller, id).await?;
            domain_page(&service, &access, &domain, &sent, "", &problems).await
        }
    }
}

async fn domain_page<P: Permission>(
    service: &Service,
    access: &OrganizationAccess<P>,
    domain: &Domain,
    provisioning: &ProvisioningForm,
    done: &str,
    problems: &Problems,
) -> Result<Response, Failure> {
    let now = service.clock().now();
    let may_change = access.may::<ChangeDomains>();
    let shown = DomainPage {
        frame: Frame::new(access, Section::Domains).below().noting(done),
        alerts: problems.besides(&[]),
        id: domain.id,
        name: domain.domain.clone(),
        added: show::day(domain.created_at),
        verification: Verification::new(domain, now),
        ways: ways(domain),
        provisioning: may_change.then(|| (provisioning.seen.clone(), provisioning.switch())),
        adds_new_users: domain.jit_provisioning_enabled,
        enforced: domain.sso_enforcement.parse().ok().map(Sso::title),
        choice: may_change.then(|| enforcement::choice(service, domain)),
        may_make_codes: access.may::<MakeRecoveryCodes>(),
        attempts: attempts::read(service, access, domain.id, now).await?,
        curl: AsCurl::new(service, calls(access, domain)),
    };
    Ok(page_again(problems, &shown))
}

fn calls<P: Permission>(access: &OrganizationAccess<P>, domain: &Domain) -> Vec<Call> {
    let api = access.api(&below(domain.id));
    let mut calls = vec![Call::get::<ReadDomains>("Read the domain", &api)];
    if access.may::<ChangeDomains>() {
        let body = json!({ "jit_provisioning_enabled": domain.jit_provisioning_enabled });
        calls.push(Call::post::<ChangeDomains>(
            "Verify the domain",
            format!("{api}verify/"),
        ));
        calls.push(Call::patch::<ChangeDomains>("Change automatic provisioning", &api).sending(body));
        calls.push(Call::get::<ReadAttempts>(
            "List the recent sign-ins",
            format!("{api}attempts/"),
        ));
    }
    calls
}
