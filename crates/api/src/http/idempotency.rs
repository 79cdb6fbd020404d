//! `Idempotency-Key`: every repetition gets the response of the first request.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, StreamExt, stream};
use service::idempotency::{Claim, Claimed, StoredResponse};
use service::{UserId, caller};
use sha2::{Digest, Sha256};

use crate::http::body;
use crate::http::conditional::hash;
use crate::http::connection::InProgress;
use crate::http::context::{RequestContext, TIME_LIMIT};
use crate::http::early_response::EarlyResponse;
use crate::http::error::Problem;
use crate::http::rendering::rendered;
use crate::http::reply::KeptBody;
use crate::http::state::Api;

const HEADER: &str = "idempotency-key";
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// What of a response is worth storing beside its body.
const KEPT: [&str; 4] = ["content-type", "etag", "location", "x-dry-run"];
const MAX_CHARACTERS: usize = 255;

/// What the extractor claims once it knows the user: a token, or why there is none, for this body.
#[derive(Debug, Clone)]
struct Wanted {
    token: Result<String, Problem>,
    body: ReadAhead,
}

/// A body that can be read before the handler reads it.
#[derive(Debug, Clone)]
struct ReadAhead(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    body: Mutex<BodyDataStream>,
    is_read: AtomicBool,
}

impl ReadAhead {
    fn new(body: Body) -> Self {
        Self(Arc::new(Shared {
            body: Mutex::new(body.into_data_stream()),
            is_read: AtomicBool::new(false),
        }))
    }

    /// The body for the handler, which comes from here either way.
    fn body(&self) -> Body {
        let this = self.clone();
        Body::from_stream(stream::poll_fn(move |cx| this.lock().poll_next_unpin(cx)))
    }

    fn lock(&self) -> MutexGuard<'_, BodyDataStream> {
        self.0.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all of it, and leaves it to be read again.
    async fn hash(&self) -> Result<[u8; 32], Problem> {
        let body = std::mem::replace(&mut *self.lock(), Body::empty().into_data_stream());
        let bytes = body::collect(Body::from_stream(body)).await?;
        let hash = Sha256::digest(&bytes).into();
        *self.lock() = Body::from(bytes).into_data_stream();
        self.0.is_read.store(true, Ordering::Relaxed);
        Ok(hash)
    }

    fn is_read(&self) -> bool {
        self.0.is_read.load(Ordering::Relaxed)
    }
}

/// A request that continues after its client disconnects, once its body has been read: the response is stored for the retry. Before
/// that, it ends with the connection or at the time limit.
struct DetachOnDrop<F: Future<Output = Response> + Send + 'static> {
    body: ReadAhead,
    work: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = Response> + Send + 'static> Future for DetachOnDrop<F> {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        // Put back only if there is more to do: what has panicked must not go on.
        let mut work = self.work.take().expect("nobody asks again after the end");
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<F: Future<Output = Response> + Send + 'static> Drop for DetachOnDrop<F> {
    fn drop(&mut self) {
        let work = self.work.take().filter(|_| self.body.is_read());
        if let (Some(work), Ok(runtime)) = (work, tokio::runtime::Handle::try_current()) {
            // Scheduled as the original caller, who is the current one: the future is dropped in its task.
            let work = caller::on_behalf_of_caller(caller::current(), work);
            runtime.spawn(tokio::time::timeout(TIME_LIMIT, work));
        }
    }
}

pub(crate) fn is_wanted(request: &Request) -> bool {
    matches!(*request.method(), Method::POST | Method::PATCH) && request.headers().contains_key(HEADER)
}

/// Has the token claimed on the way in, and stores the response afterwards.
pub(crate) async fn once(api: Api, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = ReadAhead::new(body);
    parts.extensions.insert(Wanted {
        token: token(&parts.headers),
        body: body.clone(),
    });
    let request = Request::from_parts(parts, body.body());
    let work = Some(Box::pin(respond(api, request, next)));
    DetachOnDrop { body, work }.await
}

async fn respond(api: Api, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let (context, accept) = (RequestContext::of(&parts), parts.headers.get(header::ACCEPT).cloned());
    // The request counts for as long as this goes on, and not only until somebody is answered.
    let _under_way = parts.extensions.get::<InProgress>().cloned();
    let response = AssertUnwindSafe(next.run(Request::from_parts(parts, body))).catch_unwind();
    let response = response.await.unwrap_or_else(|_| Problem::Panicked.into_response());
    match context.take_claim() {
        Some(claim) => keep(&api, &claim, rendered(response, accept.as_ref(), &context)).await,
        None => response,
    }
}

fn token(headers: &HeaderMap) -> Result<String, Problem> {
    match headers.get(HEADER).map(HeaderValue::to_str) {
        Some(Ok(text)) if is_token(text) => Ok(text.to_owned()),
        _ => Err(Problem::invalid(
            "Idempotency-Key",
            "invalid_input",
            "Must be 1 to 255 visible ASCII characters.",
        )),
    }
}

fn is_token(text: &str) -> bool {
    (1..=MAX_CHARACTERS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Claims the token for this request, or finds the response it got before.
///
/// `place` is what the credential reaches: a response is never given to one that reaches less.
pub(crate) async fn claim(
    parts: &Parts,
    api: &Api,
    user: UserId,
    place: &(dyn Fn() -> String + Sync),
    context: &RequestContext,
) -> Result<Option<Claim>, EarlyResponse> {
    let Some(wanted) = parts.extensions.get::<Wanted>() else {
        return Ok(None);
    };
    let token = wanted.token.clone()?;
    let body_hash = wanted.body.hash().await?;
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let claim = Claim {
        user,
        // Paths have no largest length, but keys of tables do.
        route: hash(format!("{} {target} {}", parts.method, place()).as_bytes()),
        token,
    };
    match api.service.claim(&claim, &body_hash).await? {
        Claimed::Now => {
            context.put_claim(claim.clone());
            Ok(Some(claim))
        }
        Claimed::Before(response) => Err(EarlyResponse::Replay(replay(response))),
    }
}

fn replay(stored: StoredResponse) -> Response {
    let status = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    let mut response = (status, stored.body).into_response();
    response.headers_mut().remove("content-type");
    for (name, value) in stored.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Stores the response; what failed on our side or came too early may be tried again, and what was asked for with a key that ended
/// in the meantime with another one.
async fn keep(api: &Api, claim: &Claim, response: Response) -> Response {
    let status = response.status();
    if status.is_server_error() || [StatusCode::TOO_MANY_REQUESTS, StatusCode::UNAUTHORIZED].contains(&status) {
        log(api.service.release(claim).await);
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let kept_body = parts.extensions.remove::<KeptBody>();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return Problem::Panicked.into_response();
    };
    let kept = KEPT.iter().filter_map(|name| {
        let value = parts.headers.get(*name)?.to_str().ok()?;
        Some(((*name).to_owned(), value.to_owned()))
    });
    let stored = StoredResponse {
        status: status.as_u16(),
        headers: kept.collect(),
        body: kept_body.map_or_else(|| bytes.to_vec(), |kept| kept.0),
    };
    log(api.service.store_response(claim, &stored).await);
    Response::from_parts(parts, Body::from(bytes))
}

/// The write itself is done and settled; a response that could not be stored is not the client's concern.
fn log(result: service::Result<()>) {
    if let Err(error) = result {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "could not store an idempotent response"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_goes_on_without_the_client_once_its_body_is_there() {
        for is_there in [false, true] {
            let body = ReadAhead::new(Body::from("all of it"));
            let (go_on, told) = oneshot::channel::<()>();
            let (finished, end) = oneshot::channel::<()>();
            let at_work = body.clone();
            let work = async move {
                if is_there {
                    at_work.hash().await.expect("a short body");
                }
                let _ = told.await;
                let _ = finished.send(());
                StatusCode::OK.into_response()
            };
            let work = Some(Box::pin(work));
            let waited = tokio::time::timeout(Duration::from_millis(1), DetachOnDrop { body, work }).await;
            assert!(waited.is_err());
            let _ = go_on.send(());
            assert_eq!(end.await.is_ok(), is_there);
        }
    }

    #[tokio::test]
    async fn a_body_that_was_read_ahead_is_read_again() {
        let body = ReadAhead::new(Body::from("all of it"));
        let hash = body.hash().await.expect("a short body");
        assert_eq!(hash, <[u8; 32]>::from(Sha256::digest("all of it")));
        let again = axum::body::to_bytes(body.body(), 100).await.expect("it is there");
        assert_eq!(again, "all of it");
    }
}
