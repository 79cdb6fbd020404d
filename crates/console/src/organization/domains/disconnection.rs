//! Forgetting an identity provider, which asks first.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Value, json};
use service::access::ChangeDomains;
use service::domains::DomainPatch;
use service::sso::Sso;
use service::{DomainId, Service};

use super::frame::{below, frame_below};
use crate::curl::{AsCurl, Call};
use crate::failure::{Failure, Problems};
use crate::organization::OrganizationAccess;
use crate::organization::confirm::ConfirmPage;
use crate::page::{go_to, page_again};
use crate::state::Console;
use crate::visitor::{Id, InQuery};

pub(super) fn routes() -> Router<Console> {
    Router::new().route(
        "/organizations/{organization}/domains/{domain}/disconnect/",
        get(ask).post(disconnect),
    )
}

/// Which one, in the address: the form is sent to where it stands.
#[derive(Debug, Default, Deserialize)]
struct DisconnectForm {
    #[serde(default)]
    way: String,
}

/// What is forgotten.
struct Connection {
    sso: Sso,
    patch: DomainPatch,
    body: Value,
    loss: &'static str,
}

impl Connection {
    /// Only a domain's own providers can be disconnected here.
    fn read(asked: &DisconnectForm) -> Result<Self, Failure> {
        let nothing = || Some(String::new());
        match asked.way.parse() {
            Ok(sso @ Sso::Saml) => Ok(Self {
                sso,
                patch: DomainPatch {
                    saml_entity_id: nothing(),
                    saml_acs_url: nothing(),
                    saml_x509_cert: nothing(),
                    saml_idp_initiated: Some(false),
                    ..DomainPatch::default()
                },
                body: json!({ "saml_entity_id": "", "saml_acs_url": "", "saml_x509_cert": "", "saml_idp_initiated": false }),
                loss: "its entity ID, SSO URL and certificate",
            }),
            Ok(sso @ Sso::Oidc) => Ok(Self {
                sso,
                patch: DomainPatch {
                    oidc_issuer: nothing(),
                    oidc_client_id: nothing(),
                    oidc_client_secret: nothing(),
                    ..DomainPatch::default()
                },
                body: json!({ "oidc_issuer": "", "oidc_client_id": "", "oidc_client_secret": "" }),
                loss: "its issuer, client ID and client secret",
            }),
            _ => Err(Failure::NoSuchPage),
        }
    }
}

async fn ask(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    InQuery(asked): InQuery<DisconnectForm>,
) -> Result<Response, Failure> {
    confirm_page(&service, &access, id, Connection::read(&asked)?, &Problems::default()).await
}

async fn disconnect(
    State(service): State<Service>,
    access: OrganizationAccess<ChangeDomains>,
    Id(id): Id<DomainId>,
    InQuery(asked): InQuery<DisconnectForm>,
) -> Result<Response, Failure> {
    let connection = Connection::read(&asked)?;
    let changed = service
        .update_domain(&access.caller, id, &connection.patch, &service::no_precondition)
        .await;
    match changed {
        Ok(_) => Ok(go_to(&access.path(&format!("{}?done=disconnected", below(id))))),
        Err(error) => confirm_page(&service, &access, id, connection, &Problems::try_from(error)?).await,
    }
}

async fn confirm_page(
    service: &Service,
    access: &OrganizationAccess<ChangeDomains>,
    id: DomainId,
    connection: Connection,
    problems: &Problems,
) -> Result<Response, Failure> {
    let domain = service.domain(&access.caller, id).await?;
    let title = connection.sso.title();
    let call = Call::patch::<ChangeDomains>("Disconnect the provider", access.api(&below(id))).sending(connection.body);
    let shown = ConfirmPage {
        frame: frame_below(access, &domain),
        alerts: problems.besides(&[]),
        heading: format!("Disconnect {title} from {}?", domain.domain),
        text: "Nobody can sign in with this provider any more. Members stay members, and open sessions stay open. \
               This will also delete:"
            .to_owned(),
        losses: vec![
            connection.loss.to_owned(),
            "the linked accounts: owners have to link theirs again".to_owned(),
        ],
        typed: None,
        button: "Disconnect",
        back: access.path(&format!("{}{}/", below(id), connection.sso)),
        curl: AsCurl::new(service, [call]),
    };
    Ok(page_again(problems, &shown))
}
