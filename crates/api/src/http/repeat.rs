//! Changes that met another in the database, and were undone for its sake, are carried out again: nobody did anything wrong.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use service::Undone;

/// How often a change is tried in all.
const TIMES: usize = 4;
/// Bodies up to this size are kept for it; nearly all are.
const MOST_KEPT: usize = 64 * 1024;

pub(crate) async fn while_undone(request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let kept = Kept::new(&body);
    let mut body = kept.keep(body);
    for _ in 1..TIMES {
        let response = next.clone().run(Request::from_parts(parts.clone(), body)).await;
        let is_undone = response.extensions().get::<Undone>().is_some();
        match kept.whole().filter(|_| is_undone) {
            Some(again) => body = again,
            None => return response,
        }
    }
    next.run(Request::from_parts(parts, body)).await
}

/// What was read of a body.
#[derive(Debug, Clone)]
struct Kept(Arc<Mutex<State>>);

#[derive(Debug)]
enum State {
    Part(BytesMut),
    Whole(Bytes),
    /// It was too large, or did not arrive.
    Lost,
}

impl Kept {
    fn new(body: &Body) -> Self {
        let state = if body.is_end_stream() {
            State::Whole(Bytes::new())
        } else {
            State::Part(BytesMut::new())
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The body, which is kept as it is read.
    fn keep(&self, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let (kept, mut pieces) = (self.clone(), body.into_data_stream());
        Body::from_stream(stream::poll_fn(move |context| {
            let piece = ready!(pieces.poll_next_unpin(context));
            kept.lock().add(piece.as_ref());
            Poll::Ready(piece)
        }))
    }

    fn whole(&self) -> Option<Body> {
        match &*self.lock() {
            State::Whole(bytes) => Some(Body::from(bytes.clone())),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add<E>(&mut self, piece: Option<&Result<Bytes, E>>) {
        let Self::Part(part) = self else { return };
        match piece {
            Some(Ok(piece)) if part.len() + piece.len() <= MOST_KEPT => part.extend_from_slice(piece),
            Some(_) => *self = Self::Lost,
            None => *self = Self::Whole(std::mem::take(part).freeze()),
        }
    }
}
