//! Handing events to apps, in the order in which they came in, each at least once.

mod batch;
mod webhook;

use service::pipeline::{AppJob, Cursor, Step};
use service::{AppConfigId, Result, Service};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::batch::Batch;
use crate::apps::Apps;
use crate::errors::store_failed;
use crate::lease::{HEARTBEAT, is_lost};
use crate::scheduler::Permit;

impl Apps {
    /// Hands over what has come in for one configuration. False: somebody else has it.
    pub(crate) async fn deliver(&self, id: AppConfigId, permit: &Permit, stop: &CancellationToken) -> Result<bool> {
        let service = &self.core.service;
        let Some(job) = permit.timed(Box::pin(service.claim_app(self.core.worker, id))).await? else {
            return Ok(false);
        };
        if permit.is_preempted() {
            // Others have the permit by now. Whoever looks when the lease is over takes it.
            return Ok(true);
        }
        let (tell, told) = watch::channel(job.place());
        let mut turn = Batch::new(self, &job, tell, permit, stop);
        let stop = tokio::select! {
            stop = turn.take() => stop?,
            () = send_heartbeats(service, &job, told) => {
                tracing::info!(config = %id, "the configuration of an app was taken away");
                return Ok(true);
            }
        };
        turn.handed.count(id);
        let ended = Step {
            place: turn.place,
            failures: turn.failures,
            error: turn.error.take(),
            beyond: turn.beyond,
            stop,
        };
        permit.timed(Box::pin(service.end_app_turn(&job, &ended))).await?;
        Ok(true)
    }

    /// Whether there is anything for it.
    pub(crate) async fn has_events(&self, team: i64, place: &Cursor) -> Result<bool> {
        let end = self.core.readable_until();
        let skip = usize::try_from(place.count).unwrap_or_default();
        let found = self.core.events.has_stored(team, place.until, end, skip).await;
        found.map_err(|error| store_failed(&error))
    }
}

/// Says how far it has got, again and again, and ends when the configuration is no longer ours.
async fn send_heartbeats(service: &Service, job: &AppJob, told: watch::Receiver<Cursor>) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let place = *told.borrow();
        if is_lost(service.keep_app(job, &place).await) {
            return;
        }
    }
}
