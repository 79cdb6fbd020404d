use std::panic::resume_unwind;
use std::time::Duration;

use service::{FairSemaphore, Result, Slow};

/// Reads responses beside the requests, and few at a time: anybody can send one that takes long. Subnets take turns, and those whose
/// responses take long share one of the two places.
#[derive(Debug, Clone)]
pub(crate) struct Verifications(FairSemaphore);

impl Default for Verifications {
    fn default() -> Self {
        let slow = Slow {
            after: Duration::from_millis(50),
            permits: 1,
        };
        Self(FairSemaphore::new("Reading SAML responses", 2, slow))
    }
}

impl Verifications {
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let permit = self.0.acquire().await?;
        // The work goes on if nobody waits for it any more, and so does the permit.
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        Ok(done.await.unwrap_or_else(|error| resume_unwind(error.into_panic())))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::mpsc;
    use std::time::Instant;

    use service::caller::on_behalf_of;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn responses_of_one_subnet_keep_no_other_waiting() {
        const EACH: Duration = Duration::from_millis(100);
        let verifications = Verifications::default();
        let mut theirs = JoinSet::new();
        for number in 0..40 {
            let (verifications, address) = (verifications.clone(), IpAddr::from([192, 0, 2, number]));
            theirs.spawn(async move {
                let reading = verifications.run(|| {
                    let (_open, silent) = mpsc::channel::<()>();
                    silent.recv_timeout(EACH)
                });
                on_behalf_of(Some(address), reading).await
            });
        }
        tokio::task::yield_now().await;
        let began = Instant::now();
        let own = on_behalf_of(Some(IpAddr::from([198, 51, 100, 1])), verifications.run(|| ()));
        assert!(own.await.is_ok());
        assert!(began.elapsed() < EACH * 10, "{:?}", began.elapsed());
    }
}
