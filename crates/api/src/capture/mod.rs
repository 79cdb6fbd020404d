//! The ways in for events, as `PostHog`'s SDKs use them. They stand beside the API, not in it: browsers send from any
//! site, nobody signs in, and no cookie is looked at. What lets events in is a project's token, which is no secret.

mod answers;
mod around;
mod room;
mod site;
mod start;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, header};
use axum::routing::{MethodRouter, any, get};
use bytes::Bytes;
use events::capture::{Captured, Envelope, MOST_BYTES, MOST_PACKED_BYTES, decode, unpacked_size};
use events::{Events, Time};
use http_body_util::LengthLimitError;
use service::Service;
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

use crate::{Settings, meters};
use answers::{Done, Refused};

#[derive(Debug, Clone)]
struct Capture {
    service: Service,
    events: Events,
    settings: Arc<Settings>,
    room: room::Room,
    meters: Arc<meters::Meters>,
}

/// The routes that SDKs send to, ready to be served beside [`crate::router`].
pub fn capture_router(service: Service, events: Events, settings: Settings) -> Router {
    let capture = Capture {
        service,
        events,
        settings: Arc::new(settings),
        room: room::Room::default(),
        meters: Arc::default(),
    };
    let mut router = Router::new();
    for path in ["/batch", "/capture", "/e", "/i/v0/e", "/i/v0/ai/batch", "/track"] {
        router = with_and_without_slash(router, path, &get(take).post(take));
    }
    router = with_and_without_slash(router, "/engage", &get(take_unnamed).post(take_unnamed));
    router = with_and_without_slash(router, "/flags", &any(start::flags));
    router = with_and_without_slash(router, "/decide", &any(start::decide));
    router = with_and_without_slash(router, "/array/{token}/config", &get(start::config));
    router = with_and_without_slash(router, "/site_app/{config}/{token}/{version}", &get(site::site));
    router = with_and_without_slash(router, "/frontend_app/{config}/{token}/{version}", &get(site::frontend));
    router
        .route("/array/{token}/config.js", get(start::config_script))
        .with_state(capture.clone())
        .layer(axum::middleware::from_fn_with_state(capture, around::layer))
        .layer(cors())
}

fn with_and_without_slash(router: Router<Capture>, path: &str, methods: &MethodRouter<Capture>) -> Router<Capture> {
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

async fn take(State(capture): State<Capture>, request: Request) -> Result<Done, Refused> {
    capture.take(request, None).await
}

/// `/engage/` changes persons, and its events need no name.
async fn take_unnamed(State(capture): State<Capture>, request: Request) -> Result<Done, Refused> {
    capture.take(request, Some("$identify")).await
}

impl Capture {
    async fn take(&self, request: Request, unnamed: Option<&'static str>) -> Result<Done, Refused> {
        let (parts, body) = request.into_parts();
        let arriving = self.room.to_arrive(body_size(&parts)).await?;
        let bytes = read(body).await?;
        let now = self.service.clock().now();
        let Captured { token, events } = self.decode(parts, bytes, unnamed, now).await?;
        drop(arriving);
        let found = self.service.team_by_token(&token).await?;
        let team = found.ok_or(Refused::UnknownToken)?.team;
        let count = events.len();
        if count > 0 {
            self.events.append(team.0, events, now).await?;
        }
        Ok(Done(count))
    }

    async fn decode(
        &self,
        parts: Parts,
        bytes: Bytes,
        unnamed: Option<&'static str>,
        now: Time,
    ) -> Result<Captured, Refused> {
        let address = self.settings.client_address(&parts);
        // Without a body, the address may hold what it would.
        let most_bytes = if bytes.is_empty() {
            MOST_BYTES
        } else {
            unpacked_size(&bytes)
        };
        let place = self.room.to_unpack(most_bytes).await?;
        let decoding = move || {
            let encoding = parts.headers.get(header::CONTENT_ENCODING);
            let envelope = Envelope {
                query: parts.uri.query().unwrap_or_default(),
                encoding: encoding.and_then(|value| value.to_str().ok()).unwrap_or_default(),
                address: Some(address),
                unnamed,
                most_bytes,
                now,
            };
            decode(bytes.into(), &envelope)
        };
        if place.is_large() {
            let decoded = tokio::task::spawn_blocking(decoding).await;
            return Ok(decoded.map_err(|_| Refused::Failed)??);
        }
        Ok(decoding()?)
    }
}

/// What a body says of its own size; the most there may be if it does not say.
fn body_size(parts: &Parts) -> usize {
    let length = parts.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    let is_without_body = parts.method == Method::GET || parts.method == Method::HEAD;
    length.unwrap_or(if is_without_body { 0 } else { MOST_PACKED_BYTES })
}

async fn read(body: Body) -> Result<Bytes, Refused> {
    let read = axum::body::to_bytes(body, MOST_PACKED_BYTES).await;
    read.map_err(|error| {
        let is_too_long = |error: &(dyn std::error::Error + 'static)| error.is::<LengthLimitError>();
        let mut causes = std::iter::successors(Some(&error as &(dyn std::error::Error + 'static)), |error| {
            error.source()
        });
        if causes.any(is_too_long) {
            events::capture::Refusal::TooLarge.into()
        } else {
            Refused::Broken
        }
    })
}
