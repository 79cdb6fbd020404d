//! The end of a domain.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use service::access::ChangeDomains;
use service::domains::Domain;
use service::sso::Sso;
use service::{DomainId, Service};

use super::frame::{below, frame_below};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::confirm::{ConfirmPage, is_confirmed, typed_name};
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::{Id, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/domains/{domain}/delete/",
        get(ask).post(delete),
    )
}

#[derive(Deserialize)]
struct ConfirmForm {
    confirmation: String,
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
) -> Result<Response, Failure> {
    let domain = service.domain(&access.caller, id).await?;
    Ok(confirm_page(&service, &access, &domain, &Problems::default()))
}

async fn delete(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    Sent(ConfirmForm { confirmation }): Sent<ConfirmForm>,
) -> Result<Response, Failure> {
    let domain = service.domain(&access.caller, id).await?;
    let deleted = match is_confirmed(&domain.domain, &confirmation) {
        Ok(()) => {
            service
                .delete_domain(&access.caller, id, &service::no_precondition)
                .await
        }
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) => Ok(go_to(&access.path("domains/?done=domain-removed"))),
        Err(error) => Ok(confirm_page(&service, &access, &domain, &Problems::try_from(error)?)),
    }
}

fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeDomains>,
    domain: &Domain,
    problems: &Problems,
) -> Response {
    let below = below(domain.id);
    let call = Call::delete::<ChangeDomains>("Remove the domain", access.api(&below));
    let shown = ConfirmPage {
        frame: frame_below(access, domain),
        alerts: problems.besides(&["confirmation"]),
        heading: format!("Remove {}?", domain.domain),
        text: "This can't be undone. If you add it again, it needs a new DNS record and new values at the identity provider. \
               Members stay members, and open sessions stay open. This will also delete:"
            .to_owned(),
        losses: losses(domain),
        typed: Some(typed_name(&domain.domain, problems)),
        button: "Remove domain",
        back: access.path(&below),
        curl: AsCurl::new(service, [call]),
    };
    page_again(problems, &shown)
}

/// What there is none of is not named.
fn losses(domain: &Domain) -> Vec<String> {
    let mut losses = Vec::new();
    if domain.is_verified() {
        losses.push("its verification: another organization can then verify it".to_owned());
    }
    let set_up = [(Sso::Saml, domain.has_saml()), (Sso::Oidc, domain.has_oidc())];
    for (sso, _) in set_up.into_iter().filter(|(_, is)| *is) {
        let title = sso.title();
        losses.push(format!("the {title} configuration and its linked accounts"));
    }
    if let Some(sso) = domain.enforced() {
        let title = sso.title();
        losses.push(format!("the enforcement of {title}: passwords work again immediately"));
    }
    losses.push("the list of its recent sign-ins".to_owned());
    losses
}
