//! Large events. All apps that are in progress may come to one at the same time, so each is read only when there is room for it, and is in
//! memory only until the app's process has read it.

use std::sync::Arc;

use events::Stored;
use sandbox::{Failure, PreparedCall, Reservation};
use service::pipeline::Stop;
use service::{Result, Time};

use super::super::webhook;
use super::{Batch, Cut, called};
use crate::event_payload::EventPayload;
use crate::instances::PooledInstance;

impl Batch<'_> {
    /// All of the event is read for each method of the app.
    pub(super) async fn hand_over_large(&mut self, event: Stored, end: Time) -> Result<Option<Stop>> {
        self.permit.begin_start();
        let mut pooled = match self.start().await {
            Ok(pooled) => pooled,
            Err(stop) => return Ok(Some(stop)),
        };
        self.permit.begin_batch();
        self.permit.end_call();
        let mut outcome = Ok(());
        for method in methods(&pooled) {
            let call = match self.unless_cut(self.prepare(&pooled, method, &event, end)).await {
                Ok(prepared) => prepared?,
                Err(cut) => {
                    self.give_back(pooled, true).await;
                    return Ok(Some(stop_at(&cut)));
                }
            };
            let Some((call, memory)) = call else {
                // It has been deleted in the meantime.
                self.give_back(pooled, true).await;
                return Ok(Some(Stop::Done));
            };
            self.permit.begin_call();
            outcome = match self.unless_cut(call_prepared(&mut pooled, method, call, memory)).await {
                Ok(outcome) => outcome,
                Err(cut) => {
                    let stop = self.note_cut(&pooled, &event, &cut);
                    self.give_back(pooled, false).await;
                    return Ok(Some(stop));
                }
            };
            self.permit.end_call();
            if outcome.is_err() {
                break;
            }
        }
        let stop = self.note(&pooled, &event, outcome);
        self.give_back(pooled, true).await;
        Ok(stop)
    }

    /// Waits for the memory, which others have for as long as it takes a process to read its event: that is not the app's fault.
    async fn prepare(
        &self,
        pooled: &PooledInstance,
        method: &str,
        event: &Stored,
        end: Time,
    ) -> Result<Option<(PreparedCall, Arc<Reservation>)>> {
        let organization = self.job.runnable.config.organization_id.0;
        let memory = self.apps.core.large_events.reserve_for(organization);
        self.permit.timed(memory.take_largest()).await;
        let whole = self.next_event(end).await?.filter(|whole| whole.uuid == event.uuid);
        let call = whole.map(|whole| {
            let given = [EventPayload::new(&whole, self.team())];
            pooled.instance.prepare(method, &given)
        });
        Ok(call.map(|call| (call, Arc::new(memory))))
    }
}

async fn call_prepared(
    pooled: &mut PooledInstance,
    method: &str,
    call: PreparedCall,
    memory: Arc<Reservation>,
) -> Result<(), Failure> {
    let answer = pooled.instance.call_prepared(call, memory).await?;
    if method == "composeWebhook" && !answer.is_null() {
        webhook::send(&pooled.outlet, &answer).await?;
    }
    Ok(())
}

fn methods(pooled: &PooledInstance) -> Vec<&'static str> {
    if pooled.instance.capabilities().has("exportEvents") {
        vec!["onEvent"]
    } else {
        called(&pooled.instance)
    }
}

/// Nothing has begun.
fn stop_at(cut: &Cut) -> Stop {
    match cut {
        Cut::Preempted => Stop::Preempted,
        Cut::OutOfTime => Stop::Done,
    }
}
