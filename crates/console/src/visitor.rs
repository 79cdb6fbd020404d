//! Who asks: whoever it is, or somebody who has signed in.

use std::convert::Infallible;
use std::io;
use std::str::FromStr;

use axum::body::{Body, Bytes};
use axum::extract::{Form, FromRequest, FromRequestParts, Query, RawPathParams, Request as HttpRequest};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use identity::cookies;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use service::access::{Request, SessionLimit};
use service::sessions::SignedIn;
use service::users::User;
use service::{Error, Service};

use crate::failure::Failure;
use crate::page;
use crate::state::Console;

/// Anybody, and what their browser keeps for us.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) request: Request,
    pub(crate) session: Option<String>,
    pub(crate) challenge: Option<String>,
    pub(crate) browser: Option<String>,
    /// Followed a link of another site.
    pub(crate) is_sent_by_another_site: bool,
}

impl Visitor {
    fn of(parts: &Parts) -> Self {
        Self {
            request: parts.extensions.get::<Request>().cloned().unwrap_or_default(),
            session: cookie(&parts.headers, cookies::SESSION),
            challenge: cookie(&parts.headers, cookies::CHALLENGE),
            browser: cookie(&parts.headers, cookies::BROWSER),
            is_sent_by_another_site: is_sent_by_another_site(parts),
        }
    }

    /// Whoever is signed in; a session that has ended is none.
    pub(crate) async fn person(&self, service: &Service) -> Result<Option<SignedIn>, Failure> {
        let Some(session) = &self.session else { return Ok(None) };
        match service.signed_in(session, self.request.clone()).await {
            Ok(person) => Ok(Some(person)),
            Err(Error::BadCredential) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Browsers say so, older ones with forms alone. Whatever says nothing follows no links automatically.
fn is_sent_by_another_site(parts: &Parts) -> bool {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("host").or(parts.uri.authority().map(Authority::as_str));
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => !matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => origin.split_once("://").map(|(_, rest)| rest) != host,
        (None, None) => false,
    }
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = cookies::find(headers, name)?;
    (!value.is_empty()).then(|| value.to_owned())
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

/// Somebody who has signed in. Others are asked to, and come back afterwards.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) person: SignedIn,
    pub(crate) user: User,
    pub(crate) session: String,
}

impl Account {
    pub(crate) fn request(&self) -> Request {
        self.person.actor.request.clone()
    }
}

impl FromRequestParts<Console> for Account {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Response> {
        let visitor = Visitor::of(parts);
        let service = console.identity.service();
        let person = visitor.person(service).await.map_err(page::refuse)?;
        let (Some(person), Some(session)) = (person, visitor.session) else {
            return Err(page::go_to(&page::with_next("/login/", wanted(parts))));
        };
        if let Some(limit) = parts.extensions.get::<SessionLimit>() {
            limit.count(person.user).map_err(page::refuse)?;
        }
        let user = service.user(person.user).await.map_err(page::refuse)?;
        Ok(Self { person, user, session })
    }
}

/// A form cannot be sent again after signing in, so its page is shown instead.
fn wanted(parts: &Parts) -> &str {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    if parts.method == Method::GET { path } else { "/account/" }
}

/// The last id in a path. What cannot be one is not found.
pub(crate) struct Id<T>(pub(crate) T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Failure::NoSuchPage)?;
        let last = params.iter().last().map(|(_, text)| text);
        let id = last.and_then(|text| text.parse().ok());
        id.map(Self).ok_or(Failure::NoSuchPage)
    }
}

/// The last two ids in a path, such as an export's and that of a run of it.
pub(crate) struct Ids<A, B>(pub(crate) A, pub(crate) B);

impl<A: FromStr, B: FromStr, S: Send + Sync> FromRequestParts<S> for Ids<A, B> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Failure::NoSuchPage)?;
        let texts: Vec<&str> = params.iter().map(|(_, text)| text).collect();
        let [.., outer, inner] = texts[..] else {
            return Err(Failure::NoSuchPage);
        };
        match (outer.parse(), inner.parse()) {
            (Ok(outer), Ok(inner)) => Ok(Self(outer, inner)),
            _ => Err(Failure::NoSuchPage),
        }
    }
}

/// Nobody types it, and PostgreSQL keeps no text with it.
fn holds_nul(encoded: &[u8]) -> bool {
    encoded.contains(&0) || encoded.windows(3).any(|three| three == b"%00")
}

/// What a form holds.
pub(crate) struct Sent<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Failure;

    async fn from_request(request: HttpRequest, state: &S) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let whole = HttpRequest::from_parts(parts.clone(), body);
        let body = Bytes::from_request(whole, state)
            .await
            .map_err(|broken| unreadable(&broken))?;
        if holds_nul(&body) {
            return Err(Failure::Unreadable);
        }
        let request = HttpRequest::from_parts(parts, Body::from(body));
        let form = Form::<T>::from_request(request, state).await;
        form.map(|Form(form)| Self(form)).map_err(|_| Failure::Unreadable)
    }
}

/// Whoever serves these pages may have had no room for the rest of a form, or may have waited for it too long.
fn unreadable(broken: &(dyn std::error::Error + 'static)) -> Failure {
    let mut causes = std::iter::successors(Some(broken), |error| error.source());
    causes.find_map(known).unwrap_or(Failure::Unreadable)
}

fn known(cause: &(dyn std::error::Error + 'static)) -> Option<Failure> {
    if let Some(Error::Unavailable { detail, wait }) = cause.downcast_ref() {
        let (detail, wait) = (detail.clone(), *wait);
        return Some(Error::Unavailable { detail, wait }.into());
    }
    let kind = cause.downcast_ref::<io::Error>()?.kind();
    (kind == io::ErrorKind::TimedOut).then_some(Failure::TooSlow)
}

/// What stands behind the question mark. What cannot be read says nothing: whoever mistypes a filter sees the page.
#[derive(Debug, Default)]
pub(crate) struct InQuery<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequestParts<S> for InQuery<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        if holds_nul(parts.uri.query().unwrap_or_default().as_bytes()) {
            return Ok(Self::default());
        }
        let query = Query::<T>::from_request_parts(parts, state).await;
        Ok(Self(query.map(|query| query.0).unwrap_or_default()))
    }
}

/// What the address of a page may carry.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct PageQuery {
    /// Where to go after signing in.
    #[serde(default)]
    pub(crate) next: String,
    /// What has just happened, to be said on the page.
    #[serde(default)]
    pub(crate) done: String,
}

impl<S: Send + Sync> FromRequestParts<S> for PageQuery {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let InQuery(asked) = InQuery::<Self>::from_request_parts(parts, state).await?;
        Ok(asked)
    }
}
