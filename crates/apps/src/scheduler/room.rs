//! Whether something more may begin, and whether it takes the permit of something slow.

use std::time::Instant;

use service::{OrganizationId, Tenant};

use super::speed_class::{SLOWEST, SpeedClass, Work};
use super::state::{Running, State};

/// Whether something may begin.
pub(super) enum Room {
    Free,
    /// If this is preempted.
    InsteadOf(u64),
}

impl State {
    pub(super) fn room(&self, tenant: Tenant, work: Work, now: Instant) -> Option<Room> {
        let organization = tenant.organization;
        let half = self.most / 2;
        let all = self.shared().count();
        let count = |is_so: &dyn Fn(&Running) -> bool| self.shared().filter(|(_, one)| is_so(one)).count();
        let of_organization = self.shared().filter(|(_, one)| one.tenant.organization == organization);
        if of_organization.count() >= self.most_of_one {
            return None;
        }
        let standing = self.standing(organization, now);
        let is_task = work == Work::Task;
        if is_task && count(&|one| one.work == Work::Task) >= half {
            return if standing.is_slow() {
                self.preempt_slower(organization, standing, now, |one| one.work == Work::Task)
            } else {
                self.preemptible(now, half / 2, |one| one.work == Work::Task)
            };
        }
        let free = |most: usize| (all < most).then_some(Room::Free);
        match standing {
            SpeedClass::Quick => free(self.most).or_else(|| self.preempt_slow(now)),
            SpeedClass::New => {
                let new = count(&|one| one.standing == SpeedClass::New && !one.is_slow(now));
                // An idle organization does not wait for fast ones that are always busy.
                let is_idle = self.is_idle(organization, now);
                let kept = if is_idle { 0 } else { self.kept_for_quick() };
                let room = || free(self.most - kept).or_else(|| self.preempt_slow(now));
                (new < half).then(room).flatten()
            }
            SpeedClass::Slow | SpeedClass::Slower | SpeedClass::Slowest => {
                let slow = self.slow_count(now);
                let room = (slow < self.most_of_slow(standing)).then(|| free(self.most_with_slow()));
                room.flatten()
                    .or_else(|| self.preempt_slower(organization, standing, now, |_| true))
            }
        }
    }

    fn slow_count(&self, now: Instant) -> usize {
        let slow = |one: &Running| one.standing.is_slow() || one.is_slow(now);
        self.shared().filter(|(_, one)| slow(one)).count()
    }

    /// With this many in progress, nobody who is slow begins.
    fn most_with_slow(&self) -> usize {
        self.most - self.most / 4
    }

    /// Whether the slowest may begin beside the others.
    pub(super) fn has_room_for_slowest(&self, now: Instant) -> bool {
        self.slow_count(now) < self.most_of_slow(SpeedClass::Slowest) && self.shared().count() < self.most_with_slow()
    }

    /// Half of all permits; a few of these are for those who are less slow.
    fn most_of_slow(&self, standing: SpeedClass) -> usize {
        let kept = match standing {
            SpeedClass::Slowest => 2 * self.most / 14,
            SpeedClass::Slower => self.most / 14,
            _ => 0,
        };
        (self.most / 2).saturating_sub(kept).max(1)
    }

    /// What has lasted longest of organizations that are slower than this one. Equals do not end each other's: nobody would get done.
    fn preempt_slower(
        &self,
        organization: OrganizationId,
        standing: SpeedClass,
        now: Instant,
        is_meant: impl Fn(&Running) -> bool,
    ) -> Option<Room> {
        let is_slower = |one: &Running| one.tenant.organization != organization && one.lasts(now) >= SLOWEST;
        let slower = self.shared().filter(|(_, one)| is_meant(one) && is_slower(one));
        let oldest = slower.min_by_key(|(_, one)| one.calling_since);
        let oldest = oldest.filter(|_| standing < SpeedClass::Slowest);
        oldest.map(|(number, _)| Room::InsteadOf(*number))
    }

    /// How many permits only those get who are known to be quick.
    pub(super) fn kept_for_quick(&self) -> usize {
        (self.most / 8).max(1)
    }

    fn preempt_slow(&self, now: Instant) -> Option<Room> {
        self.preemptible(now, self.most / 3, |_| true)
    }

    /// The oldest of the slow ones, if there are more of them than may keep their permits.
    fn preemptible(&self, now: Instant, most: usize, is_meant: impl Fn(&Running) -> bool) -> Option<Room> {
        let is_slow = |one: &Running| is_meant(one) && one.is_slow(now);
        let slow = || self.shared().filter(|(_, one)| is_slow(one));
        if slow().count() <= most {
            return None;
        }
        let oldest = slow().min_by_key(|(_, one)| one.calling_since);
        oldest.map(|(number, _)| Room::InsteadOf(*number))
    }

    pub(super) fn has_much_room(&self) -> bool {
        self.shared().count() < self.most / 2
    }

    /// Whether somebody who is quick could begin.
    pub(super) fn has_any_room(&self, now: Instant) -> bool {
        self.shared().count() < self.most || self.preempt_slow(now).is_some()
    }
}
