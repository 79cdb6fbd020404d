//! Who may begin, of the organizations that wait.
//!
//! Anybody creates many organizations, so shares are those of persons: all organizations that somebody created share one. Whoever has the
//! smallest share goes first, and of their organizations the one that has least.
//!
//! Two things are scarce: slots, in which calls begin, and permits, each of which is a process. A call that takes long leaves its slot, and keeps
//! its permit. So somebody's share is that of the slots or that of the permits, whichever is larger, now and on average over the last seconds: those
//! whose calls are quick, and those whose calls are slow, both get as much as they can use until somebody else has less (dominant resource
//! fairness).
//!
//! Slow calls have half of the permits, so that the others are soon there for somebody else, however many are slow. Whoever was slow the last time
//! waits for one of that half. When those are taken, the person who has most slow calls loses the one that began last, for somebody who
//! has less, or who is not slow. So while there are fewer persons with slow calls than places for these, each of them has one at once: if all are
//! taken, somebody has two. A few permits are for those who have nothing in progress. While others wait, turns are so short that each person has one
//! in a round.

mod loads;
mod permit;
mod room;
#[cfg(test)]
mod simulation;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use service::Tenant;
use tokio::sync::Notify;
use tokio::time::sleep_until;

pub(crate) use self::permit::Permit;
use self::room::Room;
pub(crate) use self::state::Work;
use self::state::{Shared, State};

/// Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler(Arc<Shared>);

impl Scheduler {
    pub(crate) fn new(slots: usize) -> Self {
        Self(Arc::new(Shared::new(slots)))
    }

    /// Those who may begin now, of those who wait, and whoever goes first first. Equals stay in the order in which they are named.
    pub(crate) fn in_order(&self, waiting: impl Iterator<Item = (Tenant, Work)>, now: Instant) -> Vec<(Tenant, Work)> {
        self.0.state().in_order(waiting, now)
    }

    /// A permit for something that may begin. If there is no other, it is taken from what is slow.
    pub(crate) fn begin(&self, tenant: Tenant, work: Work, now: Instant) -> Option<Permit> {
        let mut state = self.0.state();
        if let Room::InsteadOf(number) = state.room(tenant, work, now)? {
            state.preempt(number, now);
        }
        let rank = state.permits.in_progress(tenant.person());
        let (number, preempted) = state.start(tenant, work, now);
        Some(Permit::new(self.0.clone(), number, preempted, rank))
    }

    /// It took so long to find out whether there is anything for it, with all slots that wait for that.
    pub(crate) fn note_search(&self, tenant: Tenant, took: Duration, now: Instant) {
        self.0.state().note_search(tenant, took, now);
    }

    /// When the next call becomes slow, or a second from now.
    pub(crate) fn next_slow_at(&self, now: Instant) -> Instant {
        self.0.state().next_slow_at(now)
    }

    /// Waits until somebody who has nothing in progress may begin.
    pub(crate) async fn until_room(&self) {
        loop {
            let has_changed = self.0.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            let now = Instant::now();
            let next_slow = {
                let state = self.0.state();
                if state.has_any_room(now) {
                    return;
                }
                state.next_slow_at(now)
            };
            tokio::select! {
                () = has_changed => {}
                () = sleep_until(next_slow.into()) => {}
            }
        }
    }

    /// Tells when something is over.
    pub(crate) fn has_changed(&self) -> &Notify {
        &self.0.has_changed
    }
}

impl State {
    fn in_order(&self, waiting: impl Iterator<Item = (Tenant, Work)>, now: Instant) -> Vec<(Tenant, Work)> {
        let slow = self.slow_calls(now);
        let has_room = |(tenant, work): &(Tenant, Work)| self.room_beside(&slow, *tenant, *work, now).is_some();
        let with_shares = waiting.filter(has_room).map(|(tenant, work)| {
            let shares = [
                self.share(tenant.person(), now),
                self.organizations.load(tenant.organization, now),
            ];
            (shares, (tenant, work))
        });
        let mut all: Vec<_> = with_shares.collect();
        all.sort_by(|(one, _), (other, _)| one[0].total_cmp(&other[0]).then_with(|| one[1].total_cmp(&other[1])));
        all.into_iter().map(|(_, found)| found).collect()
    }
}
