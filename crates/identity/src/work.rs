//! Work that goes on by itself: sending mail, looking at domains again.

use std::time::Duration;

use service::Result;
use service::access::Who;
use tokio_util::sync::CancellationToken;

use crate::Identity;

const POLL: Duration = Duration::from_secs(1);

impl Identity {
    /// Works until told to stop; what is under way is finished first.
    pub async fn work(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.step().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "background work failed");
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(POLL) => {}
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
