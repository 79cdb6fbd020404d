//! Who may begin, of the organizations that wait.
//!
//! What is counted is what apps do at the moment: a call that lasts longer than [`SLOW_AFTER`](state::SLOW_AFTER) is slow,
//! whatever its organization did before. Slow calls keep a third of all permits; beyond that the oldest of them is
//! preempted as soon as somebody else needs its permit. So organizations that are slow cost the others a moment each,
//! however many they are. What an organization did lately only decides who comes first: those who are quick or new,
//! those who were slow, and of these the less slow ones. The slower they are, the fewer permits they get,
//! and whoever is less slow may end what has lasted long.
//!
//! Slow organizations have a few permits of their own beside all others, which nobody takes from them: those who had nothing for a while get them in
//! turn. So they are late while there is much to do, but never left out, whoever is quicker.
//!
//! Anybody creates many organizations. A person has one of those kept permits with all of theirs. The more they have in progress, the less of the
//! processors each of it gets. Whoever has at most half as much in progress as is typical, now and lately, goes first and has longer turns; of those who
//! have little, and of slow ones, each person has one turn in a round. So each person gets half of an equal share or so at least, however many organizations
//! the others have.
//!
//! Those who are quick can be many, too: the more organizations had something in progress in the last seconds, the shorter
//! are their turns, and those who wait for longer than a round go before all others every second time.

mod history;
mod loads;
mod permit;
mod persons;
mod recent;
mod room;
mod rounds;
mod search_timer;
mod speed_class;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use service::Tenant;
use tokio::time::sleep_until;

pub(crate) use self::permit::Permit;
use self::room::Room;
use self::speed_class::SpeedClass;
pub(crate) use self::speed_class::{Look, Pass, Work};
use self::state::Shared;

const MUCH_ROOM: &[Pass] = &[Pass::Overdue, Pass::Underserved, Pass::Anyone];
const LITTLE_ROOM: &[Pass] = &[
    Pass::Overdue,
    Pass::Underserved,
    Pass::NotSlow,
    Pass::Only(SpeedClass::Slow),
    Pass::Only(SpeedClass::Slower),
    Pass::Only(SpeedClass::Slowest),
];

/// Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler(Arc<Shared>);

impl Scheduler {
    pub(crate) fn new(slots: usize) -> Self {
        Self(Arc::new(Shared::new(slots)))
    }

    /// The order in which waiting organizations are searched. Without contention nobody is preferred who is quick. The result of each pass
    /// is recorded: see [`note_look`](Self::note_look).
    pub(crate) fn passes(&self, takes_tasks: bool, now: Instant) -> &'static [Pass] {
        let mut state = self.0.state();
        if !state.has_any_room(now) {
            return &[];
        }
        let passes = if state.has_much_room() { MUCH_ROOM } else { LITTLE_ROOM };
        let first = state.begin_look(takes_tasks, now);
        let is_first = |pass: &Pass| !matches!(pass, Pass::Overdue | Pass::Underserved) || first == Some(*pass);
        let skipped = passes.iter().take_while(|pass| !is_first(pass)).count();
        &passes[skipped..]
    }

    /// What is looked for before all that: slow organizations, every now and then while they have no room. The result is recorded, too.
    pub(crate) fn first_pass(&self, takes_tasks: bool, now: Instant) -> Option<Pass> {
        let is_due = self.0.state().begin_slow_look(takes_tasks, now);
        is_due.then_some(Pass::OverdueSlow)
    }

    /// Whether somebody was found in this pass, and how long it took to look.
    pub(crate) fn note_look(&self, takes_tasks: bool, pass: Pass, has_found: bool, took: Duration, now: Instant) {
        let mut state = self.0.state();
        state.end_look(takes_tasks, pass, has_found, took, now);
    }

    /// Waits until somebody may begin.
    pub(crate) async fn until_room(&self, takes_tasks: bool) {
        loop {
            let has_changed = self.0.has_changed.notified();
            tokio::pin!(has_changed);
            has_changed.as_mut().enable();
            let now = Instant::now();
            let next = {
                let mut state = self.0.state();
                let slow_look_at = state.slow_look_at(takes_tasks, now);
                if state.has_any_room(now) || slow_look_at.is_some_and(|at| at <= now) {
                    return;
                }
                let next_slow = state.next_slow_at(now);
                slow_look_at.map_or(next_slow, |at| at.min(next_slow))
            };
            tokio::select! {
                () = has_changed => {}
                () = sleep_until(next.into()) => {}
            }
        }
    }

    /// Whether something of this organization may begin.
    pub(crate) fn may_begin(&self, look: Look, tenant: Tenant, work: Work, now: Instant) -> bool {
        let state = self.0.state();
        state.includes(look, tenant, now) && state.room_in(look, tenant, work, now).is_some()
    }

    /// A permit for something that may begin. If there is no other, it is taken from what is slow.
    pub(crate) fn begin(&self, look: Look, tenant: Tenant, work: Work, now: Instant) -> Option<Permit> {
        let mut state = self.0.state();
        if !state.includes(look, tenant, now) {
            return None;
        }
        if let Room::InsteadOf(number) = state.room_in(look, tenant, work, now)? {
            state.preempt(number, now);
        }
        let rank = state.rank(tenant);
        let (number, preempted) = state.start_found(look, tenant, work, now);
        Some(Permit::new(self.0.clone(), number, preempted, rank))
    }
}
