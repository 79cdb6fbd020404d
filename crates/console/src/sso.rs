//! Single sign-on: out to an identity provider, and back.

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequest, Query, Request as HttpRequest, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use identity::{Identity, LoginRequest, Target, cookies};
use serde::Deserialize;
use service::sessions::OwnProof;
use service::sso::Sso;
use service::{DomainId, Error, Service};

use crate::failure::Failure;
use crate::new_session::opened;
use crate::page::{go_to, page, with_cookie, with_next};
use crate::state::Console;
use crate::visitor::{Id, PageQuery, Sent, Visitor};

/// What the verifier reads, in base64; in a form, it takes more room.
const MAX_ASSERTION: usize = auth::saml::MAX_RESPONSE / 2 * 3;
const MAX_BYTES: usize = auth::saml::MAX_RESPONSE / 4 * 7;
/// Longer than any that we give out.
const MAX_BROWSER: usize = 100;

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/saml/{domain}/login/", get(start_saml))
        .route("/saml/{domain}/metadata/", get(metadata))
        .route("/saml/{domain}/acs/", post(finish_saml))
        .route("/oidc/{domain}/login/", get(start_oidc))
        .route("/oidc/{domain}/callback/", get(finish_oidc))
        .route("/sso/{provider}/login/", get(start_shared))
        .route("/sso/{provider}/callback/", get(finish_shared))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
}

async fn start_saml(
    State(identity): State<Identity>,
    visitor: Visitor,
    Id(domain): Id<DomainId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let path = format!("/saml/{domain}/login/");
    if let Some(question) = ask_first(&visitor, Sso::Saml, &path, &asked) {
        return Ok(question);
    }
    let (browser, signed_in_as) = setting_out(&identity, &visitor).await?;
    let login_request = login_request(&visitor, &browser, signed_in_as, &asked);
    let url = identity.start_saml(domain, &login_request).await.map_err(refused)?;
    Ok(sent_away(url.as_str(), &browser))
}

async fn start_oidc(
    State(identity): State<Identity>,
    visitor: Visitor,
    Id(domain): Id<DomainId>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    let path = format!("/oidc/{domain}/login/");
    if let Some(question) = ask_first(&visitor, Sso::Oidc, &path, &asked) {
        return Ok(question);
    }
    start(&identity, Target::Domain(domain), visitor, &asked).await
}

async fn start_shared(
    State(identity): State<Identity>,
    visitor: Visitor,
    Id(Provider(sso)): Id<Provider>,
    asked: PageQuery,
) -> Result<Response, Failure> {
    start(&identity, Target::Instance(sso), visitor, &asked).await
}

async fn start(identity: &Identity, target: Target, visitor: Visitor, asked: &PageQuery) -> Result<Response, Failure> {
    let (browser, signed_in_as) = setting_out(identity, &visitor).await?;
    let login_request = login_request(&visitor, &browser, signed_in_as, asked);
    let url = identity.start_oidc(target, &login_request).await.map_err(refused)?;
    Ok(sent_away(&url, &browser))
}

#[derive(Template)]
#[template(path = "sso/ask.html")]
struct Prompt {
    title: &'static str,
    path: String,
}

/// A domain's own provider can sign anybody in as whom it likes. So another site cannot send people there behind their
/// back, and have them work in an account that is not theirs.
fn ask_first(visitor: &Visitor, sso: Sso, path: &str, asked: &PageQuery) -> Option<Response> {
    visitor.is_sent_by_another_site.then(|| {
        page(&Prompt {
            title: sso.title(),
            path: with_next(path, &asked.next),
        })
    })
}

/// Which browser it is, and whose account it is signed in to, if not by a provider's word: what an identity provider answers
/// must come back to it.
async fn setting_out(identity: &Identity, visitor: &Visitor) -> Result<(String, Option<OwnProof>), Failure> {
    let known = visitor.browser.clone().filter(|browser| browser.len() <= MAX_BROWSER);
    let browser = known.unwrap_or_else(|| auth::key::new_token("hgb_", identity.service().random().bytes()));
    let person = visitor.person(identity.service()).await?;
    Ok((browser, person.and_then(|person| person.own_proof())))
}

fn login_request<'a>(
    visitor: &'a Visitor,
    browser: &'a str,
    signed_in_as: Option<OwnProof>,
    asked: &'a PageQuery,
) -> LoginRequest<'a> {
    LoginRequest {
        next: &asked.next,
        browser,
        signed_in_as,
        request: &visitor.request,
    }
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
    form: HttpRequest,
) -> Result<Response, Failure> {
    // Nothing is read for a domain that is not there.
    let asked_for = identity.service().domain_for_sign_in(domain).await?;
    let Sent(SamlAnswer { response }) = Sent::from_request(form, &()).await?;
    if response.len() > MAX_ASSERTION {
        return Err(Failure::NotVouchedFor);
    }
    // As in `ask_first`: nobody has asked for this here.
    let may_be_unsolicited = asked_for.saml_idp_initiated && visitor.is_sent_by_another_site;
    if may_be_unsolicited && identity.is_unsolicited(&response, &visitor.request).await? {
        return Ok(page(&Unsolicited {
            domain: &asked_for.domain,
            path: format!("/saml/{domain}/acs/"),
            response: &response,
        }));
    }
    let login = identity.finish_saml(domain, &response, visitor.browser.as_deref(), &visitor.request);
    let login = login.await.map_err(refused)?;
    opened(identity.service(), visitor, &login.session, &login.next).await
}

/// A response that somebody has to agree to, because no sign-in began here.
#[derive(Template)]
#[template(path = "sso/unsolicited.html")]
struct Unsolicited<'a> {
    domain: &'a str,
    path: String,
    response: &'a str,
}

/// What a provider makes the browser bring, if it can be read.
type Answer = Result<Query<OidcAnswer>, axum::extract::rejection::QueryRejection>;

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
    Id(domain): Id<DomainId>,
    answer: Answer,
) -> Result<Response, Failure> {
    finish(&identity, Target::Domain(domain), visitor, answer).await
}

async fn finish_shared(
    State(identity): State<Identity>,
    visitor: Visitor,
    Id(Provider(sso)): Id<Provider>,
    answer: Answer,
) -> Result<Response, Failure> {
    finish(&identity, Target::Instance(sso), visitor, answer).await
}

async fn finish(identity: &Identity, target: Target, visitor: Visitor, answer: Answer) -> Result<Response, Failure> {
    let Query(answer) = answer.map_err(|_| Failure::NotVouchedFor)?;
    let browser = visitor.browser.clone().unwrap_or_default();
    let Some(code) = &answer.code else {
        identity
            .note_oidc_error(&answer.state, &answer.error, &browser, &visitor.request)
            .await?;
        return Err(Failure::NotVouchedFor);
    };
    let login = identity.finish_oidc(target, &answer.state, code, &browser, &visitor.request);
    let login = login.await.map_err(refused)?;
    opened(identity.service(), visitor, &login.session, &login.next).await
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
