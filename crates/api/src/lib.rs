//! The JSON API. Takes requests apart, asks the service once, puts answers together; decides nothing.

mod account;
mod activity;
mod batch_exports;
mod capture;
mod domains;
mod export_runs;
mod export_views;
mod http;
mod instance;
mod invites;
mod keys;
mod members;
mod openapi;
mod organizations;
mod pipeline;
mod sign_in;
mod signup;
mod teams;
mod user;

use std::sync::Arc;

use aide::axum::ApiRouter;
use apps::Apps;
use axum::Router;
use axum::http::{Request, Uri};
use axum::routing::{any, get};
use exports::Exports;
use identity::Identity;
use service::Service;

pub use capture::capture_router;
pub use http::limits::{Peer, RateLimit, UnderWay};
pub use openapi::document;

/// What the API is told by the one who starts it.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where links begin, such as `https://hedgerow.example.com`; else the request's own host.
    pub site_url: Option<String>,
    /// The host that scripts of apps have for themselves, such as `apps.example.net`.
    pub apps_host: Option<String>,
    /// Addresses whose forwarded headers are believed.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// How often one key may ask.
    pub rate_limit: Option<RateLimit>,
    /// Pages of these origins may call the API from a browser.
    pub cors_origins: Vec<String>,
    /// How many bytes of memory requests that capture events may use together. Defaults to 768 MB.
    pub capture_memory: Option<usize>,
    /// Whether each request gets a span of its own, for export to a collector.
    pub traces_requests: bool,
}

/// What handlers share.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    service: Service,
    identity: Identity,
    exports: Exports,
    apps: Apps,
    settings: Arc<Settings>,
    limits: Arc<http::limits::Limits>,
    body_memory: Arc<http::body_memory::BodyMemory>,
    answer_memory: Arc<http::answer_memory::AnswerMemory>,
    pages: http::page::Pages,
    meters: Arc<http::meters::Meters>,
}

impl axum::extract::FromRef<Api> for Service {
    fn from_ref(api: &Api) -> Self {
        api.service.clone()
    }
}

impl axum::extract::FromRef<Api> for Identity {
    fn from_ref(api: &Api) -> Self {
        api.identity.clone()
    }
}

impl axum::extract::FromRef<Api> for Exports {
    fn from_ref(api: &Api) -> Self {
        api.exports.clone()
    }
}

impl axum::extract::FromRef<Api> for Apps {
    fn from_ref(api: &Api) -> Self {
        api.apps.clone()
    }
}

/// One line a resource: everything else about it is in its own file.
fn routes() -> ApiRouter<Api> {
    ApiRouter::new()
        .merge(organizations::routes())
        .merge(teams::routes())
        .merge(members::routes())
        .merge(invites::routes())
        .merge(domains::routes())
        .merge(batch_exports::routes())
        .merge(export_runs::routes())
        .merge(pipeline::routes())
        .merge(activity::routes())
        .merge(keys::routes())
        .merge(sign_in::routes())
        .merge(signup::routes())
        .merge(account::routes())
        .merge(instance::routes())
}

/// Published paths end with a slash; the same path without it is served, too, with no redirect.
pub fn end_path_with_slash<B>(request: &mut Request<B>) {
    let uri = request.uri();
    if uri.path().ends_with('/') || !uri.path().starts_with("/api/") {
        return;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{}/{query}", uri.path()).parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// The whole API, ready to be served, with the pages for people beside it: what happens to every request happens to
/// theirs, too.
pub fn router(identity: Identity, exports: Exports, apps: Apps, settings: Settings, pages: Option<Router>) -> Router {
    let limits = Arc::new(http::limits::Limits::new(settings.rate_limit));
    let cors = http::middleware::cors(&settings.cors_origins);
    let api = Api {
        service: identity.service().clone(),
        identity,
        exports,
        apps,
        settings: Arc::new(settings),
        limits,
        body_memory: Arc::default(),
        answer_memory: Arc::default(),
        pages: http::page::Pages::default(),
        meters: Arc::default(),
    };
    let router = Router::from(routes())
        .route("/api/schema/", get(openapi::serve))
        .route("/api/docs/", get(openapi::page))
        .method_not_allowed_fallback(http::middleware::method_not_allowed)
        .with_state(api.clone());
    let router = match pages {
        Some(pages) => router
            .route("/api", any(http::middleware::not_found))
            .route("/api/", any(http::middleware::not_found))
            .route("/api/{*rest}", any(http::middleware::not_found))
            .merge(pages.layer(axum::middleware::map_request(capture::at_a_rate))),
        None => router.fallback(http::middleware::not_found),
    };
    let router = router.layer(axum::middleware::from_fn_with_state(
        api.clone(),
        http::middleware::layer,
    ));
    match cors {
        Some(cors) => with_request_ids(router.layer(cors), api.service),
        None => router,
    }
}

/// Gives an id to the answers that have none yet.
pub fn with_request_ids(router: Router, service: Service) -> Router {
    router.layer(axum::middleware::from_fn_with_state(
        service,
        http::middleware::identify,
    ))
}
