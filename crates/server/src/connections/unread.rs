//! Answers over HTTP/2 that the other side does not take. It decides alone how much of each answer it takes, so that one can stand
//! still while others go on, and nobody asks its body for anything: who looks after the connection ends it.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::time::Instant;

use super::limits::STREAMS;

/// As much as one frame of HTTP/2 has. What was handed over cannot be taken back.
const PIECE: usize = 16 * 1024;

/// The body of an answer, in pieces.
#[derive(Debug)]
pub(super) struct Unread(Mutex<Option<Left>>);

/// What was not taken yet.
#[derive(Debug)]
struct Left {
    body: Body,
    /// Of a long frame of the body.
    rest: Bytes,
    /// Since when the other side could have taken more. None while there is nothing to take.
    waits_since: Option<Instant>,
}

impl Unread {
    pub(super) fn new(body: Body) -> Self {
        Self(Mutex::new(Some(Left {
            body,
            rest: Bytes::new(),
            waits_since: Some(Instant::now()),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut *self.lock() {
            Some(left) => left.poll_frame(cx),
            None => Poll::Ready(Some(Err(axum::Error::new(std::io::Error::from(ErrorKind::TimedOut))))),
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let left = self.lock();
        left.as_ref()
            .is_some_and(|left| left.rest.is_empty() && left.body.is_end_stream())
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let left = self.lock();
        let exact = left
            .as_ref()
            .and_then(|left| Some(left.body.size_hint().exact()? + left.rest.len() as u64));
        exact.map_or_else(SizeHint::default, SizeHint::with_exact)
    }

    /// Drops a body, and frees its memory, if the client has read nothing of it for `limit`.
    fn end_after(&self, limit: Duration) {
        let mut left = self.lock();
        let since = left.as_ref().and_then(|left| left.waits_since);
        if since.is_some_and(|since| since.elapsed() >= limit) {
            *left = None;
        }
    }
}

impl Left {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.waits_since = None;
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(long))) if long.len() > PIECE => self.rest = long,
                Some(Ok(Ok(short))) => return self.given(Some(Ok(Frame::data(short)))),
                Some(Ok(Err(other))) => return self.given(Some(Ok(other))),
                Some(Err(error)) => return self.given(Some(Err(error))),
                None => return self.given(None),
            }
        }
        // A copy: a part of the whole would keep all of it.
        let piece = self.rest.split_to(PIECE.min(self.rest.len()));
        let piece = Bytes::copy_from_slice(&piece);
        self.given(Some(Ok(Frame::data(piece))))
    }

    fn given<T>(&mut self, frame: T) -> Poll<T> {
        self.waits_since = Some(Instant::now());
        Poll::Ready(frame)
    }
}

/// The answers of one connection.
#[derive(Debug, Default)]
pub(super) struct UnreadAnswers(Mutex<Vec<Weak<Unread>>>);

impl UnreadAnswers {
    /// Past this many, those that have ended are forgotten: there are never more than [`STREAMS`] others.
    const REMEMBERED: usize = 2 * STREAMS as usize;

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Unread>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, body: Body) -> Arc<Unread> {
        let unread = Arc::new(Unread::new(body));
        let mut all = self.lock();
        if all.len() >= Self::REMEMBERED {
            all.retain(|each| each.strong_count() > 0);
        }
        all.push(Arc::downgrade(&unread));
        unread
    }

    pub(super) fn end_after(&self, limit: Duration) {
        let all: Vec<Arc<Unread>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        for unread in all {
            unread.end_after(limit);
        }
    }
}
