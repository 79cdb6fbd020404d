//! Runs apps until told to stop: what is due, what was asked for, what has come in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sandbox::{Failure, Json};
use service::pipeline::{AppTask, Cursor as Reached, DueAfter, DueApp, TaskKind};
use service::{AppConfigId, OrganizationId, Result, Service, TeamId, Time, caller};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::apps::Apps;
use crate::host::Outlet;
use crate::instances::PooledInstance;
use crate::scheduler::{Pass, Permit, Scheduler, Work};

const POLL: Duration = Duration::from_secs(1);
/// How long a slot waits for a single call of an app before that goes on without it.
const SLOT_WAIT: Duration = Duration::from_millis(100);
/// What the whole of a task or a turn gets on top of the time of one call: one that is too slow says so itself.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// A configuration without events is looked at less and less often, but at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A pause that ended so long ago is that of somebody who is no longer looked at.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// A third of the lease: two may go missing.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);
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

    /// Lets go of configurations that were disabled or deleted: what is due is looked at soon after its pause.
    fn tidy(&mut self, now: Instant) {
        self.0.retain(|_, pause| now < pause.until + FORGOTTEN);
    }

    fn end(&mut self, id: AppConfigId) {
        self.0.remove(&id);
    }
}

/// Where one look over all configurations found nothing: others of the same team need not ask again.
#[derive(Debug, Default)]
struct Quiet {
    /// From this moment on there is nothing for the team.
    since: HashMap<TeamId, Time>,
    /// Those who have been handed something stand behind it.
    places: HashSet<(TeamId, Time, i64)>,
}

impl Quiet {
    fn has(&self, team: TeamId, place: &Reached) -> bool {
        let since = self.since.get(&team);
        since.is_some_and(|since| *since <= place.until) || self.places.contains(&(team, place.until, place.count))
    }

    fn note(&mut self, team: TeamId, place: &Reached) {
        if place.count > 0 {
            self.places.insert((team, place.until, place.count));
            return;
        }
        let since = self.since.entry(team).or_insert(place.until);
        *since = place.until.min(*since);
    }
}

/// What the slots of a process share.
#[derive(Debug)]
struct Floor {
    pauses: Mutex<Pauses>,
    scheduler: Scheduler,
    /// What goes on without a slot.
    aside: std::sync::Mutex<JoinSet<()>>,
}

impl Floor {
    fn new(slots: usize) -> Self {
        Self {
            pauses: Mutex::default(),
            scheduler: Scheduler::new(slots),
            aside: std::sync::Mutex::default(),
        }
    }

    fn aside(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.aside.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Something to do for an organization, and the permit for it.
struct Found {
    what: What,
    organization: OrganizationId,
    permit: Permit,
}

enum What {
    Task,
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
        self.core.instances.close().await;
    }

    async fn work_in_a_slot(self, duty: Duty, floor: Arc<Floor>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = floor.scheduler.until_room() => {}
            }
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

    /// Waits while the app is at it; whoever keeps a slot waiting goes on aside. False: there was nothing to do after all.
    async fn do_in_a_slot(&self, found: Found, floor: &Floor, stop: &CancellationToken) -> bool {
        let progress = found.permit.progress();
        let (apps, stop) = (self.clone(), stop.clone());
        let mut under_way = UnderWay(tokio::spawn(async move {
            let done = apps.carry_through(&found, &stop).await;
            if done.is_err() {
                // It would fail again at once. The organization waits for that, and the slot goes on.
                found.permit.timed(sleep(POLL)).await;
            }
            done
        }));
        while !progress.lasts(SLOT_WAIT) {
            if let Ok(is_done) = timeout(SLOT_WAIT, under_way.end()).await {
                return is_done;
            }
        }
        let mut aside = floor.aside();
        while aside.try_join_next().is_some() {}
        aside.spawn(async move {
            under_way.end().await;
        });
        true
    }

    async fn keep_up(self, stop: CancellationToken) {
        let mut tick = interval(TIDY_EVERY);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tick.tick() => {
                    self.core.instances.tidy().await;
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
            Some(found) => self.carry_through(&found, &CancellationToken::new()).await,
            None => Ok(false),
        }
    }

    /// In the organization's turn at the database: if that takes long, others have theirs.
    async fn carry_through(&self, found: &Found, stop: &CancellationToken) -> Result<bool> {
        let work = async {
            match found.what {
                What::Task => Box::pin(self.do_task(found.organization, &found.permit)).await,
                What::Events(id) => Box::pin(self.deliver(id, &found.permit, stop)).await,
            }
        };
        caller::on_behalf_of_organization(found.organization, work).await
    }

    /// When it is crowded, whoever is quick comes before all who are slow. Tasks and events take turns at being first, so that neither waits
    /// for the last of the others.
    async fn find(&self, duty: Duty, floor: &Floor) -> Result<Option<Found>> {
        let takes_tasks = duty == Duty::Any;
        let are_tasks_first = takes_tasks && self.core.are_tasks_next.fetch_xor(true, Ordering::Relaxed);
        for &pass in floor.scheduler.passes(Instant::now()) {
            if are_tasks_first && let Some(found) = self.find_task(pass, floor).await? {
                return Ok(Some(found));
            }
            if let Some(found) = self.find_events(pass, floor).await? {
                return Ok(Some(found));
            }
            if takes_tasks
                && !are_tasks_first
                && let Some(found) = self.find_task(pass, floor).await?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn find_task(&self, pass: Pass, floor: &Floor) -> Result<Option<Found>> {
        let core = &self.core;
        let mut permit = None;
        let mut begin = |organization| {
            permit = floor.scheduler.begin(pass, organization, Work::Task, Instant::now());
            permit.is_some()
        };
        let rotation = &core.tasks_of[pass.number()];
        let next = core.service.next_for_app_tasks(rotation, &mut begin).await?;
        Ok(next.zip(permit).map(|(organization, permit)| Found {
            what: What::Task,
            organization,
            permit,
        }))
    }

    /// A configuration for which something has come in. One slot looks at a time; the others wait for what it finds.
    async fn find_events(&self, pass: Pass, floor: &Floor) -> Result<Option<Found>> {
        let mut pauses = floor.pauses.lock().await;
        pauses.tidy(Instant::now());
        let mut quiet = Quiet::default();
        let mut round = self.core.events_of[pass.number()].take().await;
        for start in round.starts() {
            let found = self
                .find_after(DueAfter::all_of(start), pass, floor, (&mut pauses, &mut quiet))
                .await?;
            if let Some(found) = found {
                round.served(found.organization);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn find_after(
        &self,
        mut after: DueAfter,
        pass: Pass,
        floor: &Floor,
        (pauses, quiet): (&mut Pauses, &mut Quiet),
    ) -> Result<Option<Found>> {
        loop {
            let due = self.core.service.due_apps(&after, PAGE).await?;
            let Some(last) = due.last() else { return Ok(None) };
            after = DueAfter::this(last);
            for one in due {
                if let Some(permit) = self.look_at(&one, pass, floor, (pauses, quiet)).await? {
                    return Ok(Some(Found {
                        what: What::Events(one.config),
                        organization: one.organization,
                        permit,
                    }));
                }
            }
        }
    }

    /// A permit for its events, if it has any and may begin.
    async fn look_at(
        &self,
        one: &DueApp,
        pass: Pass,
        floor: &Floor,
        (pauses, quiet): (&mut Pauses, &mut Quiet),
    ) -> Result<Option<Permit>> {
        let now = Instant::now();
        let may_begin = floor.scheduler.may_begin(pass, one.organization, Work::Events, now);
        if !may_begin || !pauses.is_over(one.config, now) {
            return Ok(None);
        }
        if quiet.has(one.team, &one.place) || !self.has_events(one.team.0, &one.place).await? {
            quiet.note(one.team, &one.place);
            pauses.lengthen(one.config, Instant::now());
            return Ok(None);
        }
        pauses.end(one.config);
        Ok(floor
            .scheduler
            .begin(pass, one.organization, Work::Events, Instant::now()))
    }

    /// False: others were faster.
    async fn do_task(&self, organization: OrganizationId, permit: &Permit) -> Result<bool> {
        let core = &self.core;
        let claimed = permit
            .timed(Box::pin(core.service.claim_app_task(core.worker, organization)))
            .await?;
        match claimed {
            // Others have the permit by now. Whoever looks when the lease is over takes it.
            Some(_) if permit.is_preempted() => Ok(true),
            Some(task) => self.carry_out(&task, permit).await.map(|()| true),
            None => Ok(false),
        }
    }

    async fn carry_out(&self, task: &AppTask, permit: &Permit) -> Result<()> {
        let service = &self.core.service;
        permit.begin_call();
        let (outcome, outlet) = tokio::select! {
            done = self.call(task) => done,
            () = permit.preempted() => (Err(preempted()), None),
            () = send_heartbeats(service, task) => {
                tracing::info!(task = task.name, "the task of an app was taken away");
                return Ok(());
            }
        };
        permit.end_call();
        let failure = outcome.err();
        let error = failure.as_ref().map(ToString::to_string);
        let is_to_retry = failure.as_ref().is_some_and(Failure::is_retry);
        if let Some(outlet) = outlet {
            permit.timed(outlet.flush()).await;
        }
        let ended = service.end_app_task(task, error.as_deref(), is_to_retry);
        permit.timed(Box::pin(ended)).await
    }

    /// How it went, and what the app has said.
    async fn call(&self, task: &AppTask) -> (Result<(), Failure>, Option<Arc<Outlet>>) {
        let core = &self.core;
        let mut bench = match core.instances.take(core, &task.runnable).await {
            Ok(bench) => bench,
            Err((failure, outlet)) => return (Err(failure), Some(outlet)),
        };
        let outlet = bench.outlet.clone();
        let longest = core.sandbox.limits().call_time + GRACE;
        let outcome = match timeout(longest, set_up_and_call(&mut bench, task)).await {
            Ok(outcome) => {
                core.instances.put_back(task.runnable.config.id, bench);
                outcome
            }
            // One that was cut short is dropped, and its process with it.
            Err(_) => Err(Failure::TooSlow),
        };
        (outcome, Some(outlet))
    }
}

async fn set_up_and_call(bench: &mut PooledInstance, task: &AppTask) -> Result<(), Failure> {
    bench.instance.setup().await?;
    match task.kind {
        TaskKind::Schedule => {
            let nothing: [(); 0] = [];
            bench.instance.call_with(&task.name, &nothing).await.map(drop)
        }
        TaskKind::Job => {
            let payload = Json::from_text(task.payload.clone()).unwrap_or_else(Json::null);
            bench.instance.call_job(&task.name, payload).await
        }
    }
}

/// What is said of an app that was slow while others waited. It is tried again later.
pub(crate) fn preempted() -> Failure {
    Failure::Thrown {
        name: "Preempted".to_owned(),
        message: "the app took longer than a second while others were waiting and was stopped; it will be retried"
            .to_owned(),
        stack: String::new(),
        is_retry: true,
    }
}

/// Ends when the task is no longer ours.
async fn send_heartbeats(service: &Service, task: &AppTask) {
    loop {
        sleep(HEARTBEAT).await;
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

pub(crate) fn log(error: &service::Error) {
    if let service::Error::Unavailable { .. } | service::Error::Throttled(_) = error {
        // An organization waited too long for its turn at the database.
        tracing::info!(error = error as &dyn std::error::Error, "apps: work is done later");
        return;
    }
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
    fn a_team_without_events_is_asked_for_once() {
        let at = |second: i64, count: i64| Reached {
            until: Time::from_timestamp(second, 0).unwrap(),
            count,
        };
        let (team, other, mut quiet) = (TeamId(1), TeamId(2), Quiet::default());
        quiet.note(team, &at(10, 0));
        assert!(quiet.has(team, &at(10, 0)) && quiet.has(team, &at(11, 0)) && quiet.has(team, &at(11, 3)));
        assert!(!quiet.has(team, &at(9, 0)) && !quiet.has(other, &at(10, 0)));
        quiet.note(team, &at(8, 0));
        quiet.note(team, &at(12, 0));
        assert!(quiet.has(team, &at(9, 0)));
        // Whoever stands behind events knows of no others: only who stands at the same place has nothing, either.
        quiet.note(other, &at(10, 2));
        assert!(quiet.has(other, &at(10, 2)) && !quiet.has(other, &at(10, 1)) && !quiet.has(other, &at(11, 0)));
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
