//! Several events in one go.

use std::time::Instant;

use events::Stored;
use sandbox::Failure;
use service::pipeline::{AppLogLevel, MAX_FAILURES, Stop};

use super::super::group::that_fit;
use super::{Batch, Handed, READ};
use crate::event_payload::EventPayload;
use crate::instances::PooledInstance;

impl Batch<'_> {
    /// Ends with the first event for which the app asked for something, or failed.
    pub(super) async fn hand_over_group(
        &mut self,
        pooled: &mut PooledInstance,
        group: &[Stored],
    ) -> Result<Handed, Stop> {
        let begun = Instant::now();
        let team = self.team();
        let given: Vec<EventPayload<'_>> = group.iter().map(|event| EventPayload::new(event, team)).collect();
        let called = self
            .unless_cut(pooled.instance.call_until_request("onEvent", &given))
            .await;
        let outcomes = called.map_err(|cut| self.note_cut(pooled, &group[0], &cut))?;
        self.permit.end_call();
        let taken = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
        self.group.note(group.len(), taken == group.len(), begun.elapsed());
        for event in &group[..taken] {
            self.note(pooled, event, Ok(()));
        }
        // With its first request an app says which events are done: if it ends then, the next event is the one that ended it, and is not
        // handed over a second time.
        let has_asked = pooled.instance.has_asked();
        let mut rest = outcomes.into_iter().skip(taken);
        match (rest.next(), rest.next()) {
            (None | Some(Ok(_) | Err(Failure::NotRun)), _) => Ok((taken, None)),
            (Some(Err(failure)), None | Some(Err(Failure::NotRun))) if has_asked || !failure.is_final() => {
                let stop = self.note(pooled, &group[taken], Err(failure));
                Ok((taken + usize::from(stop.is_none()), stop))
            }
            // Whatever ended the app may be another one's fault: the next has a call of its own.
            (Some(Err(failure)), _) => {
                let error =
                    format!("Stopped while handling several events, which are handed over one by one: {failure}");
                pooled.outlet.say(AppLogLevel::Warn, error);
                Ok((taken, None))
            }
        }
    }

    /// For apps that export events in batches: one outcome may be that of many.
    pub(super) async fn hand_over_together(
        &mut self,
        pooled: &mut PooledInstance,
        events: &[Stored],
    ) -> Result<Handed, Stop> {
        let team = self.team();
        let few = &events[..events.len().min(self.most_together)];
        let batch = &few[..that_fit(few, READ.bytes)];
        let given: Vec<EventPayload<'_>> = batch.iter().map(|event| EventPayload::new(event, team)).collect();
        let called = self.unless_cut(pooled.instance.call_with_each("onEvent", &given)).await;
        let outcomes = called.map_err(|cut| self.note_cut(pooled, &batch[0], &cut))?;
        if batch.len() > 1
            && let Some(Err(failure)) = outcomes.first()
            && failure.is_for_lack()
        {
            // That may be the fault of one of them: others are not to be lost for it.
            self.most_together = batch.len() / 2;
            let error = format!(
                "Stopped while handling {} events, which are handed over in halves: {failure}",
                batch.len()
            );
            pooled.outlet.say(AppLogLevel::Warn, error);
            return Ok((0, self.is_over().then_some(Stop::Done)));
        }
        for (index, (event, outcome)) in batch.iter().zip(outcomes).enumerate() {
            if matches!(outcome, Err(Failure::NotRun)) {
                return Ok((index, self.is_over().then_some(Stop::Done)));
            }
            if let Some(stop) = self.note(pooled, event, outcome.map(drop)) {
                return Ok((index, Some(stop)));
            }
            if self.failures >= MAX_FAILURES {
                return Ok((index + 1, Some(Stop::Done)));
            }
        }
        Ok((batch.len(), self.is_over().then_some(Stop::Done)))
    }
}
