//! Handing events to apps, in the order in which they came in, each at least once.

mod batch;
mod group;
mod webhook;

use service::lease::until_lost;
use service::pipeline::{Cursor, Step, Stop};
use service::{AppConfigId, Result, TeamId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::batch::Batch;
use crate::apps::Apps;
use crate::errors::log;
use crate::scheduler::Permit;

/// What was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// Somebody else has it.
    ByOthers,
    /// As much as can be for now.
    All,
    /// It goes on here.
    Some(Cursor),
}

impl Apps {
    /// Hands over what has come in for one configuration.
    pub(crate) async fn deliver(
        &self,
        id: AppConfigId,
        permit: &Permit,
        stop: &CancellationToken,
    ) -> Result<Delivered> {
        let service = &self.core.service;
        let Some(job) = permit.timed(Box::pin(service.claim_app(self.core.worker, id))).await? else {
            return Ok(Delivered::ByOthers);
        };
        if permit.is_preempted() {
            // Others have the permit by now.
            let untouched = Step {
                cursor: job.cursor(),
                failures: job.runnable.config.failures,
                error: job.runnable.config.latest_error.clone(),
                beyond: None,
                stop: Stop::Preempted,
            };
            permit.timed(Box::pin(service.end_app_batch(&job, &untouched))).await?;
            return Ok(Delivered::All);
        }
        let (cursor_tx, cursor_rx) = watch::channel(job.cursor());
        let mut batch = Batch::new(self, &job, cursor_tx, permit, stop);
        // Each renewal says how far it has got.
        let renew = || async {
            let cursor = *cursor_rx.borrow();
            service.renew_app_lease(&job, &cursor).await
        };
        let stop = tokio::select! {
            stop = batch.take() => stop?,
            () = until_lost(renew, |error| log(&error)) => {
                tracing::info!(config = %id, "lost the configuration's lease");
                return Ok(Delivered::All);
            }
        };
        batch.handed.count(id);
        let delivered = match stop {
            Stop::Done if batch.has_more => Delivered::Some(batch.cursor),
            _ => Delivered::All,
        };
        let ended = Step {
            cursor: batch.cursor,
            failures: batch.failures,
            error: batch.error.take(),
            beyond: batch.beyond,
            stop,
        };
        permit.timed(Box::pin(service.end_app_batch(&job, &ended))).await?;
        Ok(delivered)
    }

    /// Whether there is anything for it.
    pub(crate) async fn has_events(&self, team: TeamId, cursor: &Cursor) -> events::Result<bool> {
        let end = self.core.readable_until();
        let skip = usize::try_from(cursor.count).unwrap_or_default();
        self.core.events.has_stored(team.0, cursor.until, end, skip).await
    }
}
