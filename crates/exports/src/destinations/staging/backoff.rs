//! Waiting for something that takes its time elsewhere, with a limit.

use std::time::Duration;

use tokio::time::Instant;

use crate::Error;

const FIRST: Duration = Duration::from_millis(100);
const MAX: Duration = Duration::from_secs(5);

/// Grows longer from pause to pause, and comes to an end.
#[derive(Debug)]
pub(crate) struct Backoff {
    end: Instant,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            end: Instant::now() + limit,
            limit,
            next: FIRST,
        }
    }

    /// Waits a while, or says that it has been long enough. `whom` is who keeps us waiting.
    pub(crate) async fn pause(&mut self, whom: &str) -> Result<(), Error> {
        if Instant::now() + self.next > self.end {
            let minutes = self.limit.as_secs_f32() / 60.0;
            let sentence = format!("{whom} did not finish within {minutes:.0} minutes; it will be retried");
            return Err(Error::retryable(sentence, "the time limit was reached"));
        }
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(MAX);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pauses_grow_and_end() {
        let start = Instant::now();
        let mut backoff = Backoff::new(Duration::from_secs(1));
        let mut pauses = 0;
        while backoff.pause("somebody").await.is_ok() {
            pauses += 1;
        }
        // A tenth of a second, two, four; eight would be too many.
        assert!((1..=3).contains(&pauses), "{pauses}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
