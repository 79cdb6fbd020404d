//! Runs apps until told to stop: what is due, what was asked for, what has come in.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sandbox::{Failure, Json};
use service::pipeline::{AppTask, DueAfter, DueApp, TaskKind};
use service::{AppConfigId, OrganizationId, Result, Service};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::apps::Apps;
use crate::lines::{Line, Lines, PATIENCE, Place, Work};

const POLL: Duration = Duration::from_secs(1);
/// A configuration without events is looked at less and less often, but at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A pause that ended so long ago is that of somebody who is no longer looked at.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// A third of the lease: two may go missing.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
const TIDY_EVERY: Duration = Duration::from_secs(15);
/// Configurations whose caches are looked at together: whether they are still run.
const MOST_LOOKED_AT: usize = 200;
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

/// What the slots of a process share.
#[derive(Debug)]
struct Floor {
    pauses: Mutex<Pauses>,
    lines: Lines,
    /// What goes on without a slot.
    aside: std::sync::Mutex<JoinSet<()>>,
}

impl Floor {
    fn new(slots: usize) -> Self {
        Self {
            pauses: Mutex::default(),
            lines: Lines::new(slots),
            aside: std::sync::Mutex::default(),
        }
    }

    fn aside(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.aside.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Something to do, and the place it has.
struct Found {
    what: What,
    place: Place,
}

enum What {
    Task(Box<AppTask>),
    Events(AppConfigId),
}

/// Something that is being done. Dropped, it is given up.
struct UnderWay(JoinHandle<Result<bool>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl UnderWay {
    /// False: there was nothing to do after all, or it failed.
    async fn end(&mut self) -> bool {
        match (&mut self.0).await {
            Ok(Ok(is_done)) => is_done,
            Ok(Err(error)) => {
                log(&error);
                false
            }
            Err(_) => {
                tracing::error!("apps: background work broke off");
                false
            }
        }
    }
}

impl Apps {
    /// Runs apps in all slots, until told to stop.
    pub async fn work(&self, stop: CancellationToken) {
        let floor = Arc::new(Floor::new(self.core.slots));
        let mut tasks = JoinSet::new();
        tasks.spawn(self.clone().keep_up(stop.clone()));
        if self.until_confined(&stop).await {
            for slot in 0..self.core.slots {
                let duty = Duty::of(slot, self.core.slots);
                tasks.spawn(self.clone().work_in_a_slot(duty, floor.clone(), stop.clone()));
            }
        }
        while tasks.join_next().await.is_some() {}
        let mut aside = std::mem::take(&mut *floor.aside());
        while aside.join_next().await.is_some() {}
        self.core.workshop.close().await;
    }

    async fn work_in_a_slot(self, duty: Duty, floor: Arc<Floor>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.find(duty, &floor).await {
                Ok(Some(found)) => {
                    if self.do_in_a_slot(found, &floor, &stop).await {
                        continue;
                    }
                }
                Ok(None) => {}
                Err(error) => log(&error),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(POLL) => {}
            }
        }
    }

    /// Waits for a moment; what takes longer goes on aside. False: there was nothing to do after all.
    async fn do_in_a_slot(&self, found: Found, floor: &Floor, stop: &CancellationToken) -> bool {
        let Found { what, place } = found;
        let (apps, stop) = (self.clone(), stop.clone());
        let mut under_way = UnderWay(tokio::spawn(async move { apps.carry_through(what, &stop).await }));
        if let Ok(is_done) = timeout(PATIENCE, under_way.end()).await {
            place.note(Line::Quick, Instant::now());
            return is_done;
        }
        place.note(Line::Slow, Instant::now());
        let mut aside = floor.aside();
        while aside.try_join_next().is_some() {}
        aside.spawn(async move {
            under_way.end().await;
            drop(place);
        });
        true
    }

    async fn keep_up(self, stop: CancellationToken) {
        let mut tick = interval(TIDY_EVERY);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tick.tick() => {
                    self.core.workshop.tidy().await;
                    if let Err(error) = self.tidy_caches().await {
                        log(&error);
                    }
                    if let Err(error) = self.check_one().await {
                        log(&error);
                    }
                }
            }
        }
    }

    /// Lets go of what apps keep that are no longer run.
    async fn tidy_caches(&self) -> Result<()> {
        let (caches, now) = (&self.core.caches, Instant::now());
        caches.tidy(now);
        let silent = caches.silent(now, MOST_LOOKED_AT);
        let enabled = self.core.service.app_configs_in_use(&silent).await?;
        for id in silent.iter().filter(|id| !enabled.contains(id)) {
            caches.forget(*id);
        }
        Ok(())
    }

    /// Does one thing that is due, if there is one. Tests call this, and never wait.
    pub async fn step(&self) -> Result<bool> {
        match self.find(Duty::Any, &Floor::new(self.core.slots)).await? {
            Some(found) => self.carry_through(found.what, &CancellationToken::new()).await,
            None => Ok(false),
        }
    }

    async fn carry_through(&self, what: What, stop: &CancellationToken) -> Result<bool> {
        match what {
            What::Task(task) => self.carry_out(&task).await.map(|()| true),
            What::Events(id) => self.deliver(id, stop).await,
        }
    }

    /// Whoever is quick comes before all who are slow. Tasks and events take turns at being first, so that neither waits
    /// for the last of the others.
    async fn find(&self, duty: Duty, floor: &Floor) -> Result<Option<Found>> {
        let takes_tasks = duty == Duty::Any;
        let are_tasks_first = takes_tasks && self.core.are_tasks_next.fetch_xor(true, Ordering::Relaxed);
        for &line in floor.lines.lines(Instant::now()) {
            if are_tasks_first && let Some(found) = self.find_task(line, floor).await? {
                return Ok(Some(found));
            }
            if let Some(found) = self.find_events(line, floor).await? {
                return Ok(Some(found));
            }
            if takes_tasks
                && !are_tasks_first
                && let Some(found) = self.find_task(line, floor).await?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn find_task(&self, line: Line, floor: &Floor) -> Result<Option<Found>> {
        let core = &self.core;
        let mut place = None;
        let mut begin = |organization| {
            place = floor.lines.begin(line, organization, Work::Task, Instant::now());
            place.is_some()
        };
        let claimed = core
            .service
            .claim_app_task(core.worker, &core.tasks_of, &mut begin)
            .await?;
        Ok(claimed.zip(place).map(|(task, place)| Found {
            what: What::Task(Box::new(task)),
            place,
        }))
    }

    /// A configuration for which something has come in. One slot looks at a time; the others wait for what it finds.
    async fn find_events(&self, line: Line, floor: &Floor) -> Result<Option<Found>> {
        let mut pauses = floor.pauses.lock().await;
        pauses.tidy(Instant::now());
        let mut round = self.core.events_of.take().await;
        for start in round.starts() {
            let found = self
                .find_after(DueAfter::all_of(start), line, floor, &mut pauses)
                .await?;
            if let Some((organization, found)) = found {
                round.served(organization);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn find_after(
        &self,
        mut after: DueAfter,
        line: Line,
        floor: &Floor,
        pauses: &mut Pauses,
    ) -> Result<Option<(OrganizationId, Found)>> {
        loop {
            let due = self.core.service.due_apps(&after, PAGE).await?;
            let Some(last) = due.last() else { return Ok(None) };
            after = DueAfter::this(last);
            for one in due {
                if let Some(place) = self.look_at(&one, line, floor, pauses).await? {
                    let what = What::Events(one.config);
                    return Ok(Some((one.organization, Found { what, place })));
                }
            }
        }
    }

    /// A place for its events, if it has any and may have one.
    async fn look_at(&self, one: &DueApp, line: Line, floor: &Floor, pauses: &mut Pauses) -> Result<Option<Place>> {
        let now = Instant::now();
        let may_begin = floor.lines.may_begin(line, one.organization, Work::Events, now);
        if !may_begin || !pauses.is_over(one.config, now) {
            return Ok(None);
        }
        if !self.has_events(one.team.0, &one.place).await? {
            pauses.lengthen(one.config, Instant::now());
            return Ok(None);
        }
        pauses.end(one.config);
        Ok(floor.lines.begin(line, one.organization, Work::Events, Instant::now()))
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
            TaskKind::Schedule => {
                let nothing: [(); 0] = [];
                bench.instance.call_with(&task.name, &nothing).await.map(drop)
            }
            TaskKind::Job => {
                let payload = Json::from_text(task.payload.clone()).unwrap_or_else(Json::null);
                bench.instance.call_job(&task.name, payload).await
            }
        };
        bench.outlet.flush().await;
        core.workshop.put_back(task.runnable.config.id, bench);
        called
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
