//! Carries out what is due, until told to stop.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use boxed::boxed;
use service::batch_exports::{Job, Outcome};
use service::lease::until_lost;
use service::{ExportId, OrganizationId, Result};
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::exporter::Exports;
use crate::heartbeat::Heartbeat;
use crate::run::RunContext;
use crate::run_slots::Slot;
use crate::{meters, run};

const POLL: Duration = Duration::from_secs(1);
/// How many thousand exports one turn makes runs for. What is due at the same full hour is spread over the next few
/// turns, so that neither the database nor anybody who asks it notices.
const BATCHES_A_TURN: usize = 5;
/// What taking back a delivery may cost when there is no time left.
const ABORT_TIME: Duration = Duration::from_secs(20);
/// The same when others wait for the room.
const SHORT_ABORT_TIME: Duration = Duration::from_secs(5);
/// How often old runs are looked for, and how often while there are some.
const TIDY_EVERY: Duration = Duration::from_mins(10);
const TIDY_ON: Duration = Duration::from_secs(1);

/// Why a run was left before its end.
enum Interruption {
    /// Somebody cancelled or deleted it, or another worker has it.
    Lost,
    TooLong,
    Stopping,
    /// Others wait for the room that it has had for long.
    Crowded,
}

impl Exports {
    /// Schedules, and carries out runs in all slots, until told to stop; runs in progress are then given back.
    #[boxed]
    pub async fn work(&self, stop: CancellationToken) {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(self.clone().keep_schedule(stop.clone()));
        tasks.spawn(self.clone().keep_tidy(stop.clone()));
        if self.core.slots > 0 {
            tasks.spawn(self.clone().serve(stop.clone()));
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn keep_schedule(self, stop: CancellationToken) {
        let mut tick = interval(POLL);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tick.tick() => log(self.schedule().await.map(drop)),
            }
        }
    }

    /// Forgets old runs, a few at a time.
    async fn keep_tidy(self, stop: CancellationToken) {
        let first = ExportId(uuid::Uuid::nil());
        let mut after = first;
        while !stop.is_cancelled() {
            let pause = match self.core.service.forget_old_runs(after).await {
                Ok(Some(next)) => {
                    after = next;
                    TIDY_ON
                }
                ended => {
                    after = first;
                    log(ended.map(drop));
                    TIDY_EVERY
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Takes runs as there are slots for them, and waits for none of them.
    async fn serve(self, stop: CancellationToken) {
        let mut runs = tokio::task::JoinSet::new();
        while !stop.is_cancelled() {
            let mut changed = pin!(self.core.run_slots.changed().notified());
            changed.as_mut().enable();
            match self.claim().await {
                Ok(Some((job, slot))) => {
                    let (exports, stop) = (self.clone(), stop.clone());
                    runs.spawn(async move { log(exports.carry_through(&job, slot, &stop).await) });
                    continue;
                }
                Ok(None) => {}
                Err(error) => log(Err(error)),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.core.wake.notified() => {}
                () = changed => {}
                Some(_) = runs.join_next() => {}
                () = sleep(POLL) => {}
            }
        }
        while runs.join_next().await.is_some() {}
    }

    /// Makes runs that are due, if there are many not all of them at once. True: there were some.
    #[boxed]
    pub async fn schedule(&self) -> Result<bool> {
        let (service, delay) = (&self.core.service, self.core.events.delay());
        let mut is_busy = false;
        for _ in 0..BATCHES_A_TURN {
            let made = service.schedule_runs(delay).await?;
            is_busy |= made.runs > 0;
            if !made.is_more {
                break;
            }
        }
        is_busy |= service.advance_backfills(delay).await?;
        if is_busy {
            self.core.wake.notify_waiters();
        }
        Ok(is_busy)
    }

    /// Carries out one run, if one is due. Tests call this, and never wait.
    #[boxed]
    pub async fn step(&self) -> Result<bool> {
        let Some((job, slot)) = self.claim().await? else {
            return Ok(false);
        };
        self.carry_through(&job, slot, &CancellationToken::new()).await?;
        Ok(true)
    }

    async fn claim(&self) -> Result<Option<(Job, Slot)>> {
        let core = &self.core;
        if !core.run_slots.may_look() {
            return Ok(None);
        }
        let busy = core.run_slots.busy_destinations();
        let choose = |due: &[OrganizationId], is_all| core.run_slots.choose(due, is_all);
        let claimed = core
            .service
            .claim_run(core.worker, &busy, &core.rotation, choose)
            .await?;
        Ok(claimed.map(|job| {
            let slot = core.run_slots.begin(&job);
            (job, slot)
        }))
    }

    /// Carries a run out and writes down how it ended.
    async fn carry_through(&self, job: &Job, slot: Slot, stop: &CancellationToken) -> Result<()> {
        let service = &self.core.service;
        let heartbeat = Arc::new(Heartbeat::default());
        let outcome = match self.carry_out(job, &heartbeat, slot, stop).await {
            Ok(outcome) => outcome,
            Err(Interruption::TooLong) => Outcome::TimedOut(heartbeat.read()),
            Err(Interruption::Crowded) => crowded(&heartbeat),
            Err(Interruption::Lost) => {
                tracing::info!(run = %job.run.id, "lost the run's lease");
                return service.note_cancelled_run(job, &heartbeat.read()).await;
            }
            Err(Interruption::Stopping) => return service.release_run(job, &heartbeat.read()).await,
        };
        if service.finish_run(job, &outcome).await? {
            meters::count(job, &outcome);
        } else {
            tracing::warn!(run = %job.run.id, "lost the run before it ended");
        }
        Ok(())
    }

    /// In a task of its own: a panic in there is that run's failure alone.
    async fn carry_out(
        &self,
        job: &Job,
        heartbeat: &Arc<Heartbeat>,
        slot: Slot,
        stop: &CancellationToken,
    ) -> Result<Outcome, Interruption> {
        let course = RunContext {
            heartbeat: heartbeat.clone(),
            slot: Arc::new(slot),
            cancel: CancellationToken::new(),
        };
        let mut task = tokio::spawn(run::deliver(self.clone(), job.clone(), course.clone()));
        let service = &self.core.service;
        let renew = || async { service.renew_lease(job, &heartbeat.read()).await };
        let run_timeout = job.export.interval.run_timeout().to_std().unwrap_or(POLL);
        let interruption = tokio::select! {
            outcome = &mut task => return Ok(outcome.unwrap_or_else(|error| broken(job, heartbeat, &error))),
            () = until_lost(renew, |error| log(Err(error))) => Interruption::Lost,
            () = sleep(run_timeout) => Interruption::TooLong,
            () = stop.cancelled() => Interruption::Stopping,
            () = course.slot.ended() => Interruption::Crowded,
        };
        course.cancel.cancel();
        // Taking back what was sent gets a little time, and no more.
        let time = match interruption {
            Interruption::Crowded => SHORT_ABORT_TIME,
            _ => ABORT_TIME,
        };
        match tokio::time::timeout(time, &mut task).await {
            // It got through after all, at the last moment.
            Ok(Ok(outcome @ Outcome::Completed(_))) => Ok(outcome),
            Ok(_) => Err(interruption),
            Err(_) => {
                task.abort();
                Err(interruption)
            }
        }
    }
}

/// It is tried again automatically, and is then left alone for longer.
fn crowded(heartbeat: &Heartbeat) -> Outcome {
    Outcome::Failed {
        error: "the destination is slow and other runs are waiting; it will be retried".to_owned(),
        is_permanent: false,
        delivered: heartbeat.read(),
    }
}

fn broken(job: &Job, heartbeat: &Heartbeat, error: &tokio::task::JoinError) -> Outcome {
    tracing::error!(run = %job.run.id, %error, "a run panicked");
    Outcome::Failed {
        error: "internal error; the server's operator can find details in its log".to_owned(),
        is_permanent: false,
        delivered: heartbeat.read(),
    }
}

fn log(result: Result<()>) {
    if let Err(error) = result {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "exports: background work failed"
        );
    }
}
