//! What persons share with all of their organizations: they have one of the permits that are kept for slow ones at a time, and the more they have
//! in progress, the higher is its rank.

use std::time::Instant;

use service::Tenant;

use super::room::Room;
use super::speed_class::{Look, Pass, SpeedClass, Work};
use super::state::State;

const LEAST_KEPT: usize = 4;

impl State {
    /// The permits that are kept for slow organizations are for those that are looked for in that pass alone.
    pub(super) fn room_in(&self, look: Look, tenant: Tenant, work: Work, now: Instant) -> Option<Room> {
        if look.pass != Pass::OverdueSlow {
            return self.room(tenant, work, now);
        }
        let mut kept = self.running.values().filter(|one| one.is_kept());
        let has_one = kept.any(|one| one.tenant.person() == tenant.person());
        let standing = self.standing(tenant.organization, now);
        let is_free = !has_one && self.has_kept_room_for(standing) && self.is_turn_of(tenant, look, standing);
        is_free.then_some(Room::Free)
    }

    /// Half of what is kept is not for the slowest, and one is for the least slow alone: a round of long calls would be long. Each class has two
    /// at least, so that no person has all of them.
    pub(super) fn has_kept_room_for(&self, standing: SpeedClass) -> bool {
        let most = (self.most / 7).max(LEAST_KEPT);
        let of_class = |class: SpeedClass| {
            self.running
                .values()
                .filter(|one| one.is_kept() && one.standing >= class)
                .count()
        };
        of_class(SpeedClass::Quick) < most
            && (standing < SpeedClass::Slower || of_class(SpeedClass::Slower) < most - 1)
            && (standing < SpeedClass::Slowest || of_class(SpeedClass::Slowest) < most / 2)
    }

    /// Whether slow ones who wait are to be looked for now.
    pub(super) fn begin_slow_look(&mut self, takes_tasks: bool, now: Instant) -> bool {
        self.is_slow_look_useful(now) && self.looks(takes_tasks).begin_slow(now)
    }

    /// When slow ones are to be looked for; none while that is of no use.
    pub(super) fn slow_look_at(&mut self, takes_tasks: bool, now: Instant) -> Option<Instant> {
        self.is_slow_look_useful(now)
            .then(|| self.looks(takes_tasks).slow_at().unwrap_or(now))
    }

    /// While there is little room, whoever is quick goes before them, however many those are.
    fn is_slow_look_useful(&self, now: Instant) -> bool {
        let are_left_out = !self.has_much_room() || !self.has_room_for_slowest(now);
        are_left_out && self.has_kept_room_for(SpeedClass::Slow)
    }

    /// How much of the same person is in progress, in all of their organizations.
    pub(super) fn rank(&self, tenant: Tenant) -> u32 {
        self.loads.in_progress(tenant.person())
    }
}
