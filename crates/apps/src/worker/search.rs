//! Looks for something to do: a task that is due, or a configuration for which events have come in.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use service::pipeline::{DueAfter, DueApp};
use service::{AppConfigId, OrganizationId, Result};

use super::idle::{Pauses, Quiet};
use super::slots::{SlotKind, SlotPool};
use crate::apps::Apps;
use crate::errors::log_unreadable;
use crate::scheduler::{Look, Pass, Permit, Work};

/// Configurations that are looked at together.
const PAGE: i64 = 500;

/// Something to do for an organization, and the permit for it.
pub(super) struct Found {
    pub(super) what: What,
    pub(super) organization: OrganizationId,
    pub(super) permit: Permit,
}

pub(super) enum What {
    Task,
    Events(AppConfigId),
}

impl Apps {
    /// Organizations that were idle, or have waited long, come first; under contention, fast ones come before slow ones. Tasks and
    /// events alternate, so that neither starves the other.
    pub(super) async fn find(&self, duty: SlotKind, floor: &SlotPool) -> Result<Option<Found>> {
        let takes_tasks = duty == SlotKind::Any;
        let are_tasks_first = takes_tasks && self.core.are_tasks_next.fetch_xor(true, Ordering::Relaxed);
        let scheduler = &floor.scheduler;
        if let Some(pass) = scheduler.first_pass(takes_tasks, Instant::now())
            && let Some(found) = self.look(pass, (takes_tasks, are_tasks_first), floor).await?
        {
            return Ok(Some(found));
        }
        for &pass in scheduler.passes(takes_tasks, Instant::now()) {
            if let Some(found) = self.look(pass, (takes_tasks, are_tasks_first), floor).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn look(&self, pass: Pass, tasks: (bool, bool), floor: &SlotPool) -> Result<Option<Found>> {
        let mut took = Duration::ZERO;
        let (takes_tasks, are_tasks_first) = tasks;
        let look = Look { pass, takes_tasks };
        let found = self.find_in(look, are_tasks_first, floor, &mut took).await;
        // Also if it failed: it would again.
        let has_found = matches!(found, Ok(Some(_)));
        floor
            .scheduler
            .note_look(takes_tasks, pass, has_found, took, Instant::now());
        found
    }

    async fn find_in(
        &self,
        look: Look,
        are_tasks_first: bool,
        floor: &SlotPool,
        took: &mut Duration,
    ) -> Result<Option<Found>> {
        if are_tasks_first && let Some(found) = self.find_task(look, floor).await? {
            return Ok(Some(found));
        }
        if let Some(found) = self.find_events(look, floor, took).await? {
            return Ok(Some(found));
        }
        if look.takes_tasks && !are_tasks_first {
            return self.find_task(look, floor).await;
        }
        Ok(None)
    }

    async fn find_task(&self, look: Look, floor: &SlotPool) -> Result<Option<Found>> {
        let core = &self.core;
        let mut permit = None;
        let mut begin = |tenant| {
            permit = floor.scheduler.begin(look, tenant, Work::Task, Instant::now());
            permit.is_some()
        };
        let rotation = &core.tasks_of[look.pass.number()];
        let next = core.service.next_for_app_tasks(rotation, &mut begin).await?;
        Ok(next.zip(permit).map(|(organization, permit)| Found {
            what: What::Task,
            organization,
            permit,
        }))
    }

    /// A configuration for which something has come in. One slot looks at a time; the others wait for what it finds, and that is not
    /// part of what their looks take.
    async fn find_events(&self, look: Look, floor: &SlotPool, took: &mut Duration) -> Result<Option<Found>> {
        let mut pauses = floor.pauses.lock().await;
        let begun = Instant::now();
        let found = self.find_events_in_turn(look, floor, &mut pauses).await;
        *took = begun.elapsed();
        found
    }

    async fn find_events_in_turn(&self, look: Look, floor: &SlotPool, pauses: &mut Pauses) -> Result<Option<Found>> {
        pauses.tidy(Instant::now());
        let mut quiet = Quiet::default();
        let mut round = self.core.events_of[look.pass.number()].take().await;
        for start in round.starts() {
            let found = self
                .find_after(DueAfter::all_of(start), look, floor, (&mut *pauses, &mut quiet))
                .await?;
            if let Some(found) = found {
                round.served(found.organization);
                return Ok(Some(found));
            }
            if let Some(organization) = quiet.failed_for_long() {
                // The next look begins behind it.
                round.served(organization);
                return Ok(None);
            }
        }
        Ok(None)
    }

    async fn find_after(
        &self,
        mut after: DueAfter,
        look: Look,
        floor: &SlotPool,
        (pauses, quiet): (&mut Pauses, &mut Quiet),
    ) -> Result<Option<Found>> {
        loop {
            let due = self.core.service.due_apps(&after, PAGE).await?;
            let Some(last) = due.last() else { return Ok(None) };
            after = DueAfter::this(last);
            for one in due {
                if quiet.failed_for_long().is_some() {
                    return Ok(None);
                }
                if let Some(permit) = self.look_at(&one, look, floor, (pauses, quiet)).await? {
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
        look: Look,
        floor: &SlotPool,
        (pauses, quiet): (&mut Pauses, &mut Quiet),
    ) -> Result<Option<Permit>> {
        if !pauses.is_over(one.config, Instant::now()) {
            return Ok(None);
        }
        let tenant = self.core.service.tenant(one.organization).await?;
        let scheduler = &floor.scheduler;
        if !scheduler.may_begin(look, tenant, Work::Events, Instant::now()) {
            return Ok(None);
        }
        if quiet.has(one.team, &one.cursor) || !self.look_for_events(one, floor, quiet).await {
            pauses.lengthen(one.config, Instant::now());
            return Ok(None);
        }
        pauses.end(one.config);
        Ok(scheduler.begin(look, tenant, Work::Events, Instant::now()))
    }

    /// Whether it has any, as far as that can be read. Where it cannot, the other teams are looked at all the same.
    async fn look_for_events(&self, one: &DueApp, floor: &SlotPool, quiet: &mut Quiet) -> bool {
        let begun = Instant::now();
        match self.has_events(one.team, &one.cursor).await {
            Ok(true) => return true,
            Ok(false) => quiet.note(one.team, &one.cursor),
            Err(error) => {
                quiet.note_failure(one.organization, one.team, begun.elapsed());
                if floor.failures().is_to_log(one.team, Instant::now()) {
                    log_unreadable(one.team, &error);
                }
            }
        }
        false
    }
}
