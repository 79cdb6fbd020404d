//! The capture endpoints, as `PostHog`'s SDKs use them. They are separate from the API: browsers send from any site, nobody
//! signs in, and cookies are ignored. A team's token authorizes a request; it is public.

mod answers;
mod arrival;
mod authentication;
mod budget;
mod decode;
mod middleware;
mod part;
mod readers;
mod receive;
mod search;
mod site;
mod start;
mod state;
mod upload;
mod usage;
mod waiters;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::routing::{MethodRouter, any, get};
use events::Events;
use service::Service;
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

use crate::http::middleware::ids_of_preflights;
use crate::http::settings::Settings;
use answers::{Done, Result};
use state::Capture;

/// The routes that SDKs send to, ready to be served beside [`crate::router`].
pub fn capture_router(service: Service, events: Events, settings: Settings) -> Router {
    let capture = Arc::new(Capture::new(service, events, settings));
    let mut router = Router::new();
    for path in ["/batch", "/capture", "/e", "/i/v0/e", "/i/v0/ai/batch", "/track"] {
        router = with_and_without_slash(router, path, &get(take).post(take));
    }
    router = with_and_without_slash(router, "/engage", &get(take_unnamed).post(take_unnamed));
    router = with_and_without_slash(router, "/flags", &any(start::flags));
    router = with_and_without_slash(router, "/decide", &any(start::decide));
    router = with_and_without_slash(router, "/array/{token}/config", &get(start::config));
    let only_there = axum::middleware::from_fn_with_state(capture.clone(), site::only_on_its_host);
    for (kind, methods) in [("site_app", get(site::site)), ("frontend_app", get(site::frontend))] {
        let path = format!("/{kind}/{{config}}/{{token}}/{{version}}");
        router = with_and_without_slash(router, &path, &methods.layer(only_there.clone()));
    }
    let ids = ids_of_preflights(capture.service.clone());
    let around = axum::middleware::from_fn_with_state(capture.clone(), middleware::layer);
    router
        .route("/array/{token}/config.js", get(start::config_script))
        .with_state(capture)
        // In one layer: each one that is added alone costs every event an allocation or two.
        .layer((ids, cors(), around))
}

fn with_and_without_slash(
    router: Router<Arc<Capture>>,
    path: &str,
    methods: &MethodRouter<Arc<Capture>>,
) -> Router<Arc<Capture>> {
    router
        .route(path, methods.clone())
        .route(&format!("{path}/"), methods.clone())
}

/// Pages of any site may send, and read that it was taken.
fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST, Method::OPTIONS])
        .allow_headers(AllowHeaders::mirror_request())
        .max_age(std::time::Duration::from_hours(24))
}

async fn take(State(capture): State<Arc<Capture>>, request: Request) -> Result<Done> {
    upload::take(&capture, request, None).await
}

/// `/engage/` changes persons, and its events need no name.
async fn take_unnamed(State(capture): State<Arc<Capture>>, request: Request) -> Result<Done> {
    upload::take(&capture, request, Some("$identify")).await
}
