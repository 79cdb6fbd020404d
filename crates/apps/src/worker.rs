//! Runs apps until told to stop: what is due, what was asked for, what has come in.

mod idle;
mod parts;
mod ready;
mod search;
mod slot_kind;
mod slots;
mod tasks;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boxed::boxed;
use service::pipeline::DueApp;
use service::{Result, caller};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::idle::POLL;
use self::ready::Update;
use self::search::{Found, Search, WorkItem};
use self::slot_kind::SlotKind;
use self::slots::SlotPool;
use crate::apps::Apps;
use crate::delivery::Delivered;
use crate::errors::log;

/// How long a slot waits for a single call of an app before that goes on without it.
const SLOT_WAIT: Duration = Duration::from_millis(100);
const TIDY_EVERY: Duration = Duration::from_secs(15);
/// Configurations whose caches are looked at together: whether they are still run.
const MAX_LOOKED_AT: usize = 200;

/// Something that is being done. Dropped, it is given up.
struct InProgress(JoinHandle<Result<bool>>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl InProgress {
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
    #[boxed]
    pub async fn work(&self, stop: CancellationToken) {
        let pool = Arc::new(SlotPool::new(self.core.slots));
        let mut tasks = JoinSet::new();
        tasks.spawn(self.clone().run_maintenance(stop.clone()));
        if self.until_confined(&stop).await {
            for slot in 0..self.core.slots {
                let kind = SlotKind::of(slot, self.core.slots);
                tasks.spawn(self.clone().work_in_a_slot(kind, pool.clone(), stop.clone()));
            }
        }
        while tasks.join_next().await.is_some() {}
        let mut detached = std::mem::take(&mut *pool.detached());
        while detached.join_next().await.is_some() {}
        self.instances.close().await;
    }

    async fn work_in_a_slot(self, kind: SlotKind, pool: Arc<SlotPool>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = pool.scheduler.until_room() => {}
            }
            let mut changed = pin!(pool.scheduler.has_changed().notified());
            changed.as_mut().enable();
            let found = tokio::select! {
                // It can look for long.
                () = stop.cancelled() => return,
                found = self.find(kind, &pool) => found,
            };
            match found {
                Ok(Search::Found(found)) => {
                    self.do_in_a_slot(found, &pool, &stop).await;
                    continue;
                }
                Ok(Search::Unfinished) => continue,
                Ok(Search::Nothing) => {}
                Err(error) => log(&error),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = changed => {}
                () = sleep_until(pool.scheduler.next_slow_at(Instant::now()).into()) => {}
            }
        }
    }

    /// Waits for the app; a slow one continues outside the slot.
    async fn do_in_a_slot(&self, found: Found, pool: &Arc<SlotPool>, stop: &CancellationToken) {
        let progress = found.permit.progress();
        let (apps, stop, slots) = (self.clone(), stop.clone(), pool.clone());
        let mut in_progress = InProgress(tokio::spawn(async move {
            let done = apps.run_found(&found, &slots, &stop).await;
            if done.is_err() {
                // It would fail again immediately. The organization waits for that, and the slot goes on.
                found.permit.timed(sleep(POLL)).await;
            }
            done
        }));
        while !progress.lasts(SLOT_WAIT / 2) {
            if timeout(SLOT_WAIT, in_progress.end()).await.is_ok() {
                return;
            }
        }
        progress.leave_slot();
        let mut detached = pool.detached();
        while detached.try_join_next().is_some() {}
        detached.spawn(async move {
            in_progress.end().await;
        });
    }

    async fn run_maintenance(self, stop: CancellationToken) {
        let mut tick = interval(TIDY_EVERY);
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = tick.tick() => {
                    self.instances.tidy().await;
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

    /// Drops what apps keep that are no longer run.
    async fn tidy_caches(&self) -> Result<()> {
        let (caches, now) = (&self.core.caches, Instant::now());
        caches.tidy(now);
        let silent = caches.silent(now, MAX_LOOKED_AT);
        let enabled = self.core.service.app_configs_in_use(&silent).await?;
        for id in silent.iter().filter(|id| !enabled.contains(id)) {
            caches.forget(*id);
        }
        Ok(())
    }

    /// Does one thing that is due, if there is one. Tests call this, and never wait.
    #[boxed]
    pub async fn step(&self) -> Result<bool> {
        let pool = SlotPool::new(self.core.slots);
        loop {
            match self.find(SlotKind::Any, &pool).await? {
                Search::Found(found) => return self.run_found(&found, &pool, &CancellationToken::new()).await,
                Search::Nothing => return Ok(false),
                Search::Unfinished => {}
            }
        }
    }

    /// In the organization's turn at the database: if that takes long, others have theirs.
    async fn run_found(&self, found: &Found, pool: &SlotPool, stop: &CancellationToken) -> Result<bool> {
        let Found { item, tenant, permit } = found;
        let work = async {
            match item {
                WorkItem::Task => {
                    let is_done = Box::pin(self.do_task(tenant.organization, permit)).await?;
                    if is_done {
                        pool.updates().push(Update::Tasks(*tenant));
                    }
                    Ok(is_done)
                }
                WorkItem::Events(app) => {
                    let delivered = Box::pin(self.deliver(app.config, permit, stop)).await?;
                    if let Delivered::Some(cursor) = delivered {
                        let app = DueApp { cursor, ..app.clone() };
                        pool.updates().push(Update::App(*tenant, app));
                    }
                    Ok(delivered != Delivered::ByOthers)
                }
            }
        };
        caller::on_behalf_of_organization(tenant.organization, work).await
    }
}
