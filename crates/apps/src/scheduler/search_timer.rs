//! When to search for those who have little in progress, and for organizations that have waited long. A search that finds none scans all configurations, so
//! their rate is limited.

use std::time::{Duration, Instant};

use super::speed_class::Pass;

/// The pause after a search that found nothing: `LOOK_EVERY` at least, or `TIMES_WHAT_IT_TOOK` times its duration, but at most
/// `LATEST`.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
const TIMES_WHAT_IT_TOOK: u32 = 10;
pub(super) const LATEST: Duration = Duration::from_secs(10);
/// Slow organizations are looked for less often than they can be served.
pub(super) const LOOK_FOR_SLOW_EVERY: Duration = Duration::from_millis(500);

/// Persons who have little in progress are looked for at least so often, or half of the time.
const LOOK_FOR_UNDERSERVED_EVERY: Duration = Duration::from_millis(500);

/// The looks of all slots that look for the same.
#[derive(Debug, Default)]
pub(super) struct SearchTimer {
    /// Somebody was found who has little in progress. However many these are, the next time others come first.
    is_turn_of_others: bool,
    /// No look is begun before. While one is in progress, its end is not known.
    from: Option<Instant>,
    overdue_from: Option<Instant>,
    slow_from: Option<Instant>,
}

impl SearchTimer {
    /// Who is looked for first, if anybody is to go before others. No other look is begun before the end of this one is noted.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Pass> {
        let is_due = |from: Option<Instant>| from.is_none_or(|from| from <= now);
        if !is_due(self.from) {
            return None;
        }
        self.from = Some(now + LATEST);
        let is_turn_of_others = std::mem::take(&mut self.is_turn_of_others) && is_due(self.overdue_from);
        Some(if is_turn_of_others {
            Pass::Overdue
        } else {
            Pass::Underserved
        })
    }

    /// Whether slow ones are looked for first.
    pub(super) fn begin_slow(&mut self, now: Instant) -> bool {
        let is_due = self.slow_at().is_none_or(|at| at <= now);
        if is_due {
            self.slow_from = Some(now + LATEST);
        }
        is_due
    }

    /// When slow ones are looked for next; none: now.
    pub(super) fn slow_at(&self) -> Option<Instant> {
        self.slow_from
    }

    /// Those who are looked for may be others now.
    pub(super) fn look_again(&mut self, pass: Pass) {
        match pass {
            Pass::Underserved => self.from = None,
            Pass::Overdue => self.overdue_from = None,
            Pass::OverdueSlow => self.slow_from = None,
            _ => {}
        }
    }

    pub(super) fn end(&mut self, pass: Pass, has_found: bool, took: Duration, now: Instant) {
        let pause = took.saturating_mul(TIMES_WHAT_IT_TOOK).clamp(LOOK_EVERY, LATEST);
        let from = (!has_found).then(|| now + pause);
        match pass {
            Pass::Underserved => {
                let latest = now + took.max(LOOK_FOR_UNDERSERVED_EVERY);
                self.from = from.map(|from| from.min(latest));
                self.is_turn_of_others = has_found;
            }
            Pass::Overdue => {
                self.overdue_from = from;
                // Otherwise the look goes on.
                if has_found {
                    self.from = None;
                }
            }
            Pass::OverdueSlow => {
                let pause = if has_found { Duration::ZERO } else { pause };
                self.slow_from = Some(now + pause.max(LOOK_FOR_SLOW_EVERY));
            }
            Pass::Anyone | Pass::NotSlow | Pass::Only(_) => {}
        }
    }
}
