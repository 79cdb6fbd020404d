//! Which organization's run begins next.

use std::time::Duration;

use service::OrganizationId;
use service::batch_exports::Choice;
use tokio::time::Instant;

use super::state::{Line, Rank, Run, State};

/// For how long it is remembered that somebody in the database waits for a slot: they are looked for every second.
pub(super) const SEEN_FOR: Duration = Duration::from_secs(3);

impl State {
    pub(super) fn choose(&mut self, due: &[OrganizationId], is_all: bool, now: Instant) -> Choice {
        let ranked = due.iter().map(|id| (self.rank(*id, now), *id));
        let (fitting, others): (Vec<_>, Vec<_>) = ranked.partition(|(_, id)| self.fits(*id, now));
        if is_all {
            self.make_room(&others, now);
        }
        let able = || fitting.iter().filter(|(_, id)| self.has_slot(self.line_of(*id, now)));
        let Some(best) = able().map(|(rank, _)| *rank).min() else {
            let waiting = fitting.iter().filter(|(rank, _)| !rank.is_crowded);
            let first = waiting.map(|(rank, _)| rank.line).min();
            self.seen = first.map(|line| (line, now + SEEN_FOR));
            return Choice::Nobody;
        };
        if !is_all && (best.line >= Line::Slow || best.is_crowded) {
            return Choice::AskFurther;
        }
        let after = self.served.get(&best.line).copied();
        let alike = || able().filter(|(rank, _)| *rank == best).map(|(_, id)| *id);
        let next = alike().filter(|id| after.is_none_or(|after| *id > after)).min();
        let Some(organization) = next.or_else(|| alike().min()) else {
            return Choice::Nobody;
        };
        self.served.insert(best.line, organization);
        self.seen = None;
        Choice::Take(organization)
    }

    /// Those that have half of the slots come after all others. Of the slow ones one comes first if none has a slot.
    fn rank(&self, organization: OrganizationId, now: Instant) -> Rank {
        let line = self.line_of(organization, now).max(Line::New);
        let own = |run: &&Run| run.organization == organization && run.slot.is_some();
        let is_crowded = self.runs.values().filter(own).count() >= self.slots.div_ceil(2);
        let is_neglected = line >= Line::Slow && self.slow_holders() == 0;
        Rank {
            is_crowded,
            is_not_neglected: !is_neglected,
            line,
        }
    }

    /// Whether a slot is all that a run of this organization would still need.
    fn fits(&self, organization: OrganizationId, now: Instant) -> bool {
        let own = self.runs.values().filter(|run| run.organization == organization);
        let line = self.line_of(organization, now);
        // Those that have to make room need a moment for it, and quick ones do not wait for that.
        let most = self.most_slow() + self.slots * if line == Line::Quick { 3 } else { 2 } + 2;
        own.count() < self.slots && self.runs.len() < most && (line < Line::Slow || self.has_room(line, now))
    }

    /// Runs that are in progress and want their slot again, and slow ones that wait in the database, take turns.
    fn has_slot(&self, line: Line) -> bool {
        let somebody_wants = self.runs.values().any(|run| run.wants.is_some());
        let is_neglected = somebody_wants && self.slow_holders() == 0;
        self.is_free(line)
            && match line {
                Line::Quick | Line::New => !is_neglected || self.holders() <= self.slots,
                Line::Slow | Line::Long => self.has_resumed || !somebody_wants,
            }
    }

    pub(super) fn is_free(&self, line: Line) -> bool {
        let has_any = self.holders() < self.slots + 2;
        let has_unknown = self.unknown_holders() <= self.slots;
        match line {
            Line::Quick => has_any,
            Line::New => has_any && has_unknown,
            Line::Slow | Line::Long => has_any && has_unknown && self.slow_holders() < self.slots,
        }
    }
}
