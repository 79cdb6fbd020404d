//! Who may begin, of the organizations that wait.
//!
//! A slot waits for an app for a moment only. Whoever takes longer steps aside and goes on there, the slot serves the next,
//! and the organization goes behind those that are quick, for a while. So what one person's organizations make of their
//! time, however many they are, costs the others a moment each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use service::OrganizationId;

/// How long a slot waits for an app before that steps aside.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How long an organization counts as slow, or as quick, after it was.
const SLOW_FOR: Duration = Duration::from_mins(5);
const QUICK_FOR: Duration = Duration::from_hours(1);
/// What is under way at once for each slot, those that stepped aside included, and in all: each is a process.
const PER_SLOT: usize = 7;
const MOST_AT_ONCE: usize = 48;
/// More than these are not remembered; whoever is not remembered is new.
const MOST_REMEMBERED: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Events,
    Task,
}

/// The line in which an organization stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// It was quick lately, or it is new.
    Quick,
    Slow,
}

/// How it went with an organization lately.
#[derive(Debug, Clone, Copy)]
struct Lately {
    line: Line,
    until: Instant,
}

/// What is under way, and whose it is. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Lines(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// What one organization may have under way.
    most_of_one: usize,
    most: usize,
    under_way: HashMap<OrganizationId, usize>,
    all: usize,
    tasks: usize,
    lately: HashMap<OrganizationId, Lately>,
}

impl Lines {
    pub(crate) fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self(Arc::new(Mutex::new(State {
            most_of_one: slots.min(MOST_AT_ONCE / 4),
            most: slots.saturating_mul(PER_SLOT).min(MOST_AT_ONCE).max(slots),
            under_way: HashMap::new(),
            all: 0,
            tasks: 0,
            lately: HashMap::new(),
        })))
    }

    /// The lines in which somebody may stand, in their order.
    pub(crate) fn lines(&self, now: Instant) -> &'static [Line] {
        let state = self.state();
        let is_slow = |lately: &Lately| lately.line == Line::Slow && now < lately.until;
        if state.lately.values().any(is_slow) {
            &[Line::Quick, Line::Slow]
        } else {
            &[Line::Quick]
        }
    }

    /// Whether something of this organization may begin that stands in this line.
    pub(crate) fn may_begin(&self, line: Line, organization: OrganizationId, work: Work, now: Instant) -> bool {
        let state = self.state();
        state.line_of(organization, now) == line && state.has_room(organization, work, now)
    }

    /// A place for something that may begin. It is free again when it is dropped.
    pub(crate) fn begin(&self, line: Line, organization: OrganizationId, work: Work, now: Instant) -> Option<Place> {
        let mut state = self.state();
        if state.line_of(organization, now) != line || !state.has_room(organization, work, now) {
            return None;
        }
        *state.under_way.entry(organization).or_default() += 1;
        state.all += 1;
        state.tasks += usize::from(work == Work::Task);
        Some(Place {
            lines: self.clone(),
            organization,
            work,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn line_of(&self, organization: OrganizationId, now: Instant) -> Line {
        self.lately(organization, now).unwrap_or(Line::Quick)
    }

    /// None: it is new.
    fn lately(&self, organization: OrganizationId, now: Instant) -> Option<Line> {
        let lately = self.lately.get(&organization).filter(|lately| now < lately.until);
        lately.map(|lately| lately.line)
    }

    fn has_room(&self, organization: OrganizationId, work: Work, now: Instant) -> bool {
        let half = self.most.div_ceil(2);
        let own = self.under_way.get(&organization).copied().unwrap_or_default();
        let room = match self.lately(organization, now) {
            Some(Line::Quick) => self.all < self.most,
            // One place is always left for those that are known to give it back at once.
            None => self.all < self.most.saturating_sub(1).max(1),
            Some(Line::Slow) => self.all < self.most.saturating_sub(1).max(1) && self.slow(now) < half,
        };
        room && own < self.most_of_one && (work == Work::Events || self.tasks < half)
    }

    /// How much is under way for those that are slow.
    fn slow(&self, now: Instant) -> usize {
        let slow = self
            .under_way
            .iter()
            .filter(|(id, _)| self.line_of(**id, now) == Line::Slow);
        slow.map(|(_, count)| count).sum()
    }

    fn note(&mut self, organization: OrganizationId, line: Line, now: Instant) {
        let is_slow = self.line_of(organization, now) == Line::Slow;
        if is_slow && line == Line::Quick {
            return;
        }
        if self.lately.len() >= MOST_REMEMBERED {
            self.lately
                .retain(|_, lately| now < lately.until && lately.line == Line::Slow);
        }
        let until = now + if line == Line::Slow { SLOW_FOR } else { QUICK_FOR };
        self.lately.insert(organization, Lately { line, until });
    }
}

/// Something that is under way.
#[derive(Debug)]
pub(crate) struct Place {
    lines: Lines,
    organization: OrganizationId,
    work: Work,
}

impl Place {
    /// Writes down whether its slot had to wait for longer than it does.
    pub(crate) fn note(&self, line: Line, now: Instant) {
        self.lines.state().note(self.organization, line, now);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.lines.state();
        state.all -= 1;
        state.tasks -= usize::from(self.work == Work::Task);
        if let Some(count) = state.under_way.get_mut(&self.organization) {
            *count -= 1;
            if *count == 0 {
                state.under_way.remove(&self.organization);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn organization(number: u128) -> OrganizationId {
        OrganizationId(uuid::Uuid::from_u128(number))
    }

    /// Begins as much as may begin, for these organizations in turn.
    fn fill(lines: &Lines, organizations: std::ops::Range<u128>, work: Work, now: Instant) -> Vec<Place> {
        let mut places = Vec::new();
        loop {
            let before = places.len();
            for number in organizations.clone() {
                for line in [Line::Quick, Line::Slow] {
                    places.extend(lines.begin(line, organization(number), work, now));
                }
            }
            if places.len() == before {
                return places;
            }
        }
    }

    #[test]
    fn one_organization_never_has_all_places() {
        for slots in 1..100 {
            let (lines, now) = (Lines::new(slots), Instant::now());
            let own = fill(&lines, 1..2, Work::Events, now);
            assert!(!own.is_empty() && own.len() <= slots, "{slots}");
            assert!(
                lines.begin(Line::Quick, organization(2), Work::Events, now).is_some(),
                "{slots}"
            );
        }
    }

    #[test]
    fn those_who_are_slow_and_tasks_never_have_all_places() {
        let (lines, now) = (Lines::new(4), Instant::now());
        let tasks = fill(&lines, 1..100, Work::Task, now);
        assert_eq!(tasks.len(), 14);
        for place in &tasks {
            place.note(Line::Slow, now);
        }
        drop(tasks);
        let slow = fill(&lines, 1..15, Work::Events, now);
        assert_eq!(slow.len(), 14);
        // Those who are new have the rest but for one place, which is for those who were quick.
        let new = fill(&lines, 100..200, Work::Events, now);
        assert_eq!(new.len(), 13);
        new[0].note(Line::Quick, now);
        let known = lines.begin(Line::Quick, organization(100), Work::Events, now);
        assert!(known.is_some());
        assert!(lines.begin(Line::Quick, organization(100), Work::Events, now).is_none());
        drop((slow, new, known));
        assert_eq!(lines.state().all, 0);
        assert!(lines.state().under_way.is_empty());
    }

    #[test]
    fn who_was_slow_goes_behind_for_a_while() {
        let (lines, now) = (Lines::new(4), Instant::now());
        let place = lines
            .begin(Line::Quick, organization(1), Work::Events, now)
            .expect("room");
        assert_eq!(lines.lines(now), [Line::Quick]);
        place.note(Line::Slow, now);
        place.note(Line::Quick, now);
        drop(place);
        assert_eq!(lines.lines(now), [Line::Quick, Line::Slow]);
        assert!(!lines.may_begin(Line::Quick, organization(1), Work::Events, now));
        assert!(lines.may_begin(Line::Slow, organization(1), Work::Events, now));
        let later = now + SLOW_FOR;
        assert!(lines.may_begin(Line::Quick, organization(1), Work::Events, later));
    }
}
