//! What organizations did lately, so far as it is remembered.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use service::OrganizationId;

use super::speed_class::SpeedClass;

/// How long an organization counts as slow after it was: twice as long each time, so many times.
pub(super) const SLOW_FOR: Duration = Duration::from_mins(5);
pub(super) const MAX_DOUBLINGS: u32 = 4;
/// How long it counts as quick, and for how long it is remembered that it was slow.
pub(super) const QUICK_FOR: Duration = Duration::from_hours(1);
/// More than these are not remembered; whoever is not remembered is new.
pub(super) const MAX_REMEMBERED: usize = 10_000;

/// What is remembered of each organization.
#[derive(Debug, Default)]
pub(super) struct Histories(HashMap<OrganizationId, History>);

/// How it went with an organization lately.
#[derive(Debug, Clone, Copy)]
struct History {
    quick_until: Instant,
    slow_until: Instant,
    times_slow: u32,
    /// How long its slow calls take, the latest ones above all.
    usual: Duration,
    forgotten_at: Instant,
}

impl Histories {
    pub(super) fn standing(&self, organization: OrganizationId, now: Instant) -> SpeedClass {
        match self.0.get(&organization) {
            Some(history) if now < history.slow_until => SpeedClass::of_slow(history.usual),
            Some(history) if now < history.quick_until => SpeedClass::Quick,
            _ => SpeedClass::New,
        }
    }

    /// How long its slow calls take.
    pub(super) fn usual(&self, organization: OrganizationId, now: Instant) -> Option<Duration> {
        self.remembered(organization, now).map(|history| history.usual)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn note_slow(&mut self, organization: OrganizationId, took: Duration, now: Instant) {
        let before = self.remembered(organization, now);
        let usual = before.filter(|history| history.times_slow > 0);
        let usual = usual.map_or(took, |history| (history.usual + took) / 2);
        let is_slow_already = before.is_some_and(|history| now < history.slow_until);
        let times_slow = before.map_or(0, |history| history.times_slow) + u32::from(!is_slow_already);
        let doublings = times_slow.saturating_sub(1).min(MAX_DOUBLINGS);
        let slow_until = now + SLOW_FOR * 2_u32.pow(if is_slow_already { 0 } else { doublings });
        let slow_until = before.map_or(slow_until, |history| history.slow_until.max(slow_until));
        self.remember(
            organization,
            History {
                quick_until: now,
                slow_until,
                times_slow,
                usual,
                forgotten_at: slow_until + QUICK_FOR,
            },
            now,
        );
    }

    /// Whoever was slow lately is not quick for having been quick once.
    pub(super) fn note_quick(&mut self, organization: OrganizationId, now: Instant) {
        let before = self.remembered(organization, now);
        if before.is_some_and(|history| now < history.slow_until) {
            return;
        }
        let quick_until = now + QUICK_FOR;
        let (times_slow, usual, forgotten_at) = match before {
            Some(history) if history.times_slow > 0 => (history.times_slow, history.usual, history.forgotten_at),
            _ => (0, Duration::ZERO, quick_until),
        };
        self.remember(
            organization,
            History {
                quick_until,
                slow_until: now,
                times_slow,
                usual,
                forgotten_at,
            },
            now,
        );
    }

    fn remembered(&self, organization: OrganizationId, now: Instant) -> Option<History> {
        let history = self.0.get(&organization).copied();
        history.filter(|history| now < history.forgotten_at)
    }

    fn remember(&mut self, organization: OrganizationId, history: History, now: Instant) {
        if self.0.len() >= MAX_REMEMBERED && !self.0.contains_key(&organization) {
            self.0.retain(|_, one| now < one.slow_until);
        }
        if self.0.len() < MAX_REMEMBERED || self.0.contains_key(&organization) {
            self.0.insert(organization, history);
        }
    }
}
