//! Handing events to apps, in the order in which they came in, each at least once.

mod batch;
mod webhook;

use service::lease::until_lost;
use service::pipeline::{Cursor, Step};
use service::{AppConfigId, Result, TeamId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::batch::Batch;
use crate::apps::Apps;
use crate::errors::log;
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
        // Each renewal says how far it has got.
        let renew = || async {
            let place = *told.borrow();
            service.renew_app_lease(&job, &place).await
        };
        let stop = tokio::select! {
            stop = turn.take() => stop?,
            () = until_lost(renew, |error| log(&error)) => {
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
    pub(crate) async fn has_events(&self, team: TeamId, place: &Cursor) -> events::Result<bool> {
        let end = self.core.readable_until();
        let skip = usize::try_from(place.count).unwrap_or_default();
        self.core.events.has_stored(team.0, place.until, end, skip).await
    }
}
