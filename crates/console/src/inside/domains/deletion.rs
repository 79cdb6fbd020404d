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

use super::{below, frame_below};
use crate::Console;
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::inside::Inside;
use crate::inside::sure::{SurePage, is_confirmed, typed_name};
use crate::page::{go_to, page_again};
use crate::visitor::{Id, Sent};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/domains/{domain}/delete/",
        get(ask).post(delete),
    )
}

#[derive(Deserialize)]
struct Confirmed {
    confirmation: String,
}

async fn ask(
    State(service): State<Service>,
    inside: Inside<ChangeDomains>,
    Id(id): Id<DomainId>,
) -> Result<Response, Failure> {
    let domain = service.domain(&inside.caller, id).await?;
    Ok(sure(&service, &inside, &domain, &Problems::default()))
}

async fn delete(
    State(service): State<Service>,
    inside: Inside<ChangeDomains>,
    Id(id): Id<DomainId>,
    Sent(Confirmed { confirmation }): Sent<Confirmed>,
) -> Result<Response, Failure> {
    let domain = service.domain(&inside.caller, id).await?;
    let deleted = match is_confirmed(&domain.domain, &confirmation) {
        Ok(()) => {
            service
                .delete_domain(&inside.caller, id, &service::no_precondition)
                .await
        }
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) => Ok(go_to(&inside.path("domains/?done=domain-removed"))),
        Err(error) => Ok(sure(&service, &inside, &domain, &Problems::try_from(error)?)),
    }
}

fn sure(service: &Service, inside: &Inside<ChangeDomains>, domain: &Domain, problems: &Problems) -> Response {
    let below = below(domain.id);
    let call = Call::delete::<ChangeDomains>("Remove the domain", inside.api(&below));
    let shown = SurePage {
        frame: frame_below(inside, domain),
        alerts: problems.besides(&["confirmation"]),
        heading: format!("Remove {}?", domain.domain),
        text: "This cannot be undone: added again, it needs another record and other values at the identity provider. \
               Members stay members, and open sessions stay open. With it go:"
            .to_owned(),
        losses: losses(domain),
        typed: Some(typed_name(&domain.domain, problems)),
        button: "Remove the domain",
        back: inside.path(&below),
        curl: AsCurl::new(service, [call]),
    };
    page_again(problems, &shown)
}

/// What there is none of is not named.
fn losses(domain: &Domain) -> Vec<String> {
    let mut losses = Vec::new();
    if domain.is_verified() {
        losses.push("its proof: whoever proves it next has it".to_owned());
    }
    let set_up = [(Sso::Saml, domain.has_saml()), (Sso::Oidc, domain.has_oidc())];
    for (sso, _) in set_up.into_iter().filter(|(_, is)| *is) {
        let title = sso.title();
        losses.push(format!(
            "the {title} set-up, and which account is whose at the provider"
        ));
    }
    if let Some(sso) = domain.enforced() {
        let title = sso.title();
        losses.push(format!("the enforcement of {title}: passwords work again at once"));
    }
    losses.push("the list of its recent sign-ins".to_owned());
    losses
}
