//! Single sign-on: out to an identity provider, and back.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use identity::{Identity, Target, cookies};
use serde::Deserialize;
use service::sso::Sso;
use service::{DomainId, Error, Service};

use crate::Console;
use crate::failure::Failure;
use crate::page::{go_to, opened, with_cookie};
use crate::visitor::{Asked, Id, Sent, Visitor};

/// An assertion has at most 512 KiB; in a form, it takes more room.
const MOST_BYTES: usize = 1024 * 1024;
const MOST_ASSERTION: usize = 512 * 1024;
/// Longer than any that we give out.
const MOST_BROWSER: usize = 100;

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/saml/{domain}/login/", get(start_saml))
        .route("/saml/{domain}/metadata/", get(metadata))
        .route("/saml/{domain}/acs/", post(finish_saml))
        .route("/oidc/{domain}/login/", get(start_oidc))
        .route("/sso/{provider}/login/", get(start_shared))
        .route("/sso/callback/", get(finish_oidc))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
}

async fn start_saml(
    State(identity): State<Identity>,
    visitor: Visitor,
    Id(domain): Id<DomainId>,
    asked: Asked,
) -> Result<Response, Failure> {
    let browser = browser(&identity, visitor);
    let url = identity
        .start_saml(domain, &asked.next, &browser)
        .await
        .map_err(refused)?;
    Ok(sent_away(url.as_str(), &browser))
}

async fn start_oidc(
    State(identity): State<Identity>,
    visitor: Visitor,
    Id(domain): Id<DomainId>,
    asked: Asked,
) -> Result<Response, Failure> {
    start(&identity, Target::Domain(domain), visitor, &asked.next).await
}

async fn start_shared(
    State(identity): State<Identity>,
    visitor: Visitor,
    Id(Provider(sso)): Id<Provider>,
    asked: Asked,
) -> Result<Response, Failure> {
    start(&identity, Target::Instance(sso), visitor, &asked.next).await
}

async fn start(identity: &Identity, target: Target, visitor: Visitor, next: &str) -> Result<Response, Failure> {
    let browser = browser(identity, visitor);
    let url = identity.start_oidc(target, next, &browser).await.map_err(refused)?;
    Ok(sent_away(&url, &browser))
}

/// What the administrator of an identity provider gives to it.
async fn metadata(State(service): State<Service>, Id(domain): Id<DomainId>) -> Result<Response, Failure> {
    let metadata = auth::saml::metadata(&service.service_provider(domain).await?);
    Ok(([(header::CONTENT_TYPE, "application/samlmetadata+xml")], metadata).into_response())
}

#[derive(Deserialize)]
struct SamlAnswer {
    #[serde(rename = "SAMLResponse")]
    response: String,
}

async fn finish_saml(
    State(identity): State<Identity>,
    visitor: Visitor,
    Id(domain): Id<DomainId>,
    Sent(SamlAnswer { response }): Sent<SamlAnswer>,
) -> Result<Response, Failure> {
    if response.len() > MOST_ASSERTION {
        return Err(Failure::NotVouchedFor);
    }
    let entered = identity.finish_saml(domain, &response, visitor.browser.as_deref(), &visitor.request);
    let entered = entered.await.map_err(refused)?;
    opened(identity.service(), visitor, &entered.session, &entered.next).await
}

#[derive(Deserialize)]
struct OidcAnswer {
    #[serde(default)]
    state: String,
    code: Option<String>,
    #[serde(default)]
    error: String,
}

async fn finish_oidc(
    State(identity): State<Identity>,
    visitor: Visitor,
    answer: Result<Query<OidcAnswer>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Failure> {
    let Query(answer) = answer.map_err(|_| Failure::NotVouchedFor)?;
    let browser = visitor.browser.clone().unwrap_or_default();
    let Some(code) = &answer.code else {
        identity
            .note_oidc_error(&answer.state, &answer.error, &browser, &visitor.request)
            .await?;
        return Err(Failure::NotVouchedFor);
    };
    let entered = identity.finish_oidc(&answer.state, code, &browser, &visitor.request);
    let entered = entered.await.map_err(refused)?;
    opened(identity.service(), visitor, &entered.session, &entered.next).await
}

/// Which browser it is: what an identity provider answers must come back to the one that asked.
fn browser(identity: &Identity, visitor: Visitor) -> String {
    let known = visitor.browser.filter(|browser| browser.len() <= MOST_BROWSER);
    known.unwrap_or_else(|| auth::key::new_token("hgb_", identity.service().chance().bytes()))
}

fn sent_away(url: &str, browser: &str) -> Response {
    with_cookie(go_to(url), &cookies::set_for_answers(cookies::BROWSER, browser))
}

/// By which rule somebody was refused is noted for administrators, and not for whoever tries.
fn refused(error: Error) -> Failure {
    match error {
        Error::Invalid(_) => Failure::NotVouchedFor,
        other => other.into(),
    }
}

/// A provider of the whole instance.
struct Provider(Sso);

impl std::str::FromStr for Provider {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.parse()? {
            Sso::Saml | Sso::Oidc => Err(()),
            sso => Ok(Self(sso)),
        }
    }
}
