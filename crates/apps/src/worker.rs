//! Runs apps until told to stop: what is due, what was asked for, what has come in.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sandbox::Failure;
use service::pipeline::{AppTask, DueAfter, DueApp, TaskKind};
use service::{AppConfigId, Result, Service};
use tokio::sync::Mutex;
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::apps::Apps;

const POLL: Duration = Duration::from_secs(1);
/// A configuration without events is looked at less and less often, but at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A pause that ended so long ago is that of somebody who is no longer looked at.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// A third of the lease: two may go missing.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
const TIDY_EVERY: Duration = Duration::from_secs(15);
/// Configurations that are looked at together.
const PAGE: i64 = 500;
/// Of so many slots one is kept for events.
const SLOTS_FOR_EVENTS: usize = 4;

/// What a slot may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    /// Hand over events alone: however long tasks take, and however many there are, they never take all slots.
    Events,
    Any,
}

impl Duty {
    /// Of each slot of a process that has so many. One that is alone does both.
    fn of(slot: usize, slots: usize) -> Self {
        let reserved = if slots < 2 { 0 } else { slots.div_ceil(SLOTS_FOR_EVENTS) };
        if slot < reserved { Self::Events } else { Self::Any }
    }
}

/// When each configuration that had nothing is looked at again.
#[derive(Debug, Default)]
struct Pauses(HashMap<AppConfigId, Pause>);

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl Pauses {
    fn is_over(&self, id: AppConfigId, now: Instant) -> bool {
        self.0.get(&id).is_none_or(|pause| pause.until <= now)
    }

    fn lengthen(&mut self, id: AppConfigId, now: Instant) {
        let before = self.0.get(&id).map_or(POLL / 2, |pause| pause.length);
        let length = (before * 2).min(LONGEST_PAUSE);
        let until = now + length;
        self.0.insert(id, Pause { until, length });
    }

    /// Lets go of configurations that were switched off or deleted: what is due is looked at soon after its pause.
    fn tidy(&mut self, now: Instant) {
        self.0.retain(|_, pause| now < pause.until + FORGOTTEN);
    }

    fn end(&mut self, id: AppConfigId) {
        self.0.remove(&id);
    }
}

impl Apps {
    /// Runs apps in all slots, until told to stop.
    pub async fn work(&self, stop: CancellationToken) {
        let pauses = std::sync::Arc::new(Mutex::new(Pauses::default()));
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(self.clone().keep_up(stop.clone()));
        if self.until_confined(&stop).await {
            for slot in 0..self.core.slots {
                let duty = Duty::of(slot, self.core.slots);
                tasks.spawn(self.clone().work_in_a_slot(duty, pauses.clone(), stop.clone()));
            }
        }
        while tasks.join_next().await.is_some() {}
        self.core.workshop.close().await;
    }

    async fn work_in_a_slot(self, duty: Duty, pauses: std::sync::Arc<Mutex<Pauses>>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.step_among(duty, Some(&pauses), &stop).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => log(&error),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(POLL) => {}
            }
        }
    }

    async fn keep_up(self, stop: CancellationToken) {
        let mut tick = interval(TIDY_EVERY);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tick.tick() => {
                    self.core.workshop.tidy().await;
                    self.core.caches.tidy(Instant::now());
                    if let Err(error) = self.check_one().await {
                        log(&error);
                    }
                }
            }
        }
    }

    /// Does one thing that is due, if there is one. Tests call this, and never wait.
    pub async fn step(&self) -> Result<bool> {
        self.step_among(Duty::Any, None, &CancellationToken::new()).await
    }

    /// Tasks and events take turns at being first, so that neither waits for the last of the others.
    async fn step_among(&self, duty: Duty, pauses: Option<&Mutex<Pauses>>, stop: &CancellationToken) -> Result<bool> {
        let takes_tasks = duty == Duty::Any;
        let are_tasks_first = takes_tasks && self.core.are_tasks_next.fetch_xor(true, Ordering::Relaxed);
        if are_tasks_first && self.carry_out_one().await? {
            return Ok(true);
        }
        if self.hand_over_one(pauses, stop).await? {
            return Ok(true);
        }
        Ok(takes_tasks && !are_tasks_first && self.carry_out_one().await?)
    }

    async fn carry_out_one(&self) -> Result<bool> {
        let core = &self.core;
        let Some(task) = core.service.claim_app_task(core.worker, &core.tasks_of).await? else {
            return Ok(false);
        };
        self.carry_out(&task).await?;
        Ok(true)
    }

    async fn hand_over_one(&self, pauses: Option<&Mutex<Pauses>>, stop: &CancellationToken) -> Result<bool> {
        match self.find_one(pauses).await? {
            Some(id) => self.deliver(id, stop).await,
            None => Ok(false),
        }
    }

    /// A configuration for which something has come in. One slot looks at a time; the others wait for what it finds.
    async fn find_one(&self, pauses: Option<&Mutex<Pauses>>) -> Result<Option<AppConfigId>> {
        let mut own = Pauses::default();
        let mut shared = match pauses {
            Some(pauses) => Some(pauses.lock().await),
            None => None,
        };
        let pauses = shared.as_deref_mut().unwrap_or(&mut own);
        pauses.tidy(Instant::now());
        let mut round = self.core.events_of.take().await;
        for start in round.starts() {
            if let Some(found) = self.find_after(DueAfter::all_of(start), pauses).await? {
                round.served(found.organization);
                return Ok(Some(found.config));
            }
        }
        Ok(None)
    }

    async fn find_after(&self, mut after: DueAfter, pauses: &mut Pauses) -> Result<Option<DueApp>> {
        loop {
            let due = self.core.service.due_apps(&after, PAGE).await?;
            let Some(last) = due.last() else { return Ok(None) };
            after = DueAfter::this(last);
            let now = Instant::now();
            for one in due {
                if !pauses.is_over(one.config, now) {
                    continue;
                }
                if self.has_events(one.team.0, &one.place).await? {
                    pauses.end(one.config);
                    return Ok(Some(one));
                }
                pauses.lengthen(one.config, Instant::now());
            }
        }
    }

    async fn carry_out(&self, task: &AppTask) -> Result<()> {
        let service = &self.core.service;
        let outcome = tokio::select! {
            outcome = self.call(task) => outcome,
            () = signs_of_life(service, task) => {
                tracing::info!(task = task.name, "the task of an app was taken away");
                return Ok(());
            }
        };
        let failure = outcome.err();
        let error = failure.as_ref().map(ToString::to_string);
        let is_to_retry = failure.as_ref().is_some_and(Failure::is_retry);
        service.end_app_task(task, error.as_deref(), is_to_retry).await
    }

    async fn call(&self, task: &AppTask) -> Result<(), Failure> {
        let core = &self.core;
        let mut bench = match core.workshop.take(core, &task.runnable).await {
            Ok(bench) => bench,
            Err((failure, outlet)) => {
                outlet.flush().await;
                return Err(failure);
            }
        };
        let called = match task.kind {
            TaskKind::Schedule => bench.instance.call(&task.name, Vec::new()).await,
            TaskKind::Job => bench.instance.call_job(&task.name, task.payload.clone()).await,
        };
        bench.outlet.flush().await;
        core.workshop.put_back(task.runnable.config.id, bench);
        called.map(drop)
    }
}

/// Ends when the task is no longer ours.
async fn signs_of_life(service: &Service, task: &AppTask) {
    loop {
        sleep(SIGN_OF_LIFE).await;
        if is_lost(service.keep_app_task(task).await) {
            return;
        }
    }
}

/// Whether somebody else has it by now. If the database is away for a moment, the lease says for how long that is fine.
pub(crate) fn is_lost(kept: Result<bool>) -> bool {
    match kept {
        Ok(is_held) => !is_held,
        Err(error) => {
            log(&error);
            false
        }
    }
}

fn log(error: &service::Error) {
    tracing::error!(error = error as &dyn std::error::Error, "apps: background work failed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_never_have_all_slots_and_always_have_some() {
        for slots in 2..50 {
            let duties: Vec<Duty> = (0..slots).map(|slot| Duty::of(slot, slots)).collect();
            assert!(duties.contains(&Duty::Events) && duties.contains(&Duty::Any), "{slots}");
        }
        assert_eq!(Duty::of(0, 1), Duty::Any);
        assert_eq!((0..4).filter(|slot| Duty::of(*slot, 4) == Duty::Events).count(), 1);
    }

    #[test]
    fn pauses_of_configurations_that_are_gone_are_forgotten() {
        let (mut pauses, start) = (Pauses::default(), Instant::now());
        let (there, gone) = (AppConfigId(1), AppConfigId(2));
        pauses.lengthen(there, start);
        pauses.lengthen(gone, start);
        assert!(!pauses.is_over(there, start) && pauses.is_over(there, start + POLL));
        for second in 0..120 {
            let now = start + Duration::from_secs(second);
            pauses.tidy(now);
            if pauses.is_over(there, now) {
                pauses.lengthen(there, now);
            }
        }
        assert_eq!(pauses.0.keys().collect::<Vec<_>>(), [&there]);
        assert_eq!(
            pauses.0[&there].length, LONGEST_PAUSE,
            "whoever is still looked at keeps the pause"
        );
    }
}
