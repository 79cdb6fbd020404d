//! The bytes of a body as they arrive. Who sends too slowly is not waited for.

use std::io;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::http::body_memory::{self, TooLarge};

/// How fast a body has to arrive.
#[derive(Debug, Clone, Copy)]
struct Rate {
    /// So many bytes have to come in each window, unless the body ends in it.
    least: usize,
    window: Duration,
    /// At first a connection may be slow.
    grace: Duration,
}

const RATE: Rate = Rate {
    least: 10_000,
    window: Duration::from_secs(10),
    grace: Duration::from_secs(1),
};
/// How long a body is read and thrown away, so that its sender comes to read the answer.
const DISCARDING: Duration = Duration::from_secs(5);

/// Why a body came to no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiveError {
    TooLarge,
    /// The sender is there, but hardly sends.
    TooSlow,
    /// There is no memory for it.
    Busy,
    /// The sender went away in the middle.
    Broken,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    body: Body,
    most: usize,
    received: usize,
    is_finished: bool,
    rate: Rate,
    window_end: Instant,
    before_window: usize,
}

impl Receiver {
    /// Of a longer body no more than this is received.
    pub(crate) fn of_at_most(body: Body, most: usize) -> Self {
        Self::at_rate(body, most, RATE)
    }

    fn at_rate(body: Body, most: usize, rate: Rate) -> Self {
        Self {
            body,
            most,
            received: 0,
            is_finished: false,
            rate,
            window_end: Instant::now() + rate.grace + rate.window,
            before_window: 0,
        }
    }

    /// The next bytes, or none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ReceiveError> {
        while !self.is_finished {
            match timeout_at(self.window_end, self.body.frame()).await {
                Err(_) => self.check_rate()?,
                Ok(None) => self.is_finished = true,
                Ok(Some(Err(error))) => {
                    self.is_finished = true;
                    return Err(receive_error(&error));
                }
                Ok(Some(Ok(frame))) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.received += bytes.len();
                    if self.received > self.most {
                        return Err(ReceiveError::TooLarge);
                    }
                    if Instant::now() >= self.window_end {
                        self.check_rate()?;
                    }
                    return Ok(Some(bytes));
                }
            }
        }
        Ok(None)
    }

    /// At the end of a window.
    fn check_rate(&mut self) -> Result<(), ReceiveError> {
        if self.received - self.before_window < self.rate.least {
            self.is_finished = true;
            return Err(ReceiveError::TooSlow);
        }
        self.before_window = self.received;
        self.window_end = Instant::now() + self.rate.window;
        Ok(())
    }

    fn into_body(self) -> Body {
        let pieces = stream::try_unfold(self, |mut receiver| async move {
            let piece = receiver.next().await.map_err(failure)?;
            Ok::<_, BoxError>(piece.map(|piece| (piece, receiver)))
        });
        Body::from_stream(pieces)
    }

    /// Whether it is known already that nothing more comes.
    pub(crate) fn is_finished(&mut self) -> bool {
        self.is_finished = self.is_finished || self.body.is_end_stream();
        self.is_finished
    }

    /// Nothing of the body is wanted.
    pub(crate) fn ignore(&mut self) {
        self.is_finished = true;
    }

    /// Reads what is left and keeps none of it: many clients read no answer before they have sent everything.
    pub(crate) async fn discard(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.next().await {} };
        // Whoever is not done by then finds the connection closed.
        let _ = timeout(DISCARDING, rest).await;
    }
}

/// A body that fails if it arrives too slowly, for whoever reads it as a whole: with an [`io::Error`] of the kind `TimedOut`.
pub(crate) async fn at_a_rate(request: Request) -> Request {
    request.map(|body| {
        if body.is_end_stream() {
            body
        } else {
            Receiver::of_at_most(body, usize::MAX).into_body()
        }
    })
}

/// What readers of such a body understand.
fn failure(why: ReceiveError) -> BoxError {
    match why {
        ReceiveError::TooLarge => TooLarge.into(),
        ReceiveError::TooSlow => io::Error::from(io::ErrorKind::TimedOut).into(),
        ReceiveError::Busy => body_memory::busy().into(),
        ReceiveError::Broken => io::Error::from(io::ErrorKind::UnexpectedEof).into(),
    }
}

/// The cause that is known: a layer of ours may have ended the body.
fn receive_error(error: &axum::Error) -> ReceiveError {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let known = causes.map(|cause| match cause {
        cause if cause.is::<TooLarge>() => Some(ReceiveError::TooLarge),
        cause if cause.is::<service::Error>() => Some(ReceiveError::Busy),
        _ => None,
    });
    known.flatten().next().unwrap_or(ReceiveError::Broken)
}

#[cfg(test)]
mod tests {
    use events::capture::MAX_PACKED_BYTES;

    use super::*;

    /// A kilobyte a tenth of a second.
    const FAST: Rate = Rate {
        least: 1_000,
        window: Duration::from_millis(100),
        grace: Duration::from_millis(50),
    };

    /// A body that comes in parts of this size, each after so many milliseconds.
    fn sender(size: usize, every: u64, count: usize) -> Receiver {
        let parts = stream::unfold(0, move |number| async move {
            tokio::time::sleep(Duration::from_millis(every)).await;
            let part = Ok::<_, std::io::Error>(Bytes::from(vec![b' '; size]));
            (number < count).then_some((part, number + 1))
        });
        Receiver::at_rate(Body::from_stream(parts), MAX_PACKED_BYTES, FAST)
    }

    async fn receive(mut receiver: Receiver) -> Result<usize, ReceiveError> {
        let mut size = 0;
        while let Some(bytes) = receiver.next().await? {
            size += bytes.len();
        }
        Ok(size)
    }

    #[tokio::test]
    async fn who_sends_too_slowly_is_not_waited_for() {
        let silence = || stream::pending::<Result<Bytes, axum::Error>>();
        let silent = Receiver::at_rate(Body::from_stream(silence()), MAX_PACKED_BYTES, FAST);
        assert!(matches!(receive(silent).await, Err(ReceiveError::TooSlow)));
        assert!(matches!(
            receive(sender(10, 10, 100_000)).await,
            Err(ReceiveError::TooSlow)
        ));
        let much = stream::iter([Ok(Bytes::from(vec![b' '; 1_000_000]))]);
        let stalls = Body::from_stream(futures_util::StreamExt::chain(much, silence()));
        let stalled = receive(Receiver::at_rate(stalls, MAX_PACKED_BYTES, FAST)).await;
        assert!(
            matches!(stalled, Err(ReceiveError::TooSlow)),
            "a good start does not last"
        );
    }

    #[tokio::test]
    async fn whoever_reads_a_slow_body_as_a_whole_is_told() {
        let error = sender(10, 10, 100_000).into_body().collect().await.unwrap_err();
        let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let found = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(found.map(io::Error::kind), Some(io::ErrorKind::TimedOut));
        let quick = Receiver::of_at_most(Body::from("quick"), usize::MAX).into_body();
        assert_eq!(quick.collect().await.unwrap().to_bytes(), "quick");
    }

    #[tokio::test]
    async fn a_slow_line_is_fast_enough() {
        assert_eq!(receive(sender(1_000, 20, 20)).await.unwrap(), 20_000);
        assert_eq!(
            receive(sender(10, 50, 1)).await.unwrap(),
            10,
            "the end of a body is in time"
        );
    }
}
