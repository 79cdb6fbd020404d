//! The runs in progress, and how their organizations did lately.

use std::collections::HashMap;
use std::time::Duration;

use service::OrganizationId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a run holds a slot in one go, while it waits as well as while it works.
pub(super) const SLOT_TIME: Duration = Duration::from_secs(2);
/// A run of more than this is a long one, and the slow ones need not wait for all of those.
const LONG_AFTER: Duration = Duration::from_mins(1);
/// How long an organization counts as quick, slow or long after it was. Exports run every five minutes or less often.
const REMEMBERED_FOR: Duration = Duration::from_hours(1);
/// More than these are not remembered; whoever is not remembered is new.
const MAX_REMEMBERED: usize = 10_000;
/// What a run may take before it is ended for others, twice as long at each further try: every run gets to its end.
const FIRST_STAY: Duration = Duration::from_mins(5);
const MAX_STAY: Duration = Duration::from_hours(4);

/// How an organization did lately. The first two come first, and take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Line {
    Quick,
    /// Nothing is known of it.
    New,
    /// A run of it took longer than [`SLOT_TIME`].
    Slow,
    Long,
}

#[derive(Debug)]
pub(super) struct State {
    /// Those for anybody. There are two more: one that is not for slow ones, and one that is for quick ones alone.
    pub(super) slots: usize,
    pub(super) slot_time: Duration,
    pub(super) runs: HashMap<u64, Run>,
    lately: HashMap<OrganizationId, (Line, Instant)>,
    /// Whose turn it was last in each line.
    pub(super) served: HashMap<Line, OrganizationId>,
    /// The best line in which somebody waited for a slot when the database was last asked.
    pub(super) seen: Option<(Line, Instant)>,
    /// Whether the last slot for a slow run went to one that was in progress already.
    pub(super) has_resumed: bool,
    next_number: u64,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) organization: OrganizationId,
    pub(super) destination_key: String,
    /// Whether its organization is known as quick.
    pub(super) is_quick: bool,
    pub(super) is_slow: bool,
    pub(super) began: Instant,
    /// For how long it is left alone.
    pub(super) stay: Duration,
    /// Since when it has its slot. None: it has none.
    pub(super) slot: Option<Instant>,
    /// Since when it waits without one for its destination.
    pub(super) waits: Option<Instant>,
    /// Its number among those that want a slot again.
    pub(super) wants: Option<u64>,
    /// Cancelled when it has to make room.
    pub(super) end: CancellationToken,
}

/// Where an organization stands among those that wait; the least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) is_crowded: bool,
    pub(super) is_not_neglected: bool,
    pub(super) line: Line,
}

impl Run {
    /// Of one that is slow.
    pub(super) fn line(&self, now: Instant) -> Line {
        if now - self.began >= LONG_AFTER {
            Line::Long
        } else {
            Line::Slow
        }
    }
}

impl State {
    pub(super) fn new(slots: usize, slot_time: Duration) -> Self {
        Self {
            slots: slots.max(1),
            slot_time,
            runs: HashMap::new(),
            lately: HashMap::new(),
            served: HashMap::new(),
            seen: None,
            has_resumed: false,
            next_number: 0,
        }
    }

    pub(super) fn holders(&self) -> usize {
        self.runs.values().filter(|run| run.slot.is_some()).count()
    }

    /// Those that may turn out to be slow, or are.
    pub(super) fn unknown_holders(&self) -> usize {
        let unknown = |run: &&Run| run.slot.is_some() && (run.is_slow || !run.is_quick);
        self.runs.values().filter(unknown).count()
    }

    pub(super) fn slow_holders(&self) -> usize {
        let slow = self.runs.values().filter(|run| run.is_slow && run.slot.is_some());
        slow.count()
    }

    /// Those that must make room no longer count.
    pub(super) fn slow(&self) -> impl Iterator<Item = (u64, &Run)> {
        let counted = |(number, run): (&u64, _)| (*number, run);
        let runs = self.runs.iter().map(counted);
        runs.filter(|(_, run): &(u64, &Run)| run.is_slow && !run.end.is_cancelled())
    }

    pub(super) fn slow_of(&self, organization: OrganizationId) -> usize {
        self.slow().filter(|(_, run)| run.organization == organization).count()
    }

    /// How an organization did lately, and does with what it has in progress.
    pub(super) fn line_of(&self, organization: OrganizationId, now: Instant) -> Line {
        let own = self.runs.values().filter(|run| run.organization == organization);
        let in_progress = own.filter(|run| run.is_slow).map(|run| run.line(now)).max();
        let lately = self.lately.get(&organization).filter(|(_, until)| now < *until);
        let lately = lately.map_or(Line::New, |(line, _)| *line);
        in_progress.map_or(lately, |line| line.max(lately))
    }

    pub(super) fn note(&mut self, organization: OrganizationId, line: Line, now: Instant) {
        let before = self.line_of(organization, now);
        if before > line && before >= Line::Slow {
            return;
        }
        if self.lately.len() >= MAX_REMEMBERED {
            self.lately
                .retain(|_, (line, until)| now < *until && *line >= Line::Slow);
        }
        self.lately.insert(organization, (line, now + REMEMBERED_FOR));
    }

    pub(super) fn begin(
        &mut self,
        organization: OrganizationId,
        destination_key: &str,
        tries: u32,
        end: CancellationToken,
        now: Instant,
    ) -> u64 {
        let line = self.line_of(organization, now);
        let (is_quick, is_slow) = (line == Line::Quick, line >= Line::Slow);
        self.has_resumed &= !is_slow;
        let doublings = tries.clamp(1, 10) - 1;
        let run = Run {
            organization,
            destination_key: destination_key.to_owned(),
            is_quick,
            is_slow,
            began: now,
            stay: (FIRST_STAY * 2_u32.pow(doublings)).min(MAX_STAY),
            slot: Some(now),
            waits: None,
            wants: None,
            end,
        };
        let number = self.number();
        self.runs.insert(number, run);
        number
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(super) fn leave(&mut self, number: u64, now: Instant) {
        let Some(run) = self.runs.remove(&number) else { return };
        let line = if run.is_slow { run.line(now) } else { Line::Quick };
        // A quick run of an organization that was slow does not make it slow for longer.
        if !run.is_slow || now - run.began >= self.slot_time {
            self.note(run.organization, line, now);
        }
    }
}
