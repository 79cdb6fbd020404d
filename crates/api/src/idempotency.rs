//! `Idempotency-Key`: the answer of the first request is the answer of every repetition.

use std::panic::AssertUnwindSafe;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use service::UserId;
use service::idempotency::{Answer, Claim, Claimed};
use sha2::{Digest, Sha256};

use crate::access::Halt;
use crate::conditional::hash;
use crate::edge::{self, Notes};
use crate::error::Problem;
use crate::{Api, body};

const HEADER: &str = "idempotency-key";
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// What of an answer is worth keeping beside its body.
const KEPT: [&str; 4] = ["content-type", "etag", "location", "x-dry-run"];
const MOST_CHARACTERS: usize = 255;

/// A token that the extractor claims once it knows the user, or why there is none.
type Wanted = Result<Token, Problem>;

#[derive(Debug, Clone)]
struct Token {
    text: String,
    body_hash: [u8; 32],
}

/// What is kept of an answer that holds a secret: the same without it.
#[derive(Debug, Clone)]
pub(crate) struct KeptBody(pub(crate) Vec<u8>);

pub(crate) fn is_wanted(request: &Request) -> bool {
    matches!(*request.method(), Method::POST | Method::PATCH) && request.headers().contains_key(HEADER)
}

/// Reads the body ahead, so that it can be compared, and keeps the answer afterwards.
pub(crate) async fn once(api: Api, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let collected = body::collect(body).await;
    let bytes = collected.clone().unwrap_or_default();
    let wanted: Wanted = collected.and_then(|bytes| {
        let body_hash = Sha256::digest(&bytes).into();
        Ok(Token {
            text: token(&parts.headers)?,
            body_hash,
        })
    });
    parts.extensions.insert(wanted);
    let (notes, accept) = (Notes::of(&parts), parts.headers.get(header::ACCEPT).cloned());
    let answer = AssertUnwindSafe(next.run(Request::from_parts(parts, Body::from(bytes)))).catch_unwind();
    let response = answer.await.unwrap_or_else(|_| Problem::Panicked.into_response());
    match notes.take_claim() {
        Some(claim) => keep(&api, &claim, edge::rendered(response, accept.as_ref(), &notes)).await,
        None => response,
    }
}

fn token(headers: &HeaderMap) -> Result<String, Problem> {
    match headers.get(HEADER).map(HeaderValue::to_str) {
        Some(Ok(text)) if is_token(text) => Ok(text.to_owned()),
        _ => Err(Problem::invalid(
            "Idempotency-Key",
            "invalid_input",
            "use 1 to 255 visible ASCII characters",
        )),
    }
}

fn is_token(text: &str) -> bool {
    (1..=MOST_CHARACTERS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Claims the token for this request, or finds the answer it got before.
///
/// `place` is what the credential reaches: an answer is never given to one that reaches less.
pub(crate) async fn claim(
    parts: &Parts,
    api: &Api,
    user: UserId,
    place: impl FnOnce() -> String,
    notes: &Notes,
) -> Result<Option<Claim>, Halt> {
    let Some(wanted) = parts.extensions.get::<Wanted>() else {
        return Ok(None);
    };
    let Token { text, body_hash } = wanted.as_ref().map_err(Clone::clone)?;
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let claim = Claim {
        user,
        // Paths have no largest length, but keys of tables do.
        route: hash(format!("{} {target} {}", parts.method, place()).as_bytes()),
        token: text.clone(),
    };
    match api.service.claim(&claim, body_hash).await? {
        Claimed::Now => {
            notes.put_claim(claim.clone());
            Ok(Some(claim))
        }
        Claimed::Before(answer) => Err(Halt::Replay(replay(answer))),
    }
}

fn replay(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = (status, answer.body).into_response();
    response.headers_mut().remove("content-type");
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Stores the answer; what failed on our side or came too early may be tried again.
async fn keep(api: &Api, claim: &Claim, response: Response) -> Response {
    let status = response.status();
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
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
    let answer = Answer {
        status: status.as_u16(),
        headers: kept.collect(),
        body: kept_body.map_or_else(|| bytes.to_vec(), |kept| kept.0),
    };
    log(api.service.answer(claim, &answer).await);
    Response::from_parts(parts, Body::from(bytes))
}

/// The write itself is done and settled; an answer that could not be kept is not the client's concern.
fn log(result: service::Result<()>) {
    if let Err(error) = result {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "could not keep an idempotent answer"
        );
    }
}
