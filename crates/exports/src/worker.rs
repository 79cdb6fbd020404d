//! Carries out what is due, until told to stop.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use service::batch_exports::{Busy, Job, Outcome, Progress};
use service::{Result, Service};
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::exporter::Exports;
use crate::turns::Runs;
use crate::{Acknowledged, run};

const POLL: Duration = Duration::from_secs(1);
/// A third of the lease: two may go missing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
/// How many thousand exports one turn makes runs for. What is due at the same full hour is spread over the next few
/// turns, so that neither the database nor anybody who asks it notices.
const BATCHES_A_TURN: usize = 5;
/// What taking back a delivery may cost when there is no time left.
const ABORT_TIME: Duration = Duration::from_secs(20);

/// How a run stands, for its signs of life. Shared with whoever carries it out.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    progress: Mutex<Progress>,
    acknowledged: OnceLock<Acknowledged>,
}

impl Pulse {
    pub(crate) fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// From now on, what counts as delivered is what this says.
    pub(crate) fn follow(&self, acknowledged: &Acknowledged) {
        self.acknowledged.get_or_init(|| acknowledged.clone());
    }

    pub(crate) fn read(&self) -> Progress {
        let delivered = self.acknowledged.get().map(Acknowledged::read).unwrap_or_default();
        Progress {
            records: delivered.rows,
            bytes: delivered.bytes,
            ..*self.progress.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

/// Why a run was left before its end.
enum Interruption {
    /// Somebody cancelled or deleted it, or another worker has it.
    Lost,
    TooLong,
    Stopping,
}

impl Exports {
    /// Schedules, and carries out runs in all slots, until told to stop; runs under way are then given back.
    pub async fn work(&self, stop: CancellationToken) {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(self.clone().keep_schedule(stop.clone()));
        for _ in 0..self.core.slots {
            tasks.spawn(self.clone().work_in_a_slot(stop.clone(), |runs| Some(runs.busy())));
        }
        tasks.spawn(self.clone().work_in_a_slot(stop.clone(), Runs::busy_for_guests));
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

    /// `busy` says who is passed over; none: nothing is to be done at the moment.
    async fn work_in_a_slot(self, stop: CancellationToken, busy: fn(&Runs) -> Option<Busy>) {
        while !stop.is_cancelled() {
            match self.step_until(&stop, busy).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => log(Err(error)),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.core.wake.notified() => {}
                () = sleep(POLL) => {}
            }
        }
    }

    /// Makes runs that are due, if there are many not all of them at once. True: there were some.
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
    pub async fn step(&self) -> Result<bool> {
        let never = CancellationToken::new();
        self.step_until(&never, |runs| Some(runs.busy())).await
    }

    /// The same for the slot that is for guests. Tests call this.
    pub async fn step_for_guests(&self) -> Result<bool> {
        self.step_until(&CancellationToken::new(), Runs::busy_for_guests).await
    }

    async fn step_until(&self, stop: &CancellationToken, busy: fn(&Runs) -> Option<Busy>) -> Result<bool> {
        let service = &self.core.service;
        let core = &self.core;
        let Some(busy) = busy(&core.runs) else {
            return Ok(false);
        };
        let claimed = service.claim_run(core.worker, &busy, &core.runs_of).await?;
        let Some(job) = claimed else {
            return Ok(false);
        };
        let turn = core.runs.begin(&job.run.place, job.run.organization_id);
        let pulse = Arc::new(Pulse::default());
        let outcome = self.carry_out(&job, &pulse, stop).await;
        drop(turn);
        match outcome {
            Ok(outcome) => {
                if !service.finish_run(&job, &outcome).await? {
                    tracing::warn!(run = %job.run.id, "lost the run before it ended");
                }
            }
            Err(Interruption::TooLong) => drop(service.finish_run(&job, &Outcome::TimedOut(pulse.read())).await?),
            Err(Interruption::Lost) => {
                tracing::info!(run = %job.run.id, "the run was taken away");
                service.note_cancelled_run(&job, &pulse.read()).await?;
            }
            Err(Interruption::Stopping) => service.release_run(&job).await?,
        }
        Ok(true)
    }

    /// In a task of its own: a panic in there is that run's failure alone.
    async fn carry_out(
        &self,
        job: &Job,
        pulse: &Arc<Pulse>,
        stop: &CancellationToken,
    ) -> Result<Outcome, Interruption> {
        let cancel = CancellationToken::new();
        let mut task = tokio::spawn(run::deliver(self.clone(), job.clone(), pulse.clone(), cancel.clone()));
        let patience = job.export.interval.patience().to_std().unwrap_or(POLL);
        let interruption = tokio::select! {
            outcome = &mut task => return Ok(outcome.unwrap_or_else(|error| broken(job, pulse, &error))),
            () = signs_of_life(&self.core.service, job, pulse) => Interruption::Lost,
            () = sleep(patience) => Interruption::TooLong,
            () = stop.cancelled() => Interruption::Stopping,
        };
        cancel.cancel();
        // Taking back what was sent gets a little time, and no more.
        match tokio::time::timeout(ABORT_TIME, &mut task).await {
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

/// Ends when the run is no longer ours.
async fn signs_of_life(service: &Service, job: &Job, pulse: &Pulse) {
    let mut tick = interval(SIGN_OF_LIFE);
    tick.tick().await;
    loop {
        tick.tick().await;
        match service.keep_run(job, &pulse.read()).await {
            Ok(true) => {}
            Ok(false) => return,
            // The database is away for a moment; the lease says for how long that is fine.
            Err(error) => log(Err(error)),
        }
    }
}

fn broken(job: &Job, pulse: &Pulse, error: &tokio::task::JoinError) -> Outcome {
    tracing::error!(run = %job.run.id, %error, "a run broke down");
    Outcome::Failed {
        error: "something went wrong on our side; the operator of this server finds the reason in its log".to_owned(),
        is_lasting: false,
        delivered: pulse.read(),
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
