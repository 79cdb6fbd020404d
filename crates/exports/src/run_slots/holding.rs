//! How a run in progress gives its slot back, and gets one again.

use tokio::time::Instant;

use super::state::{Line, Run, State};

impl State {
    pub(super) fn slot_ends(&self, number: u64, now: Instant) -> Instant {
        let since = self.runs.get(&number).and_then(|run| run.slot);
        since.unwrap_or(now) + self.slot_time
    }

    /// Gives the slot back while the run waits for its destination.
    pub(super) fn step_aside(&mut self, number: u64, now: Instant) {
        self.is_late(number, now);
        if let Some(run) = self.runs.get_mut(&number) {
            (run.slot, run.waits) = (None, Some(now));
        }
    }

    /// Gives the slot back while the run reads, if otherwise the slow ones had all of them.
    pub(super) fn leave_quick_slot(&mut self, number: u64, now: Instant) {
        self.is_late(number, now);
        if self.slow_holders() > self.slots {
            self.step_aside(number, now);
        }
    }

    /// Lines up for a slot. False: it has one.
    pub(super) fn want(&mut self, number: u64) -> bool {
        let ticket = self.number();
        match self.runs.get_mut(&number) {
            Some(run) if run.slot.is_none() => {
                (run.waits, run.wants) = (None, Some(ticket));
                true
            }
            _ => false,
        }
    }

    pub(super) fn try_to_resume(&mut self, number: u64, now: Instant) -> bool {
        if !self.may_resume(number, now) {
            return false;
        }
        self.has_resumed = true;
        if let Some(run) = self.runs.get_mut(&number) {
            (run.slot, run.wants) = (Some(now), None);
        }
        true
    }

    fn may_resume(&self, number: u64, now: Instant) -> bool {
        if !self.is_free(Line::Slow) || !self.is_first(number) {
            return false;
        }
        match self.seen.filter(|(_, until)| now < *until) {
            None => true,
            Some((Line::Quick | Line::New, _)) => self.slow_holders() == 0,
            Some((Line::Slow | Line::Long, _)) => !self.has_resumed,
        }
    }

    /// Organizations with fewer slots come first, and then whoever has waited longest.
    fn is_first(&self, number: u64) -> bool {
        let slots_of = |organization| {
            let own = |run: &&Run| run.organization == organization && run.slot.is_some();
            self.runs.values().filter(own).count()
        };
        let wanting = self.runs.iter().filter(|(_, run)| run.wants.is_some());
        let first = wanting.min_by_key(|(_, run)| (slots_of(run.organization), run.wants));
        first.is_some_and(|(first, _)| *first == number)
    }
}
