//! How much of the activity log an organization, or a person beside it, fills: entries are kept for good, so nobody writes them without end.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Entry;
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId};
use crate::limits::HourlyLimits;

/// In an hour, in kilobytes. That is some ten thousand large changes, or far more small ones.
const AN_HOUR: u32 = 64 * 1024;
/// What an entry takes beside its changes.
const ENTRY: usize = 512;
/// Past this many organizations those that have been quiet are forgotten, so that memory stays bounded.
const REMEMBERED: usize = 10_000;

/// Kept by each process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Budget(Option<Arc<DefaultKeyedRateLimiter<Subject>>>);

/// Whose log it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Organization(OrganizationId),
    User(UserId),
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}

impl Budget {
    pub(crate) fn new(limits: HourlyLimits) -> Self {
        let most = limits.scaled(AN_HOUR).and_then(NonZeroU32::new);
        Self(most.map(|most| Arc::new(RateLimiter::keyed(Quota::per_hour(most)))))
    }

    /// Takes what these entries need, or says when there is more.
    pub(crate) fn take(&self, user: UserId, entries: &[Entry]) -> Result<()> {
        let Some(limiter) = &self.0 else { return Ok(()) };
        if limiter.len() > REMEMBERED {
            limiter.retain_recent();
        }
        for entry in entries {
            let subject = entry.organization.map_or(Subject::User(user), Subject::Organization);
            let kilobytes = u32::try_from(size(entry).div_ceil(1024)).unwrap_or(u32::MAX);
            let Some(kilobytes) = NonZeroU32::new(kilobytes.min(AN_HOUR)) else {
                continue;
            };
            // More than there can be at once is refused for an hour; nothing is that large.
            if let Ok(Err(until)) = limiter.check_key_n(&subject, kilobytes) {
                return Err(Error::LimitReached {
                    detail: "Too many changes in the last hour for the activity log".to_owned(),
                    wait: until.wait_time_from(DefaultClock::default().now()),
                });
            }
        }
        Ok(())
    }
}

/// What is stored, about.
fn size(entry: &Entry) -> usize {
    let changes = serde_json::to_vec(&entry.changes).map_or(0, |json| json.len());
    ENTRY + entry.name.len() + changes
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::{Change, ChangeKind};
    use super::*;

    const USER: UserId = UserId(1);

    fn entry(organization: u128, bytes: usize) -> Entry {
        entry_of(organization, &"x".repeat(bytes))
    }

    fn entry_of(organization: u128, text: &str) -> Entry {
        Entry {
            organization: Some(OrganizationId(uuid::Uuid::from_u128(organization))),
            team: None,
            scope: "Test",
            item: String::new(),
            activity: "updated",
            name: String::new(),
            changes: vec![Change {
                action: ChangeKind::Changed,
                field: "text".to_owned(),
                before: Value::Null,
                after: text.into(),
            }],
        }
    }

    #[test]
    fn an_organization_fills_so_much_of_the_log_and_leaves_others_alone() {
        let budget = Budget::new(HourlyLimits::default());
        let large = entry(1, 4 << 20);
        let taken = (0..100)
            .take_while(|_| budget.take(USER, std::slice::from_ref(&large)).is_ok())
            .count();
        assert!((10..=16).contains(&taken), "{taken} times 4 MB");
        assert!(matches!(budget.take(USER, &[large]), Err(Error::LimitReached { .. })));
        budget.take(USER, &[entry(2, 1000)]).unwrap();
    }

    /// A control character takes six bytes.
    #[test]
    fn texts_count_as_they_are_stored() {
        for (text, bytes) in [("x", 1), ("\"", 2), ("\u{1}", 6)] {
            let size = size(&entry_of(1, &text.repeat(1000)));
            assert!(
                (1000 * bytes..1000 * bytes + 2 * ENTRY).contains(&size),
                "{text:?}: {size}"
            );
        }
    }

    #[test]
    fn what_belongs_to_no_organization_counts_for_the_person() {
        let budget = Budget::new(HourlyLimits::default());
        let own = Entry {
            organization: None,
            ..entry(1, 4 << 20)
        };
        let taken = (0..100)
            .take_while(|_| budget.take(USER, std::slice::from_ref(&own)).is_ok())
            .count();
        assert!(taken < 20, "{taken} times 4 MB");
        budget.take(UserId(2), &[own]).unwrap();
    }

    #[test]
    fn whoever_changes_little_is_not_stopped() {
        let budget = Budget::new(HourlyLimits::default());
        for _ in 0..20_000 {
            budget.take(USER, &[entry(1, 100)]).unwrap();
        }
    }
}
