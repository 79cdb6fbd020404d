//! How much memory large answers may use that wait to be taken. Whoever asks decides how fast to read, so without a limit they could make
//! the server keep as much as they like. Where there is no room, whoever holds most loses the answer that has waited for longest.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use service::{Error, UserId};
use tokio::sync::oneshot;

use crate::http::body_memory::{BodyMemory, Reservation};

const MB: usize = 1024 * 1024;
/// Answers up to this size are not counted, and always go out: how many requests are in progress is limited in any case. Longer ones are
/// handed over in pieces of this size, which is what HTTP/2 takes at a time, so that nobody keeps the rest of a piece uncounted.
const SMALL: usize = 16 * 1024;
/// No answer counts as more than this, or nobody could have a longer one.
const MAX: usize = 8 * MB;
/// For answers to users, and for those to strangers.
const OF_USERS: usize = 128 * MB;
const OF_STRANGERS: usize = 32 * MB;
/// When to try again.
const WAIT: Duration = Duration::from_secs(5);

/// Marks an answer whose bytes are in memory once, however often it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared;

#[derive(Debug)]
pub(crate) struct ResponseMemory(Arc<BodyMemory>);

impl Default for ResponseMemory {
    fn default() -> Self {
        // What is small does not come here.
        Self(Arc::new(BodyMemory::with(OF_USERS, 0, OF_STRANGERS)))
    }
}

impl ResponseMemory {
    /// Counts an answer until it was taken, if there is room for it.
    pub(crate) async fn hold(
        &self,
        response: Response,
        address: IpAddr,
        user: Option<UserId>,
    ) -> Result<Response, Error> {
        let exact = response.body().size_hint().exact().unwrap_or(0);
        let size = usize::try_from(exact).unwrap_or(usize::MAX);
        if size <= SMALL || response.extensions().get::<Shared>().is_some() {
            return Ok(response);
        }
        let reservation = self.0.enter(address);
        if let Some(user) = user {
            reservation.authenticate(user);
        }
        reservation.grow_to(size.min(MAX)).map_err(|_| busy())?;
        let (mut parts, body) = response.into_parts();
        // It is all there: bodies of another kind do not know how long they are.
        let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(exact));
        let waiting = stream::iter(Waiting::new(bytes, reservation));
        Ok(Response::from_parts(parts, Body::from_stream(waiting)))
    }
}

fn busy() -> Error {
    Error::Unavailable {
        detail: "Too many large responses are still being read. Read them, or request smaller pages".to_owned(),
        wait: WAIT,
    }
}

/// The pieces of an answer that waits to be taken, unless others need its memory.
struct Waiting {
    left: Arc<Left>,
    is_over: bool,
}

/// None when it was given up.
type Left = Mutex<Option<(Bytes, Reservation)>>;

impl Waiting {
    fn new(answer: Bytes, reservation: Reservation) -> Self {
        let ended = reservation.wait();
        let left = Arc::new(Mutex::new(Some((answer, reservation))));
        // Nobody asks a body for anything while the other side takes nothing.
        tokio::spawn(give_up(Arc::downgrade(&left), ended));
        Self { left, is_over: false }
    }
}

/// Once others need the memory. A reservation that is given back says so, too.
async fn give_up(left: Weak<Left>, ended: oneshot::Receiver<()>) {
    let _ = ended.await;
    if let Some(left) = left.upgrade() {
        let given_up = left.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(given_up);
    }
}

impl Iterator for Waiting {
    type Item = Result<Bytes, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over {
            return None;
        }
        let Some((answer, _)) = left.as_mut() else {
            self.is_over = true;
            return Some(Err(busy()));
        };
        // A copy: a part of the whole would keep all of it.
        let piece = Bytes::copy_from_slice(&answer.split_to(SMALL.min(answer.len())));
        self.is_over = answer.is_empty();
        if self.is_over {
            *left = None;
        }
        Some(Ok(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(memory: &ResponseMemory, size: usize, network: u8, user: Option<i64>) -> Option<Response> {
        let address = IpAddr::from([192, 0, network, 1]);
        let answer = Response::new(Body::from(vec![b'x'; size]));
        memory.hold(answer, address, user.map(UserId)).await.ok()
    }

    /// How much of it comes, if all of it does.
    async fn read(answer: Response) -> Option<usize> {
        let bytes = to_bytes(answer.into_body(), usize::MAX).await;
        bytes.ok().map(|bytes| bytes.len())
    }

    /// Everything that one user can have.
    async fn fill(memory: &ResponseMemory, user: i64) -> Vec<Response> {
        let mut held = Vec::new();
        while let Some(answer) = ask(memory, 4 * MB, 1, Some(user)).await {
            held.push(answer);
        }
        held
    }

    /// Whoever was told to give up has done so.
    async fn settle() {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    }

    /// Security case A1.
    #[tokio::test]
    async fn what_is_not_taken_counts_until_it_is() {
        let memory = ResponseMemory::default();
        let mut held = fill(&memory, 1).await;
        assert!((4..=32).contains(&held.len()), "{} times 4 MB", held.len());
        assert!(ask(&memory, SMALL, 1, Some(1)).await.is_some(), "small ones go out");
        assert!(ask(&memory, 4 * MB, 1, Some(2)).await.is_some(), "and those of others");
        let taken = held.pop().expect("an answer");
        assert_eq!(read(taken).await, Some(4 * MB));
        assert!(
            ask(&memory, 4 * MB, 1, Some(1)).await.is_some(),
            "what was taken makes room"
        );
    }

    #[tokio::test]
    async fn many_who_take_nothing_make_room_for_another() {
        let memory = ResponseMemory::default();
        let mut held = Vec::new();
        for user in 1..=10 {
            held.extend(fill(&memory, user).await);
        }
        let another = ask(&memory, 4 * MB, 2, Some(99)).await.expect("there is room");
        assert_eq!(read(another).await, Some(4 * MB));
        settle().await;
        let mut broken = 0;
        for answer in held {
            broken += usize::from(read(answer).await.is_none());
        }
        assert!(broken > 0, "whoever gave up says so");
        assert!(
            ask(&memory, 40 * MB, 1, Some(1)).await.is_some(),
            "all of it is free again"
        );
    }

    #[tokio::test]
    async fn strangers_share_what_their_subnet_has() {
        let memory = ResponseMemory::default();
        let mut held = Vec::new();
        for _ in 0..100 {
            held.extend(ask(&memory, MB, 1, None).await);
        }
        assert!(ask(&memory, MB, 2, None).await.is_some());
        assert!(ask(&memory, 4 * MB, 1, Some(1)).await.is_some());
        settle().await;
        let mut whole = 0;
        for answer in held {
            whole += usize::from(read(answer).await.is_some());
        }
        assert!((1..=OF_STRANGERS / MB).contains(&whole), "{whole}");
    }

    #[tokio::test]
    async fn what_is_in_memory_once_is_not_counted() {
        let (memory, mut held) = (ResponseMemory::default(), Vec::new());
        for _ in 0..100 {
            let mut answer = Response::new(Body::from(vec![b'x'; MB]));
            answer.extensions_mut().insert(Shared);
            let answer = memory.hold(answer, IpAddr::from([192, 0, 2, 1]), None).await;
            held.push(answer.expect("it goes out"));
        }
        for answer in held {
            assert_eq!(read(answer).await, Some(MB));
        }
    }
}
