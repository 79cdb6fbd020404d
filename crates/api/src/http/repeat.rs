//! Requests that are carried out once more: changes that met another in the database and were undone for its sake, as nobody
//! did anything wrong; and what somebody asked for whose body came late, as they may have lost their access in the meantime.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use service::Undone;

use crate::http::body_memory::{Reservation, busy, capacity};
use crate::http::context::RequestContext;
use crate::http::idempotency;
use crate::http::state::Api;

/// How often a request is carried out in all.
const TIMES: usize = 4;
/// Bodies up to this size are kept until the answer; nearly all are. Longer ones only until it is known whether they are late.
const MAX_KEPT: usize = 64 * 1024;
/// A body that takes longer is late. Access is checked before it is received, because strangers may not send much. Whoever
/// holds back the last byte would otherwise keep, for when they are removed, what they may do now.
const PROMPT: Duration = Duration::from_millis(100);

pub(crate) async fn while_needed(api: &Api, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    // An undone change with a token is the client's to repeat.
    let may_repeat = !idempotency::is_wanted(&request);
    let (parts, body) = request.into_parts();
    let kept = Kept::new(&body);
    let mut body = kept.keep(body, RequestContext::of(&parts));
    for _ in 1..TIMES {
        let response = carry_out(api, Request::from_parts(parts.clone(), body), next.clone()).await;
        let is_undone = may_repeat && response.extensions().get::<Undone>().is_some();
        match kept.again(is_undone) {
            Some(again) => body = again,
            None => return response,
        }
    }
    carry_out(api, Request::from_parts(parts, body), next).await
}

async fn carry_out(api: &Api, request: Request, next: Next) -> Response {
    if idempotency::is_wanted(&request) {
        idempotency::once(api.clone(), request, next).await
    } else {
        next.run(request).await
    }
}

/// What was read of a body.
#[derive(Debug, Clone)]
struct Kept(Arc<Mutex<State>>);

#[derive(Debug)]
enum State {
    Part(BytesMut),
    Whole(Bytes),
    /// Whole, but not acted upon.
    Late(Bytes),
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

    /// The body, which is kept as it is read. If it is late, it fails instead of ending, so that whoever reads it goes no
    /// further.
    fn keep(&self, body: Body, context: Arc<RequestContext>) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let (kept, mut pieces, mut first_asked) = (self.clone(), body.into_data_stream(), None::<Instant>);
        Body::from_stream(stream::poll_fn(move |cx| {
            // It is read as soon as access is checked.
            let asked = *first_asked.get_or_insert_with(Instant::now);
            let piece = ready!(pieces.poll_next_unpin(cx));
            let mut state = kept.lock();
            match &piece {
                Some(Ok(bytes)) => state.add(bytes, context.body()),
                Some(Err(_)) => *state = State::Lost,
                // Of strangers no access was checked.
                None if asked.elapsed() > PROMPT && context.user.get().is_some() => {
                    return Poll::Ready(Some(Err(state.end_late())));
                }
                None => state.end(),
            }
            Poll::Ready(piece)
        }))
    }

    /// The body for another time, if one is needed.
    fn again(&self, is_undone: bool) -> Option<Body> {
        self.lock().again(is_undone).map(Body::from)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, piece: &Bytes, memory: Option<&Reservation>) {
        let Self::Part(part) = self else { return };
        let bytes = part.len() + piece.len();
        if bytes <= MAX_KEPT || has_room_for_two(memory, bytes) {
            part.extend_from_slice(piece);
        } else {
            *self = Self::Lost;
        }
    }

    fn end(&mut self) {
        if let Self::Part(part) = self {
            *self = Self::whole(std::mem::take(part).freeze());
        }
    }

    /// What the reader is told. The client sees it only if there was no room to keep the body.
    fn end_late(&mut self) -> axum::Error {
        let Self::Part(part) = self else {
            return axum::Error::new(busy());
        };
        *self = Self::Late(std::mem::take(part).freeze());
        axum::Error::new(io::Error::from(io::ErrorKind::Interrupted))
    }

    fn whole(bytes: Bytes) -> Self {
        if bytes.len() <= MAX_KEPT {
            Self::Whole(bytes)
        } else {
            Self::Lost
        }
    }

    fn again(&mut self, is_undone: bool) -> Option<Bytes> {
        match self {
            Self::Whole(bytes) => is_undone.then(|| bytes.clone()),
            Self::Late(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::whole(bytes.clone());
                Some(bytes)
            }
            Self::Part(_) | Self::Lost => None,
        }
    }
}

/// Whether a long body may be there twice: as it is kept, and as it is read.
fn has_room_for_two(memory: Option<&Reservation>, bytes: usize) -> bool {
    memory.is_some_and(|memory| memory.is_authenticated() && memory.grow_to(2 * capacity(bytes)).is_ok())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use service::UserId;

    use super::*;
    use crate::http::body_memory::BodyMemory;

    const LONG: usize = 3 * MAX_KEPT;

    /// The request of somebody, or of a stranger, on a server with so much memory for long bodies.
    fn context(memory: usize, user: Option<UserId>) -> Arc<RequestContext> {
        let memory = Arc::new(BodyMemory::with(memory, LONG, LONG));
        let context = RequestContext::with_body(memory.enter(IpAddr::from([192, 0, 2, 1])));
        if let Some(user) = user {
            context.authenticate(user);
        }
        Arc::new(context)
    }

    /// Reads a body of this size whose end comes after a while. Whether that worked, and the size of what is kept for
    /// another time.
    async fn read(size: usize, wait: Duration, context: Arc<RequestContext>) -> (bool, Option<usize>) {
        let first = stream::iter([Ok::<_, axum::Error>(Bytes::from(vec![b'x'; size - 1]))]);
        let last = stream::once(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Ok(Bytes::from_static(b"x"))
        });
        let body = Body::from_stream(first.chain(last));
        let kept = Kept::new(&body);
        let is_read = axum::body::to_bytes(kept.keep(body, context), LONG).await.is_ok();
        let size = match kept.again(false) {
            Some(again) => axum::body::to_bytes(again, LONG).await.ok().map(|bytes| bytes.len()),
            None => None,
        };
        (is_read, size)
    }

    #[tokio::test]
    async fn a_late_body_is_not_acted_upon_but_kept() {
        let (prompt, late) = (Duration::ZERO, 2 * PROMPT);
        let somebody = || context(100 * LONG, Some(UserId(1)));
        for size in [10, LONG] {
            assert_eq!(read(size, prompt, somebody()).await, (true, None));
            assert_eq!(read(size, late, somebody()).await, (false, Some(size)));
        }
        let stranger = context(100 * LONG, None);
        assert_eq!(read(10, late, stranger).await, (true, None), "nothing was checked");
        let full = context(LONG, Some(UserId(1)));
        assert_eq!(read(LONG, late, full).await, (false, None), "there was no room");
    }
}
