//! One batch of one configuration: its events are read, and its app is called with them.

mod large;
mod several;

use std::time::{Duration, Instant};

use events::{Most, Stored, StoredEvents};
use sandbox::{Failure, Instance};
use service::pipeline::{AppJob, AppLogLevel, Cursor, MAX_FAILURES, Stop};
use service::{Result, Time};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::group::Group;
use super::webhook;
use crate::apps::Apps;
use crate::errors::{preempted, stop_after, store_failed, with_stack};
use crate::event_payload::EventPayload;
use crate::host::Outlet;
use crate::instances::PooledInstance;
use crate::meters;
use crate::scheduler::Permit;

/// What is read at a time, and what an app that exports events gets in one call; always one event. Events stay text, so this is what they
/// take, and as much again for the app.
const READ: Most = Most {
    events: 1000,
    bytes: 512 * 1024,
};
/// How long one batch goes on while there are events; then others get theirs.
const BATCH_TIME: Duration = Duration::from_secs(3);

/// Failures at larger events do not disable a configuration: whoever has the public token of the team chooses what is in them, and can have them take
/// more memory than an app has, or more time. (`$set` is handed over twice.)
const COUNTED_BYTES: usize = 32 * 1024;

/// One batch of one configuration.
pub(super) struct Batch<'a> {
    apps: &'a Apps,
    job: &'a AppJob,
    pub(super) cursor: Cursor,
    /// For whoever writes down how far it has got.
    cursor_tx: watch::Sender<Cursor>,
    /// Whether it ends before the last event.
    pub(super) has_more: bool,
    pub(super) failures: i64,
    pub(super) error: Option<String>,
    /// Where it would go on if the event that has to wait were given up.
    pub(super) beyond: Option<Cursor>,
    pub(super) handed: meters::Handed,
    /// How many events the app gets in one go.
    group: Group,
    /// The same if it exports events.
    most_together: usize,
    begun: Instant,
    /// When the app is stopped, whatever it is at; none before it is there.
    deadline: Option<Instant>,
    permit: &'a Permit,
    stop: &'a CancellationToken,
}

/// Why an app was stopped from outside.
enum Cut {
    /// Others needed its permit.
    Preempted,
    /// Setting it up and all its calls together took longer than one call may.
    OutOfTime,
}

/// How many events are done, and whether that is the end of the batch.
type Handed = (usize, Option<Stop>);

impl<'a> Batch<'a> {
    pub(super) fn new(
        apps: &'a Apps,
        job: &'a AppJob,
        cursor_tx: watch::Sender<Cursor>,
        permit: &'a Permit,
        stop: &'a CancellationToken,
    ) -> Self {
        Self {
            apps,
            job,
            cursor: job.cursor(),
            cursor_tx,
            has_more: true,
            failures: job.runnable.config.failures,
            error: None,
            beyond: None,
            handed: meters::Handed::default(),
            group: Group::default(),
            most_together: READ.events,
            begun: Instant::now(),
            deadline: None,
            permit,
            stop,
        }
    }

    pub(super) async fn take(&mut self) -> Result<Stop> {
        let end = self.apps.core.readable_until();
        // From here on what came in before is complete: nothing is added to it any more.
        let settled = self.apps.core.events.settle(end).await;
        settled.map_err(|error| store_failed(&error))?;
        while !self.is_over() {
            let StoredEvents { mut events, is_end } = self.next_events(end).await?;
            let stop = match events.pop_if(|event| !event.is_whole) {
                Some(event) => self.hand_over_large(event, end).await?,
                None => self.hand_over(&events).await,
            };
            if let Some(stop) = stop {
                return Ok(stop);
            }
            if is_end {
                self.has_more = false;
                break;
            }
        }
        Ok(Stop::Done)
    }

    async fn next_events(&self, end: Time) -> Result<StoredEvents> {
        let events = &self.apps.core.events;
        let read = events.stored(self.team(), self.cursor.until, end, self.skip(), READ);
        read.await.map_err(|error| store_failed(&error))
    }

    /// The first of them, all of it.
    async fn next_event(&self, end: Time) -> Result<Option<Stored>> {
        let events = &self.apps.core.events;
        let read = events.stored_event(self.team(), self.cursor.until, end, self.skip());
        read.await.map_err(|error| store_failed(&error))
    }

    fn team(&self) -> i64 {
        self.job.runnable.config.team_id.0
    }

    /// How many events of the cursor's moment are done.
    fn skip(&self) -> usize {
        usize::try_from(self.cursor.count).unwrap_or_default()
    }

    /// Others get their turn, too; and whoever fails again and again is not called once more.
    fn is_over(&self) -> bool {
        let was_long = self.begun.elapsed() > BATCH_TIME || self.permit.should_yield();
        was_long || self.failures >= MAX_FAILURES || self.stop.is_cancelled()
    }

    /// Does something with the app, unless it is to be stopped before that is done.
    async fn unless_cut<T>(&self, work: impl Future<Output = T>) -> Result<T, Cut> {
        let out_of_time = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                // Starting it has a limit of its own.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            done = work => Ok(done),
            () = self.permit.preempted() => Err(Cut::Preempted),
            () = out_of_time => Err(Cut::OutOfTime),
        }
    }

    /// Writes down that the app was stopped at this event.
    fn note_cut(&mut self, pooled: &PooledInstance, event: &Stored, cut: &Cut) -> Stop {
        match cut {
            Cut::Preempted => {
                self.note(pooled, event, Err(preempted()));
                Stop::Preempted
            }
            // The time was that of others before it, too: next time it is the first, and has all of it.
            Cut::OutOfTime if self.cursor != self.job.cursor() => Stop::Done,
            Cut::OutOfTime => {
                let failure = pooled.instance.out_of_time();
                let stop = stop_after(&failure, Stop::Done);
                self.note(pooled, event, Err(failure));
                stop
            }
        }
    }

    /// None: all of them were handed over.
    async fn hand_over(&mut self, events: &[Stored]) -> Option<Stop> {
        let mut left = events;
        while !left.is_empty() {
            self.permit.begin_start();
            let mut pooled = match self.start().await {
                Ok(pooled) => pooled,
                Err(stop) => return Some(stop),
            };
            self.permit.begin_batch();
            // What the app's process says of it, not what is written about it: its owner can write that.
            let takes_batches = pooled.instance.capabilities().has("exportEvents");
            let handed = if takes_batches {
                self.hand_over_together(&mut pooled, left).await
            } else {
                self.hand_over_one_by_one(&mut pooled, left).await
            };
            self.give_back(pooled, handed.is_ok()).await;
            match handed {
                Ok((_, None)) if self.permit.is_preempted() => return Some(Stop::Done),
                Ok((count, None)) => left = &left[count..],
                Ok((_, stop)) => return stop,
                Err(stop) => return Some(stop),
            }
        }
        None
    }

    /// One that was cut short is dropped, and its process with it.
    async fn give_back(&self, pooled: PooledInstance, is_whole: bool) {
        self.permit.end_call();
        let outlet = pooled.outlet.clone();
        if is_whole {
            self.apps.instances.put_back(self.job.runnable.config.id, pooled);
        } else {
            drop(pooled);
        }
        // The process is free by now: writing it down can take long.
        self.permit.timed(outlet.flush()).await;
    }

    /// Until the app is gone, or an event has to wait. Tells how many are done.
    async fn hand_over_one_by_one(&mut self, pooled: &mut PooledInstance, events: &[Stored]) -> Result<Handed, Stop> {
        let methods = called(&pooled.instance);
        let mut done = 0;
        while done < events.len() {
            // Starting the app counts together with the first one.
            if done > 0 {
                self.permit.begin_call();
            }
            let left = &events[done..];
            let group = self.group.of(left);
            let (count, stop) = match methods.as_slice() {
                ["onEvent"] if group.len() > 1 => self.hand_over_group(pooled, group).await?,
                _ => self.hand_over_one(pooled, &methods, &left[0]).await?,
            };
            done += count;
            if stop.is_some() {
                return Ok((done, stop));
            }
            if self.is_over() {
                return Ok((done, Some(Stop::Done)));
            }
            if !pooled.instance.is_open() {
                break;
            }
        }
        Ok((done, None))
    }

    async fn hand_over_one(
        &mut self,
        pooled: &mut PooledInstance,
        methods: &[&str],
        event: &Stored,
    ) -> Result<Handed, Stop> {
        let begun = Instant::now();
        let called = self.unless_cut(self.call(pooled, methods, event)).await;
        let outcome = called.map_err(|cut| self.note_cut(pooled, event, &cut))?;
        self.permit.end_call();
        self.group.note(1, outcome.is_ok(), begun.elapsed());
        let stop = self.note(pooled, event, outcome);
        Ok((usize::from(stop.is_none()), stop))
    }

    async fn start(&mut self) -> Result<PooledInstance, Stop> {
        let core = &self.apps.core;
        let taken = self
            .unless_cut(self.apps.instances.take(core, &self.job.runnable, self.permit.rank()))
            .await;
        let mut pooled = match taken {
            Ok(Ok(pooled)) => pooled,
            // That is not the app's fault: it waits.
            Ok(Err((Failure::Busy, _))) => {
                // It is found again, but not immediately.
                self.has_more = false;
                return Err(Stop::Done);
            }
            Ok(Err((failure @ Failure::Evicted, outlet))) => {
                self.note_no_start(&failure, Some(&outlet)).await;
                return Err(Stop::Preempted);
            }
            Ok(Err((failure, outlet))) => {
                self.note_no_start(&failure, Some(&outlet)).await;
                return Err(Stop::Start);
            }
            Err(_) => {
                self.note_no_start(&preempted(), None).await;
                return Err(Stop::Preempted);
            }
        };
        let longest = core.longest();
        self.deadline.get_or_insert_with(|| Instant::now() + longest);
        let (failure, otherwise) = match self.unless_cut(pooled.instance.setup()).await {
            Ok(Ok(())) => return Ok(pooled),
            Ok(Err(failure)) => (failure, Stop::Start),
            Err(Cut::Preempted) => (preempted(), Stop::Preempted),
            Err(Cut::OutOfTime) => (pooled.instance.out_of_time(), Stop::Start),
        };
        let stop = stop_after(&failure, otherwise);
        self.note_no_start(&failure, Some(&pooled.outlet)).await;
        Err(stop)
    }

    async fn note_no_start(&mut self, failure: &Failure, outlet: Option<&Outlet>) {
        let error = format!("Failed to start the app: {failure}");
        if let Some(outlet) = outlet {
            outlet.say(AppLogLevel::Error, error.clone());
            self.permit.timed(outlet.flush()).await;
        }
        self.error = Some(error);
    }

    async fn call(&self, pooled: &mut PooledInstance, methods: &[&str], event: &Stored) -> Result<(), Failure> {
        let given = [EventPayload::new(event, self.team())];
        for method in methods {
            let answer = pooled.instance.call_with(method, &given).await?;
            if *method == "composeWebhook" && !answer.is_null() {
                webhook::send(&pooled.outlet, &answer).await?;
            }
        }
        Ok(())
    }

    /// Writes down how it went with an event. If it is to be tried again, and nothing after it before that, why the batch ends.
    fn note(&mut self, pooled: &PooledInstance, event: &Stored, outcome: Result<(), Failure>) -> Option<Stop> {
        let beyond = self.beyond(event);
        match outcome {
            Ok(()) => {
                (self.failures, self.error) = (0, None);
                self.handed.delivered += 1;
            }
            Err(failure) => {
                let error = format!("{} ({}): {failure}", event.event, event.uuid);
                pooled.outlet.say(AppLogLevel::Error, with_stack(&error, &failure));
                self.error = Some(error);
                if failure.is_retry() {
                    self.handed.retried += 1;
                    if failure == Failure::Evicted {
                        return Some(Stop::Preempted);
                    }
                    self.beyond = Some(beyond);
                    return Some(Stop::Retry);
                }
                self.failures += i64::from(event.bytes() <= COUNTED_BYTES);
                self.handed.failed += 1;
            }
        }
        self.cursor = beyond;
        self.cursor_tx.send_replace(beyond);
        None
    }

    /// How far it has got when this event is done.
    fn beyond(&self, event: &Stored) -> Cursor {
        let is_same_moment = event.ingested_at == self.cursor.until;
        Cursor {
            until: event.ingested_at,
            count: if is_same_moment { self.cursor.count + 1 } else { 1 },
        }
    }
}

/// What an app is called for with each event.
fn called(instance: &Instance) -> Vec<&'static str> {
    let has = |name: &&str| instance.capabilities().has(name);
    ["onEvent", "composeWebhook"].into_iter().filter(has).collect()
}
