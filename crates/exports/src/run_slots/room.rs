//! Room for slow runs, which hold memory while they wait: how many there may be, and which of them is ended for another.

use std::cmp::Reverse;
use std::time::Duration;

use service::OrganizationId;
use tokio::time::Instant;

use super::state::{Line, Rank, Run, State};

/// How many slow runs may be in progress for each slot, and how many in all: each holds a part of its rows.
const SLOW_PER_SLOT: usize = 3;
const MAX_SLOW: usize = 32;
/// An organization with two runs more than another gives one up that has waited for so long.
const LONG_WAIT: Duration = Duration::from_secs(30);

impl State {
    /// Its time in the slot is over: from now on it is a slow one.
    pub(super) fn is_late(&mut self, number: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let was_slow = std::mem::replace(&mut run.is_slow, true);
        let (organization, line) = (run.organization, run.line(now));
        self.note(organization, line, now);
        if !was_slow && self.slow().count() > self.most_slow() {
            let other = self.to_end(organization, line, now);
            self.end(other.unwrap_or(number));
        }
    }

    /// For those that wait in the database and find no room.
    pub(super) fn make_room(&self, waiting: &[(Rank, OrganizationId)], now: Instant) {
        let ending = self.runs.values().filter(|run| run.end.is_cancelled()).count();
        let needs_room = |(rank, id): &&(Rank, OrganizationId)| {
            rank.line >= Line::Slow && !self.has_room(rank.line, now) && self.slow_of(*id) == 0
        };
        let next = waiting.iter().filter(needs_room).min();
        if let Some((rank, organization)) = next
            && ending < self.slots
            && let Some(other) = self.to_end(*organization, rank.line, now)
        {
            self.end(other);
        }
    }

    pub(super) fn has_room(&self, line: Line, now: Instant) -> bool {
        let most = self.most_slow();
        self.slow().count() < most && (line != Line::Long || self.long(now) < most / 2)
    }

    pub(super) fn most_slow(&self) -> usize {
        self.slots
            .saturating_mul(SLOW_PER_SLOT)
            .clamp(4, MAX_SLOW.max(self.slots))
    }

    fn long(&self, now: Instant) -> usize {
        self.slow().filter(|(_, run)| run.line(now) == Line::Long).count()
    }

    /// Who makes room for a run of this organization: of those that have had their time, or whose organization has far more,
    /// one of the organization with the most, and of these the one that has waited longest.
    fn to_end(&self, organization: OrganizationId, line: Line, now: Instant) -> Option<u64> {
        let own = self.slow_of(organization);
        let has_many_long = line < Line::Long && self.long(now) > self.most_slow() / 2;
        let may_end = |run: &Run| {
            let waited = run.waits.map_or(Duration::ZERO, |since| now - since);
            let has_more = self.slow_of(run.organization) >= own + 2;
            let is_short = has_many_long && run.line(now) == Line::Long;
            let stay = if is_short { run.stay / 5 } else { run.stay };
            now - run.began >= stay || (has_more && waited >= LONG_WAIT)
        };
        let others = self.slow().filter(|(_, run)| run.organization != organization);
        let ending = others.filter(|(_, run)| may_end(run));
        let key = |(_, run): &(u64, &Run)| {
            let since = run.waits.unwrap_or(now);
            (self.slow_of(run.organization), Reverse(since), Reverse(run.began))
        };
        ending.max_by_key(key).map(|(number, _)| number)
    }

    fn end(&self, number: u64) {
        if let Some(run) = self.runs.get(&number) {
            run.end.cancel();
        }
    }
}
