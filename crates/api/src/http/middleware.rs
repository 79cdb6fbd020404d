//! What happens to every request and every answer, once: ids, time limit, problems, headers, log, metrics.

use std::borrow::Cow;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use identity::cookies;
use service::access::{self, Origin};
use service::{Service, caller};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use tracing::{Instrument, Span};

use crate::http::body_memory::MAX_UNAUTHENTICATED_BYTES;
use crate::http::context::{REQUEST_ID, Rate, RequestContext, TIME_LIMIT, request_id};
use crate::http::error::Problem;
use crate::http::rendering::rendered;
use crate::http::state::Api;
use crate::http::{body_memory, conditional, host, repeat};

const DRY_RUN: HeaderName = HeaderName::from_static("x-dry-run");
/// How many bytes of a path are logged. No path of ours is longer.
const LOGGED: usize = 256;
/// How long browsers come by https alone, once they have.
const A_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

pub(crate) async fn layer(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let context = Arc::new(RequestContext::new(request_id(&api.service, request.headers())));
    request.extensions_mut().insert(context.clone());
    let (parts, body) = request.into_parts();
    let asks = access::Request {
        id: context.request_id.clone(),
        origin: origin(&api, &parts),
        ..access::Request::default()
    };
    let refusal = refusal(&api, &parts);
    let is_https = api.settings.is_https(&parts);
    let address = asks.origin.address;
    let body = counted(&api, &parts, body, address, &context);
    let mut request = Request::from_parts(parts, body);
    request.extensions_mut().insert(asks);
    if !request.uri().path().starts_with("/api/") {
        request.extensions_mut().insert(api.session_limit(&context));
    }
    let asked = RequestSummary::about(&request);
    let span = asked.span(&api, &context);
    // Boxed, or each of these would move all of it into its own future.
    let carried_out = Box::pin(carry_out(&api, request, next, refusal));
    let answer = AssertUnwindSafe(caller::on_behalf_of(address, carried_out))
        .catch_unwind()
        .instrument(span);
    let response = match tokio::time::timeout(TIME_LIMIT, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => Problem::Panicked.into_response(),
        Err(_) => Problem::TimedOut.into_response(),
    };
    let response = rendered(response, asked.accept.as_ref(), &context);
    let response = conditional::not_modified(response, &asked.method, asked.if_none_match.as_ref());
    let mut response = held(&api, response, address, &asked, &context).await;
    add_headers(response.headers_mut(), &context);
    if is_https {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, A_YEAR);
    }
    asked.record(&api, response.status(), started.elapsed(), &context);
    response
}

/// Who asks, as far as one can tell.
fn origin(api: &Api, parts: &Parts) -> Origin {
    let user_agent = parts.headers.get(header::USER_AGENT);
    let user_agent = user_agent.and_then(|value| value.to_str().ok()).unwrap_or_default();
    Origin {
        address: Some(api.settings.client_address(parts)),
        user_agent: user_agent.into(),
    }
}

/// A body that reserves memory as it arrives. Most requests have none.
fn counted(api: &Api, parts: &Parts, body: Body, address: Option<IpAddr>, context: &RequestContext) -> Body {
    let Some(address) = address.filter(|_| !body.is_end_stream()) else {
        return body;
    };
    let reservation = context
        .body
        .get_or_init(|| Arc::new(api.body_memory.enter(address)))
        .clone();
    // Assertions are long, and their pages have a limit of their own.
    let is_answer = parts.uri.path().starts_with(ANSWERS_OF_PROVIDERS);
    let most_unauthenticated = if is_answer {
        usize::MAX
    } else {
        MAX_UNAUTHENTICATED_BYTES
    };
    body_memory::counted(body, reservation, most_unauthenticated)
}

/// An answer whose memory is reserved until it was taken, if it is large.
async fn held(
    api: &Api,
    response: Response,
    address: Option<IpAddr>,
    asked: &RequestSummary,
    context: &RequestContext,
) -> Response {
    let Some(address) = address else { return response };
    let user = context.user.get().copied();
    match api.response_memory.hold(response, address, user).await {
        Ok(response) => response,
        Err(busy) => rendered(Problem::from(busy).into_response(), asked.accept.as_ref(), context),
    }
}

/// What is wrong with a request wherever it leads.
fn refusal(api: &Api, parts: &Parts) -> Option<Problem> {
    match host::host(parts) {
        Err(problem) => Some(problem),
        // Scripts of apps share no host with what people do here.
        Ok(_) if api.settings.is_for_apps(parts) == Some(true) => Some(Problem::NoSuchRoute),
        Ok(_) => is_cross_origin(parts).then_some(Problem::CrossOrigin),
    }
}

/// Identity providers make browsers post their answers here, from their own pages. What they carry is proof alone.
const ANSWERS_OF_PROVIDERS: &str = "/saml/";

/// Browsers send cookies along with what other sites ask for; only our own pages may change things with them. A key is
/// never sent along automatically, so who sends one, and no cookie beside it, cannot be misused.
fn is_cross_origin(parts: &Parts) -> bool {
    let is_harmless = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    if is_harmless || is_by_key_alone(&parts.headers) || parts.uri.path().starts_with(ANSWERS_OF_PROVIDERS) {
        return false;
    }
    let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    match text(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => !matches!(site, "same-origin" | "none"),
        None => match (text(header::ORIGIN), host::host(parts).ok().flatten()) {
            (Some(origin), Some(host)) => origin.split_once("://").is_none_or(|(_, rest)| rest != host),
            (Some(_), None) => true,
            // No browser: there is nobody to be misused.
            (None, _) => false,
        },
    }
}

/// Browsers remember `Basic` by themselves, but no `Bearer`.
fn is_by_key_alone(headers: &HeaderMap) -> bool {
    let has_cookie = [cookies::SESSION, cookies::CHALLENGE, cookies::BROWSER]
        .iter()
        .any(|name| cookies::find(headers, name).is_some());
    let scheme = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.split(' ').next());
    !has_cookie && scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
}

async fn carry_out(api: &Api, request: Request, next: Next, refusal: Option<Problem>) -> Response {
    if let Some(problem) = refusal {
        return problem.into_response();
    }
    repeat::while_needed(api, request, next).await
}

/// What the log and the metrics say about a request, and what the answer depends on.
struct RequestSummary {
    method: Method,
    uri: Uri,
    route: Option<MatchedPath>,
    accept: Option<HeaderValue>,
    if_none_match: Option<HeaderValue>,
}

impl RequestSummary {
    fn about(request: &Request) -> Self {
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
            accept: request.headers().get(header::ACCEPT).cloned(),
            if_none_match: request.headers().get(header::IF_NONE_MATCH).cloned(),
        }
    }

    fn route(&self) -> &str {
        self.route.as_ref().map_or("unmatched", MatchedPath::as_str)
    }

    /// What may be told of the path: a link with a secret in it lets somebody in.
    fn path(&self) -> Cow<'_, str> {
        let path = start_of(self.uri.path());
        if !path.split('/').any(is_secret) {
            return path.into();
        }
        let shown = |part| if is_secret(part) { "[secret]" } else { part };
        path.split('/').map(shown).collect::<Vec<_>>().join("/").into()
    }

    /// Costs time, so only if somebody collects it.
    fn span(&self, api: &Api, context: &RequestContext) -> Span {
        if !api.settings.traces_requests {
            return Span::none();
        }
        let (method, route) = (start_of(self.method.as_str()), self.route());
        tracing::info_span!("http", method, route, request_id = &*context.request_id)
    }

    fn record(&self, api: &Api, status: StatusCode, took: Duration, context: &RequestContext) {
        // The query is left out: it may hold what people searched for.
        tracing::info!(
            request_id = &*context.request_id,
            method = start_of(self.method.as_str()),
            path = &*self.path(),
            route = self.route(),
            status = status.as_u16(),
            duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
        api.meters.count(&self.method, self.route(), status, took);
    }
}

/// What is logged of a text that anybody can make as long as headers may be.
pub(crate) fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOGGED)]
}

/// All secrets of ours begin alike: three letters and an underscore.
fn is_secret(part: &str) -> bool {
    part.starts_with("hg") && part.as_bytes().get(3) == Some(&b'_')
}

/// Gives an id to the answers of a router that has no other layer.
pub fn with_request_ids(router: Router, service: Service) -> Router {
    router.layer(from_fn_with_state(service, identify))
}

async fn identify(State(service): State<Service>, request: Request, next: Next) -> Response {
    let id = request_id(&service, request.headers());
    let mut response = next.run(request).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Gives an id to what is answered before [`layer`]: CORS preflight requests. Every request passes here, so this
/// is no function with a future of its own.
pub(crate) fn ids_of_preflights(
    service: Service,
) -> SetResponseHeaderLayer<impl Fn(&Response) -> Option<HeaderValue> + Clone> {
    let new = move |_: &Response| HeaderValue::from_str(&request_id(&service, &HeaderMap::new())).ok();
    SetResponseHeaderLayer::if_not_present(REQUEST_ID, new)
}

fn add_headers(headers: &mut HeaderMap, context: &RequestContext) {
    if let Ok(id) = HeaderValue::from_str(&context.request_id) {
        headers.insert(REQUEST_ID, id);
    }
    if context.dry_run.load(Ordering::Relaxed) {
        headers.insert(DRY_RUN, HeaderValue::from_static("true"));
        // What was undone must not be remembered by the browser.
        headers.remove(header::SET_COOKIE);
    }
    if let Some(Rate {
        policy,
        remaining,
        reset,
    }) = context.rate.get()
    {
        let seconds = reset.as_secs() + u64::from(reset.subsec_nanos() > 0);
        insert_text(headers, "ratelimit-policy", policy);
        insert_text(headers, "ratelimit", &format!("\"key\";r={remaining};t={seconds}"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    // Answers depend on the credential; no shared cache may keep them.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("private, no-cache"));
}

fn insert_text(headers: &mut HeaderMap, name: &'static str, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

pub(crate) async fn not_found() -> Problem {
    Problem::NoSuchRoute
}

/// The router has put the header `Allow` on this answer already, or will.
pub(crate) async fn method_not_allowed(method: Method) -> Response {
    if method == Method::OPTIONS {
        StatusCode::NO_CONTENT.into_response()
    } else {
        Problem::MethodNotAllowed.into_response()
    }
}

/// Off unless an operator names the origins.
pub(crate) fn cors(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let known = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::list(known))
        .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::IF_MATCH,
            header::IF_NONE_MATCH,
            HeaderName::from_static("idempotency-key"),
            REQUEST_ID,
        ])
        .expose_headers(Any)
        .max_age(Duration::from_mins(10));
    Some(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(method: &str, path: &str) -> (String, String) {
        let request = axum::http::Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).expect("a request");
        let summary = RequestSummary::about(&request);
        (
            start_of(summary.method.as_str()).to_owned(),
            summary.path().into_owned(),
        )
    }

    #[test]
    fn the_start_of_a_path_is_logged_without_its_secrets() {
        let (method, path) = logged("GET", "/api/organizations/?search=ann");
        assert_eq!((method.as_str(), path.as_str()), ("GET", "/api/organizations/"));
        assert_eq!(logged("GET", "/reset/hgr_secret/").1, "/reset/[secret]/");
        let long = format!("/{}", "x".repeat(60_000));
        assert_eq!(logged("GET", &long).1, long[..LOGGED]);
        let secret = format!("/{}/hgr_{}", "x".repeat(LOGGED - 20), "s".repeat(60_000));
        let shown = logged("GET", &secret).1;
        assert!(shown.ends_with("/[secret]") && shown.len() <= LOGGED, "{shown}");
        assert_eq!(logged(&"M".repeat(60_000), "/").0.len(), LOGGED);
    }

    #[test]
    fn a_character_is_logged_whole_or_not_at_all() {
        let text = format!("x{}", "é".repeat(LOGGED));
        assert_eq!(start_of(&text), &text[..LOGGED - 1]);
    }
}
