//! Which organizations had something in progress in the last seconds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use service::OrganizationId;

/// Longer than a round of some hundred organizations takes, so that whoever always has something waiting is never idle.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(10);
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// When each organization last had something in progress.
#[derive(Debug, Default)]
pub(super) struct Recent {
    last: HashMap<OrganizationId, Instant>,
    tidied_at: Option<Instant>,
}

impl Recent {
    pub(super) fn note(&mut self, organization: OrganizationId, now: Instant) {
        self.last.insert(organization, now);
        self.tidy(now);
    }

    /// Not more than [`IDLE_AFTER`] ago.
    pub(super) fn has_within(&self, time: Duration, organization: OrganizationId, now: Instant) -> bool {
        let last = self.last.get(&organization);
        last.is_some_and(|last| now.saturating_duration_since(*last) < time)
    }

    /// How many they are, give or take those of the last second.
    pub(super) fn count(&self) -> usize {
        self.last.len()
    }

    /// Forgets the others. Whoever counts asks for each event, so that is not the time to look at all of them.
    pub(super) fn tidy(&mut self, now: Instant) {
        let is_tidy = |at: Instant| now.saturating_duration_since(at) < TIDY_EVERY;
        if self.tidied_at.is_some_and(is_tidy) {
            return;
        }
        self.tidied_at = Some(now);
        self.last
            .retain(|_, last| now.saturating_duration_since(*last) < IDLE_AFTER);
    }
}
