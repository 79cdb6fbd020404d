//! What waits for a slot, as far as this process knows: configurations whose time has come, and organizations with tasks that are due.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::time::{Duration, Instant};

use service::pipeline::DueApp;
use service::{OrganizationId, Tenant};

use super::idle::{Pauses, TeamsWithoutEvents};
use super::parts::Parts;
use super::slot_kind::SlotKind;
use crate::last_found::LastFound;
use crate::scheduler::Work;

/// The list is read again after this, or after `TIMES_WHAT_IT_TOOK` times as long as reading it took, but at the latest after `LATEST`. What has
/// more to do is added to it in the meantime.
const READ_EVERY: Duration = Duration::from_millis(100);
const TIMES_WHAT_IT_TOOK: u32 = 10;
const LATEST: Duration = Duration::from_secs(10);

/// What waits.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    organizations: BTreeMap<OrganizationId, Waiting>,
    begun_at: Option<Instant>,
    read_again_at: Option<Instant>,
    pub(super) pauses: Pauses,
    pub(super) parts: Parts,
    /// What was found out about teams since the list was read.
    pub(super) without_events: TeamsWithoutEvents,
}

/// What became known since.
#[derive(Debug)]
pub(super) enum Update {
    /// There may be more tasks.
    Tasks(Tenant),
    /// There may be more events.
    App(Tenant, DueApp),
}

#[derive(Debug)]
struct Waiting {
    tenant: Tenant,
    has_tasks: bool,
    apps: VecDeque<DueApp>,
}

impl ReadyQueue {
    pub(super) fn is_old(&self, now: Instant) -> bool {
        self.read_again_at.is_none_or(|at| at <= now)
    }

    /// Everything from before is gone. What is added from now on is what waits.
    pub(super) fn begin(&mut self, now: Instant) {
        self.organizations.clear();
        self.without_events.forget_all();
        self.pauses.tidy(now);
        self.parts.begin();
        // If it fails, it is tried again soon.
        (self.begun_at, self.read_again_at) = (Some(now), Some(now + READ_EVERY));
    }

    /// All was added.
    pub(super) fn end(&mut self, now: Instant) {
        let took = self
            .begun_at
            .map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        let pause = took.saturating_mul(TIMES_WHAT_IT_TOOK).clamp(READ_EVERY, LATEST);
        self.read_again_at = Some(now + pause);
    }

    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Tasks(tenant) => self.add_tasks(tenant),
            Update::App(tenant, app) => {
                // Whoever looked before they came has found nothing.
                self.without_events.forget(app.team);
                self.add_app(tenant, app);
            }
        }
    }

    pub(super) fn add_tasks(&mut self, tenant: Tenant) {
        self.waiting(tenant).has_tasks = true;
    }

    pub(super) fn add_app(&mut self, tenant: Tenant, app: DueApp) {
        let apps = &mut self.waiting(tenant).apps;
        if apps.iter().all(|one| one.config != app.config) {
            apps.push_back(app);
        }
    }

    fn waiting(&mut self, tenant: Tenant) -> &mut Waiting {
        let waiting = || Waiting {
            tenant,
            has_tasks: false,
            apps: VecDeque::new(),
        };
        self.organizations.entry(tenant.organization).or_insert_with(waiting)
    }

    /// Who waits for what, of what this kind of slot does: first those behind the organization that was found last. Tasks and events of each
    /// alternate.
    pub(super) fn iter(&self, kind: SlotKind, last: &LastFound) -> impl Iterator<Item = (Tenant, Work)> {
        let behind = self.organizations.range((Excluded(last.organization), Unbounded));
        let others = self.organizations.range((Unbounded, Included(last.organization)));
        behind.chain(others).flat_map(move |(organization, waiting)| {
            let has = move |work: &Work| match work {
                Work::Task => waiting.has_tasks && kind == SlotKind::Any,
                Work::Events => !waiting.apps.is_empty(),
            };
            let works = last.next_of(*organization).into_iter().filter(has);
            works.map(|work| (waiting.tenant, work))
        })
    }

    /// The configuration of the organization that has waited longest. It no longer waits.
    pub(super) fn take_app(&mut self, organization: OrganizationId) -> Option<DueApp> {
        let app = self.organizations.get_mut(&organization)?.apps.pop_front();
        self.forget_if_done(organization);
        app
    }

    /// One of the organization's tasks. Whether there are more is found out afterwards.
    pub(super) fn take_task(&mut self, organization: OrganizationId) {
        if let Some(waiting) = self.organizations.get_mut(&organization) {
            waiting.has_tasks = false;
        }
        self.forget_if_done(organization);
    }

    fn forget_if_done(&mut self, organization: OrganizationId) {
        let is_done = |waiting: &Waiting| !waiting.has_tasks && waiting.apps.is_empty();
        if self.organizations.get(&organization).is_some_and(is_done) {
            self.organizations.remove(&organization);
        }
    }
}

#[cfg(test)]
mod tests {
    use service::pipeline::Cursor;
    use service::{AppConfigId, TeamId, Time};
    use uuid::Uuid;

    use super::*;

    fn tenant(number: u128) -> Tenant {
        Tenant {
            organization: OrganizationId(Uuid::from_u128(number)),
            creator: None,
        }
    }

    fn app(organization: u128, id: i64) -> DueApp {
        DueApp {
            config: AppConfigId(id),
            organization: tenant(organization).organization,
            team: TeamId(1),
            due_at: Time::UNIX_EPOCH,
            cursor: Cursor {
                until: Time::UNIX_EPOCH,
                count: 0,
            },
        }
    }

    fn listed(ready: &ReadyQueue, kind: SlotKind, last: &LastFound) -> Vec<(u128, Work)> {
        let all = ready.iter(kind, last);
        all.map(|(tenant, work)| (tenant.organization.0.as_u128(), work))
            .collect()
    }

    #[test]
    fn each_kind_of_slot_finds_what_it_does() {
        let mut ready = ReadyQueue::default();
        ready.add_tasks(tenant(1));
        ready.add_app(tenant(1), app(1, 10));
        ready.add_app(tenant(2), app(2, 20));
        ready.add_app(tenant(2), app(2, 20));
        let (task, events) = (Work::Task, Work::Events);
        let mut last = LastFound::beginning_at(tenant(0).organization);
        assert_eq!(listed(&ready, SlotKind::Events, &last), [(1, events), (2, events)]);
        assert_eq!(
            listed(&ready, SlotKind::Any, &last),
            [(1, task), (1, events), (2, events)]
        );
        // Each alternates, whatever the other one had.
        last.note(tenant(1), task);
        last.note(tenant(2), events);
        assert_eq!(
            listed(&ready, SlotKind::Any, &last),
            [(1, events), (1, task), (2, events)]
        );
        last.note(tenant(1), events);
        assert_eq!(
            listed(&ready, SlotKind::Any, &last),
            [(2, events), (1, task), (1, events)]
        );
        let taken = ready.take_app(tenant(1).organization);
        assert_eq!(taken.map(|app| app.config), Some(AppConfigId(10)));
        ready.take_task(tenant(1).organization);
        assert_eq!(listed(&ready, SlotKind::Any, &last), [(2, events)]);
        assert!(ready.take_app(tenant(2).organization).is_some());
        assert!(ready.take_app(tenant(2).organization).is_none(), "it waited once");
    }

    #[test]
    fn whoever_was_found_is_named_after_the_others() {
        let mut ready = ReadyQueue::default();
        for number in 1..=3 {
            ready.add_tasks(tenant(number));
        }
        let mut last = LastFound::beginning_at(tenant(0).organization);
        for number in [1, 2, 3, 1] {
            let first = ready.iter(SlotKind::Any, &last).next();
            let (found, work) = first.expect("there are some");
            last.note(found, work);
            assert_eq!(found, tenant(number));
        }
    }

    #[test]
    fn it_is_not_read_all_the_time() {
        let (mut ready, start) = (ReadyQueue::default(), Instant::now());
        assert!(ready.is_old(start));
        ready.begin(start);
        let read = start + Duration::from_millis(50);
        ready.end(read);
        assert!(
            !ready.is_old(read + Duration::from_millis(499)),
            "ten times what it took"
        );
        assert!(ready.is_old(read + Duration::from_millis(500)));
        ready.begin(start);
        ready.end(start + LATEST);
        assert!(ready.is_old(start + 2 * LATEST));
    }
}
