//! Looks for something to do: a task that is due, or a configuration for which events have come in.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use service::pipeline::{DueAfter, DueApp};
use service::{Result, Tenant};

use super::ready::ReadyQueue;
use super::slot_kind::SlotKind;
use super::slots::SlotPool;
use crate::apps::Apps;
use crate::errors::log_unreadable;
use crate::last_found::LastFound;
use crate::scheduler::{Permit, Work};

/// After looking for events for so long it is decided again who goes first: to look is part of what somebody takes.
const SEARCH_TIME: Duration = Duration::from_millis(20);

pub(super) enum Search {
    Found(Found),
    Nothing,
    /// There is more to look at. Others who wait look first.
    Unfinished,
}

/// Something to do for an organization, and the permit for it.
pub(super) struct Found {
    pub(super) item: WorkItem,
    pub(super) tenant: Tenant,
    pub(super) permit: Permit,
}

pub(super) enum WorkItem {
    Task,
    Events(DueApp),
}

impl Apps {
    /// What is done next, by the shares of those who wait. One slot looks at a time. An organization's tasks and events alternate.
    pub(super) async fn find(&self, kind: SlotKind, pool: &SlotPool) -> Result<Search> {
        let mut ready = pool.ready.lock().await;
        ready.without_events.begin();
        let mut has_read = false;
        loop {
            // Also while it looks for long: somebody else may have something to do since.
            if ready.is_old(Instant::now()) {
                if has_read {
                    return Ok(Search::Unfinished);
                }
                self.read_waiting(&mut ready).await?;
                has_read = true;
            }
            pool.updates().drain(..).for_each(|update| ready.update(update));
            let order = pool
                .scheduler
                .in_order(ready.iter(kind, &self.last_found()), Instant::now());
            let (is_empty, since) = (order.is_empty(), Instant::now());
            for (tenant, work) in order {
                let found = match work {
                    Work::Task => {
                        ready.take_task(tenant.organization);
                        Some(WorkItem::Task)
                    }
                    Work::Events => self.events_of(tenant, &mut ready, pool, since).await?,
                };
                if let Some(item) = found
                    && let Some(permit) = pool.scheduler.begin(tenant, work, Instant::now())
                {
                    self.last_found().note(tenant, work);
                    return Ok(Search::Found(Found { item, tenant, permit }));
                }
                if since.elapsed() >= SEARCH_TIME {
                    break;
                }
            }
            if is_empty || since.elapsed() < SEARCH_TIME || ready.without_events.has_failed_for_long() {
                return Ok(Search::Nothing);
            }
        }
    }

    fn last_found(&self) -> MutexGuard<'_, LastFound> {
        self.core.last_found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that waits, but for what had no events a moment ago, and what is beyond a person's part.
    async fn read_waiting(&self, ready: &mut ReadyQueue) -> Result<()> {
        let service = &self.core.service;
        ready.begin(Instant::now());
        for organization in service.organizations_with_due_tasks().await? {
            ready.add_tasks(service.tenant(organization).await?);
        }
        let mut after = DueAfter::START;
        loop {
            let due = service.due_apps(&after, ready.parts.page()).await?;
            if due.is_empty() {
                break;
            }
            for app in due {
                let tenant = service.tenant(app.organization).await?;
                after = DueAfter::this(&app);
                if let Some(beyond) = ready.parts.skip(tenant.person(), after) {
                    after = beyond;
                    break;
                }
                if ready.pauses.is_over(app.config, Instant::now()) {
                    ready.add_app(tenant, app);
                }
            }
        }
        ready.end(Instant::now());
        Ok(())
    }

    /// The configuration that has waited longest of those that have events. To look for them is part of what the organization takes.
    async fn events_of(
        &self,
        tenant: Tenant,
        ready: &mut ReadyQueue,
        pool: &SlotPool,
        since: Instant,
    ) -> Result<Option<WorkItem>> {
        while let Some(app) = ready.take_app(tenant.organization) {
            let begun = Instant::now();
            let has_events =
                !ready.without_events.has(app.team, &app.cursor) && self.look_for_events(&app, ready, pool).await;
            let now = Instant::now();
            pool.scheduler
                .note_search(tenant, now.saturating_duration_since(begun), now);
            if has_events {
                ready.pauses.end(app.config);
                return Ok(Some(WorkItem::Events(app)));
            }
            ready.pauses.lengthen(app.config, now);
            if since.elapsed() >= SEARCH_TIME {
                break;
            }
        }
        Ok(None)
    }

    /// Whether it has any, as far as that can be read. Where it cannot, the other teams are looked at all the same.
    async fn look_for_events(&self, app: &DueApp, ready: &mut ReadyQueue, pool: &SlotPool) -> bool {
        let begun = Instant::now();
        match self.has_events(app.team, &app.cursor).await {
            Ok(true) => return true,
            Ok(false) => ready.without_events.note(app.team, &app.cursor),
            Err(error) => {
                ready.without_events.note_failure(app.team, begun.elapsed());
                if pool.failures().is_to_log(app.team, Instant::now()) {
                    log_unreadable(app.team, &error);
                }
            }
        }
        false
    }
}
