//! Work that goes on by itself: sending mail, looking at domains again.

use std::time::Duration;

use service::Result;
use service::access::Who;
use service::domains::Domain;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::Identity;

const POLL: Duration = Duration::from_secs(1);
/// Domains are due once a day; nobody waits for the minute.
const LOOK_AT_DOMAINS: Duration = Duration::from_mins(1);
/// One at a time, however many there are: a look may take five seconds, and mail must not wait for all of them.
const LOOK_FOR_ONE: Duration = Duration::from_secs(5);

impl Identity {
    /// Works until told to stop; what is under way is finished first.
    pub async fn work(&self, stop: CancellationToken) {
        let (mut mail, mut domains) = (interval(POLL), interval(LOOK_AT_DOMAINS));
        let mut awaited = interval(LOOK_FOR_ONE);
        awaited.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = mail.tick() => exhaust(&stop, || self.deliver_mail()).await,
                _ = domains.tick() => exhaust(&stop, || self.recheck_domain()).await,
                _ = awaited.tick() => {
                    did(self.look_for_awaited_domain().await);
                }
            }
        }
    }

    /// Does one thing that is due, if there is one. Tests call this, and never wait.
    pub async fn step(&self) -> Result<bool> {
        Ok(self.deliver_mail().await? | self.recheck_domain().await? | self.look_for_awaited_domain().await?)
    }

    /// Looks for the record of a verified domain that has not been looked at for a day.
    pub async fn recheck_domain(&self) -> Result<bool> {
        self.look_at(self.service.domain_to_recheck().await?).await
    }

    /// Looks for the record of a new domain that somebody waits to see verified.
    pub async fn look_for_awaited_domain(&self) -> Result<bool> {
        self.look_at(self.service.awaited_domain().await?).await
    }

    async fn look_at(&self, due: Option<Domain>) -> Result<bool> {
        let Some(domain) = due else { return Ok(false) };
        let sighting = self.look_for_record(&domain).await;
        self.service
            .settle_domain(&Who::system(), domain.organization_id, domain.id, &sighting)
            .await?;
        Ok(true)
    }
}

/// Does all that is due, one after the other, unless told to stop. What fails is tried again when its time comes.
async fn exhaust<F: Future<Output = Result<bool>>>(stop: &CancellationToken, mut work: impl FnMut() -> F) {
    while !stop.is_cancelled() && did(work().await) {}
}

/// Whether something was done.
fn did(worked: Result<bool>) -> bool {
    worked.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "background work failed");
        false
    })
}
