//! Who is asking. A handler names what it needs in its signature, and cannot be written without.

use std::sync::Arc;

use aide::OperationInput;
use aide::generate::GenContext;
use aide::openapi::Operation;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{Method, header};
use identity::cookies;
use service::access::{self, Caller, Permission, Request, SessionLimit};
use service::credentials::Credential;
use service::keys::KeyRestrictions;
use service::operators;
use service::organizations::OrganizationRef;
use service::sessions::SignedIn;
use service::{KeyId, UserId};

use crate::http::context::RequestContext;
use crate::http::early_response::EarlyResponse;
use crate::http::error::Problem;
use crate::http::limits::Counted;
use crate::http::operation::note;
use crate::http::state::Api;
use crate::http::{idempotency, path};

/// How the OpenAPI spec names the scope and level of an operation; the coverage tests read them, too.
pub(crate) const SCOPE: &str = "x-required-scope";
pub(crate) const LEVEL: &str = "x-minimum-level";
pub(crate) const CREDENTIAL: &str = "x-credential";
/// A right on the whole instance that an operation takes.
pub(crate) const RIGHT: &str = "x-required-permission";

/// A member of the organization in the path who may do `P` there.
pub(crate) struct Allowed<P>(pub(crate) Caller<P>);

/// A user whose credential allows `P`, outside of any organization.
pub(crate) struct Principal<P>(pub(crate) access::Principal<P>);

/// A person who has signed in; no key will do.
pub(crate) struct Person(pub(crate) SignedIn);

/// An operator of the instance who has signed in; no key will do.
pub(crate) struct Operator(pub(crate) operators::Operator);

/// Whoever the credential belongs to, key or session, outside of any organization.
pub(crate) struct AuthenticatedUser(pub(crate) UserId);

/// A request from somebody who is not signed in, or does not need to be.
pub(crate) struct PublicRequest {
    pub(crate) request: Request,
    pub(crate) session: Option<String>,
    pub(crate) challenge: Option<String>,
}

impl<P: Permission> FromRequestParts<Api> for Allowed<P> {
    type Rejection = EarlyResponse;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, EarlyResponse> {
        let organization = organization(parts, api).await;
        let (credential, request) = (credential(parts)?, request(parts));
        let allowed = api.service.allowed::<P>(credential, organization, request).await;
        let mut caller = allowed.map_err(|error| api.refuse(parts, error))?;
        let (user, key) = (caller.user, caller.actor.key);
        let (organization, restrictions) = (caller.organization, caller.restrictions.clone());
        let place = || format!("{organization} {}", limits(&restrictions));
        admit(parts, api, (user, key), &place, &mut caller.actor_mut().request).await?;
        Ok(Self(caller))
    }
}

impl<P: Permission> FromRequestParts<Api> for Principal<P> {
    type Rejection = EarlyResponse;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, EarlyResponse> {
        let (credential, request) = (credential(parts)?, request(parts));
        let principal = api.service.principal::<P>(credential, request).await;
        let mut principal = principal.map_err(|error| api.refuse(parts, error))?;
        let (user, key, restrictions) = (principal.user, principal.actor.key, principal.restrictions.clone());
        let place = || limits(&restrictions);
        admit(parts, api, (user, key), &place, &mut principal.actor.request).await?;
        Ok(Self(principal))
    }
}

impl FromRequestParts<Api> for Person {
    type Rejection = EarlyResponse;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, EarlyResponse> {
        match credential(parts)? {
            Credential::Key(key) => {
                api.service
                    .own_key(key)
                    .await
                    .map_err(|error| api.refuse(parts, error))?;
                Err(Problem::SignInNeeded.into())
            }
            Credential::Session(token) => {
                let signed_in = api.service.signed_in(token, request(parts)).await;
                let mut person = signed_in.map_err(|error| api.refuse(parts, error))?;
                let whose = (person.user, None);
                admit(parts, api, whose, &String::new, &mut person.actor.request).await?;
                Ok(Self(person))
            }
        }
    }
}

impl FromRequestParts<Api> for Operator {
    type Rejection = EarlyResponse;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, EarlyResponse> {
        let Person(person) = Person::from_request_parts(parts, api).await?;
        Ok(Self(api.service.operator(&person).await?))
    }
}

impl FromRequestParts<Api> for AuthenticatedUser {
    type Rejection = EarlyResponse;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, EarlyResponse> {
        let found = match credential(parts)? {
            Credential::Key(key) => {
                let own = api.service.own_key(key).await;
                own.map(|key| (Some(key.id), key.user_id))
            }
            Credential::Session(token) => {
                let signed_in = api.service.signed_in(token, request(parts)).await;
                signed_in.map(|person| (None, person.user))
            }
        };
        let (key, user) = found.map_err(|error| api.refuse(parts, error))?;
        api.count(key, user, &RequestContext::of(parts))?;
        Ok(Self(user))
    }
}

impl FromRequestParts<Api> for PublicRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let mut request = request(parts);
        request.is_dry_run = is_dry_run(parts)?;
        Ok(Self {
            request,
            session: cookies::find(&parts.headers, cookies::SESSION).map(str::to_owned),
            challenge: cookies::find(&parts.headers, cookies::CHALLENGE).map(str::to_owned),
        })
    }
}

impl Api {
    /// Counts a request for its key, or for the person who is signed in.
    pub(crate) fn count(&self, key: Option<KeyId>, user: UserId, context: &RequestContext) -> Result<(), Problem> {
        let counted = key.map_or(Counted::Sessions(user), Counted::Key);
        self.limits.count(counted, context).map_err(Problem::Throttled)?;
        context.authenticate(user);
        Ok(())
    }

    /// The same count, for pages that are served beside the API.
    pub(crate) fn session_limit(&self, context: &Arc<RequestContext>) -> SessionLimit {
        let (limits, context) = (self.limits.clone(), context.clone());
        let count = move |user| {
            limits.count(Counted::Sessions(user), &context)?;
            context.authenticate(user);
            Ok(())
        };
        SessionLimit::new(count)
    }

    /// Failed keys are counted by address; past the limit they are not even told so.
    pub(crate) fn refuse(&self, parts: &Parts, error: service::Error) -> Problem {
        if !matches!(error, service::Error::BadCredential) {
            return error.into();
        }
        // A session that has ended is no attack: the browser does not know yet.
        if !parts.headers.contains_key(header::AUTHORIZATION) {
            return Problem::NotAuthenticated;
        }
        match self.limits.failed_credential(self.settings.client_address(parts)) {
            Ok(()) => Problem::AuthenticationFailed,
            Err(wait) => Problem::Throttled(wait),
        }
    }
}

/// The last steps before the body is looked at: the rate limit, dry run, and the idempotency claim.
async fn admit(
    parts: &Parts,
    api: &Api,
    (user, key): (UserId, Option<KeyId>),
    place: &(dyn Fn() -> String + Sync),
    request: &mut Request,
) -> Result<(), EarlyResponse> {
    let context = RequestContext::of(parts);
    api.count(key, user, &context)?;
    request.is_dry_run = is_dry_run(parts)?;
    request.claim = idempotency::claim(parts, api, user, place, &context).await?;
    Ok(())
}

/// What a credential is limited to, as text; empty for one that reaches everything.
fn limits(restrictions: &KeyRestrictions) -> String {
    let organizations = restrictions.organizations.iter().map(ToString::to_string);
    organizations
        .chain(restrictions.teams.iter().map(ToString::to_string))
        .collect::<Vec<_>>()
        .join(",")
}

async fn organization(parts: &mut Parts, api: &Api) -> Option<OrganizationRef> {
    let params = RawPathParams::from_request_parts(parts, api).await.ok()?;
    // The collection's own routes call it `id`, everything below an organization calls it `organization_id`.
    let of_name = |wanted: &str| params.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text);
    path::organization(of_name("organization_id").or_else(|| of_name("id"))?)
}

/// The key in the header, else the session of the browser.
pub(crate) fn credential(parts: &Parts) -> Result<Credential<'_>, Problem> {
    if let Some(value) = parts.headers.get(header::AUTHORIZATION) {
        let text = value.to_str().map_err(|_| Problem::AuthenticationFailed)?;
        let (scheme, key) = text.split_once(' ').ok_or(Problem::AuthenticationFailed)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Problem::NotAuthenticated);
        }
        return Ok(Credential::Key(key.trim()));
    }
    let token = cookies::find(&parts.headers, cookies::SESSION).ok_or(Problem::NotAuthenticated)?;
    Ok(Credential::Session(token))
}

/// What the middleware knows of a request.
pub(crate) fn request(parts: &Parts) -> Request {
    parts
        .extensions
        .get::<Request>()
        .cloned()
        .expect("the middleware notes every request")
}

/// `?dry_run=true` on a write.
pub(crate) fn is_dry_run(parts: &Parts) -> Result<bool, Problem> {
    let is_write = !matches!(parts.method, Method::GET | Method::HEAD);
    let Some(query) = parts.uri.query().filter(|_| is_write) else {
        return Ok(false);
    };
    match url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "dry_run") {
        None => Ok(false),
        Some((_, text)) => match &*text {
            "true" => {
                RequestContext::of(parts)
                    .dry_run
                    .store(true, std::sync::atomic::Ordering::Relaxed);
                Ok(true)
            }
            "false" => Ok(false),
            _ => Err(Problem::invalid("dry_run", "invalid_input", "Must be true or false.")),
        },
    }
}

impl<P: Permission> OperationInput for Allowed<P> {
    fn operation_input(_: &mut GenContext, operation: &mut Operation) {
        note(operation, CREDENTIAL, "member");
        note(operation, SCOPE, P::SCOPE.to_string());
        note(operation, LEVEL, i16::from(P::LEVEL));
    }
}

impl<P: Permission> OperationInput for Principal<P> {
    fn operation_input(_: &mut GenContext, operation: &mut Operation) {
        note(operation, CREDENTIAL, "user");
        note(operation, SCOPE, P::SCOPE.to_string());
    }
}

impl OperationInput for AuthenticatedUser {
    fn operation_input(_: &mut GenContext, operation: &mut Operation) {
        note(operation, CREDENTIAL, "own key");
    }
}

impl OperationInput for Person {
    fn operation_input(_: &mut GenContext, operation: &mut Operation) {
        note(operation, CREDENTIAL, "session");
    }
}

impl OperationInput for Operator {
    fn operation_input(_: &mut GenContext, operation: &mut Operation) {
        note(operation, CREDENTIAL, "session");
        note(operation, RIGHT, "operator");
    }
}

impl OperationInput for PublicRequest {
    fn operation_input(_: &mut GenContext, operation: &mut Operation) {
        note(operation, CREDENTIAL, "none");
    }
}
