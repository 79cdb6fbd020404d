//! The body of a request on its way out.
//!
//! Whoever receives it may answer before they have read it, and leave the rest in our memory for as long as the connection lasts. So
//! it is handed over in small pieces, and what is left is dropped with the exchange.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::timeout;

/// Shorter bodies go out as they are.
pub(crate) const SHORT: usize = 16 * 1024;
const PIECE: usize = 32 * 1024;
/// How long a receiver that has answered may still take to read.
const LINGER: Duration = Duration::from_secs(5);

/// Dropped, it ends what is not sent yet.
pub(crate) struct Outgoing {
    rest: Arc<Rest>,
    /// Closed when no piece is left anywhere.
    gone: watch::Receiver<()>,
}

struct Rest(Mutex<Option<Bytes>>);

impl Rest {
    fn lock(&self) -> MutexGuard<'_, Option<Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece that is told of when it is sent, or given up.
struct Piece {
    bytes: Vec<u8>,
    _left: Arc<watch::Sender<()>>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Outgoing {
    pub(crate) fn new(body: Bytes) -> (Self, reqwest::Body) {
        let (left, gone) = watch::channel(());
        let rest = Arc::new(Rest(Mutex::new(Some(body))));
        let pieces = stream::unfold((rest.clone(), Arc::new(left)), |(rest, left)| async move {
            let piece = next(&rest, &left)?;
            Some((piece, (rest, left)))
        });
        (Self { rest, gone }, reqwest::Body::wrap_stream(pieces))
    }

    /// Waits a little until all of it was sent.
    pub(crate) async fn sent(mut self) {
        // It fails as soon as the last piece is gone.
        let gone = async { while self.gone.changed().await.is_ok() {} };
        let _ = timeout(LINGER, gone).await;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let mut rest = self.rest.lock();
        if rest.as_ref().is_some_and(|rest| !rest.is_empty()) {
            *rest = None;
        }
    }
}

/// None after the last one.
fn next(rest: &Rest, left: &Arc<watch::Sender<()>>) -> Option<io::Result<Bytes>> {
    let mut rest = rest.lock();
    let Some(rest) = rest.as_mut() else {
        return Some(Err(io::Error::other("nobody waits for the answer any more")));
    };
    if rest.is_empty() {
        return None;
    }
    let piece = Piece {
        // Copied: a part of the whole would keep all of it.
        bytes: rest.split_to(PIECE.min(rest.len())).to_vec(),
        _left: left.clone(),
    };
    Some(Ok(Bytes::from_owner(piece)))
}
