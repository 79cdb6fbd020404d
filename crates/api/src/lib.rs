//! The JSON API. Takes requests apart, asks the service once, puts answers together; decides nothing.

mod account;
mod activity;
mod batch_exports;
mod capture;
mod codes;
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
mod routes;
mod sign_in;
mod signup;
mod teams;
mod user;

use apps::Apps;
use axum::Router;
use axum::middleware::{from_fn_with_state, map_request};
use axum::routing::{any, get};
use exports::Exports;
use identity::Identity;

use http::middleware::{cors, ids_of_preflights, layer, method_not_allowed, not_found};
use http::receive::at_a_rate;
use http::state::Api;

pub use capture::capture_router;
pub use http::connection::{InProgress, Peer};
pub use http::limits::RateLimit;
pub use http::middleware::with_request_ids;
pub use http::path::end_path_with_slash;
pub use http::settings::Settings;
pub use openapi::spec;

/// The whole API, ready to be served, with the pages for people beside it: what happens to every request happens to
/// theirs, too.
pub fn router(identity: Identity, exports: Exports, apps: Apps, settings: Settings, pages: Option<Router>) -> Router {
    let cors = cors(&settings.cors_origins);
    let api = Api::new(identity, exports, apps, settings);
    let router = routes::routes()
        .router()
        .route("/api/schema/", get(openapi::serve))
        .route("/api/docs/", get(openapi::page))
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(api.clone());
    let router = match pages {
        Some(pages) => router
            .route("/api", any(not_found))
            .route("/api/", any(not_found))
            .route("/api/{*rest}", any(not_found))
            .merge(pages.layer(map_request(at_a_rate))),
        None => router.fallback(not_found),
    };
    let around = from_fn_with_state(api.clone(), layer);
    match cors {
        Some(cors) => router.layer((ids_of_preflights(api.service.clone()), cors, around)),
        None => router.layer(around),
    }
}
