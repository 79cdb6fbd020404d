//! Work that goes on by itself: sending mail, looking at domains again.

use std::time::Duration;

use service::Result;
use service::access::Who;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::Identity;

const POLL: Duration = Duration::from_secs(1);
/// Domains are due once a day; nobody waits for the minute.
const LOOK_AT_DOMAINS: Duration = Duration::from_mins(1);

impl Identity {
    /// Works until told to stop; what is under way is finished first.
    pub async fn work(&self, stop: CancellationToken) {
        let (mut mail, mut domains) = (interval(POLL), interval(LOOK_AT_DOMAINS));
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = mail.tick() => exhaust(&stop, || self.deliver_mail()).await,
                _ = domains.tick() => exhaust(&stop, || self.recheck_domain()).await,
            }
        }
    }

    /// Does one thing that is due, if there is one. Tests call this, and never wait.
    pub async fn step(&self) -> Result<bool> {
        Ok(self.deliver_mail().await? | self.recheck_domain().await?)
    }

    /// Looks for the record of a verified domain that has not been looked at for a day.
    pub async fn recheck_domain(&self) -> Result<bool> {
        let Some(domain) = self.service.domain_to_recheck().await? else {
            return Ok(false);
        };
        let sighting = self.look_for_record(&domain).await;
        self.service
            .settle_domain(&Who::system(), domain.organization_id, domain.id, &sighting)
            .await?;
        Ok(true)
    }
}

/// Does all that is due, one after the other, unless told to stop. What fails is tried again when its time comes.
async fn exhaust<F: Future<Output = Result<bool>>>(stop: &CancellationToken, mut work: impl FnMut() -> F) {
    while !stop.is_cancelled() {
        match work().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "background work failed");
                return;
            }
        }
    }
}
