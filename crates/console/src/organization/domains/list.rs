//! The domains of an organization, and a new one.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use service::access::{ChangeDomains, ReadDomains};
use service::domains::{Domain, DomainPatch, NewDomain};
use service::sso::Sso;
use service::{DomainId, Service};

use super::frame::below;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::field::Field;
use crate::organization::OrganizationAccess;
use crate::organization::frame::{Frame, Section};
use crate::page::{go_to, page, page_again};
use crate::paging::{PageNumber, Pages};
use crate::state::Console;
use crate::visitor::{InQuery, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/organizations/{organization}/domains/", get(list))
        .route("/organizations/{organization}/domains/new/", get(ask).post(add))
}

#[derive(Template)]
#[template(path = "organization/domains/list.html")]
struct DomainsPage {
    frame: Frame,
    domains: Vec<Row>,
    pages: Pages,
    may_change: bool,
    curl: AsCurl,
}

struct Row {
    id: DomainId,
    name: String,
    is_verified: bool,
    is_record_missing: bool,
    adds_new_users: bool,
    /// What people must sign in with.
    enforced: Option<&'static str>,
    ways: String,
}

impl From<&Domain> for Row {
    fn from(domain: &Domain) -> Self {
        Self {
            id: domain.id,
            name: domain.domain.clone(),
            is_verified: domain.is_verified(),
            is_record_missing: domain.lost_at.is_some(),
            adds_new_users: domain.jit_provisioning_enabled,
            enforced: domain.sso_enforcement.parse().ok().map(Sso::title),
            ways: ways(domain),
        }
    }
}

/// What is set up, in words.
fn ways(domain: &Domain) -> String {
    let set_up = [(Sso::Saml, domain.has_saml()), (Sso::Oidc, domain.has_oidc())];
    let titles = set_up.into_iter().filter(|(_, is)| *is).map(|(sso, _)| sso.title());
    titles.collect::<Vec<_>>().join(", ")
}

#[derive(Debug, Default, Deserialize)]
struct DomainsQuery {
    #[serde(default)]
    page: String,
    #[serde(default)]
    done: String,
}

async fn list(
    State(service): State<Service>,
    access: OrganizationAccess<ReadDomains>,
    InQuery(asked): InQuery<DomainsQuery>,
) -> Result<Response, Failure> {
    let place = PageNumber::read(&asked.page);
    let domains = service.domains(&access.caller, place.window()).await?;
    let call = Call::get::<ReadDomains>("List the domains", access.api("domains/"));
    Ok(page(&DomainsPage {
        frame: Frame::new(&access, Section::Domains).noting(&asked.done),
        pages: Pages::new(&access.path("domains/"), &[], place, domains.count),
        domains: domains.items.iter().map(Row::from).collect(),
        may_change: access.may::<ChangeDomains>(),
        curl: AsCurl::new(&service, [call]),
    }))
}

#[derive(Template)]
#[template(path = "organization/domains/new.html")]
struct NewPage {
    frame: Frame,
    alerts: Vec<String>,
    domain: Field,
    curl: AsCurl,
}

#[derive(Deserialize)]
struct DomainForm {
    domain: String,
}

async fn ask(State(service): State<Service>, access: OrganizationAccess<ChangeDomains>) -> Response {
    form(&service, &access, "", &Problems::default())
}

async fn add(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Sent(DomainForm { domain }): Sent<DomainForm>,
) -> Result<Response, Failure> {
    let new = NewDomain {
        domain: domain.clone(),
        settings: DomainPatch::default(),
    };
    match service.create_domain(&access.caller, &new).await {
        Ok(made) => Ok(go_to(&access.path(&format!("{}?done=domain-added", below(made.id))))),
        Err(error) => Ok(form(&service, &access, &domain, &Problems::try_from(error)?)),
    }
}

fn form(service: &Service, access: &OrganizationAccess<ChangeDomains>, typed: &str, problems: &Problems) -> Response {
    let example = if typed.is_empty() { "example.com" } else { typed };
    let call =
        Call::post::<ChangeDomains>("Add a domain", access.api("domains/")).sending(json!({ "domain": example }));
    let field = Field::text("domain", "Domain", "off")
        .keyboard("url")
        .at_most(253)
        .focused();
    let shown = NewPage {
        frame: Frame::new(access, Section::Domains).below(),
        alerts: problems.besides(&["domain"]),
        domain: field
            .hint("The part after the @ in your email addresses, such as example.com. It can't be changed later.")
            .holding(typed)
            .judged(problems),
        curl: AsCurl::new(service, [call]),
    };
    page_again(problems, &shown)
}
