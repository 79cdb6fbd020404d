//! How much of the activity log an organization, or a person beside it, fills: entries are kept for good, so nobody writes them without end.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Entry;
use crate::access::Actor;
use crate::error::{Error, Result};
use crate::id::{OrganizationId, UserId};
use crate::limits::HourlyLimits;

/// In an hour, in kilobytes. That is some ten thousand large changes, or far more small ones.
const AN_HOUR: u32 = 64 * 1024;
/// Of what members may write together, one has half.
const OF_ONE: u32 = AN_HOUR / 2;
/// What an entry takes beside its changes.
const ENTRY: usize = 512;
/// Past this many organizations those that have been quiet are forgotten, so that memory stays bounded.
const REMEMBERED: usize = 10_000;

/// Kept by each process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Budget(Option<Arc<Limiters>>);

struct Limiters {
    of_all: DefaultKeyedRateLimiter<Subject>,
    of_one: DefaultKeyedRateLimiter<(OrganizationId, UserId)>,
}

/// Whose log it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    /// What any member may change.
    Organization(OrganizationId),
    /// What only administrators change, so that members cannot keep them from it.
    Administration(OrganizationId),
    User(UserId),
}

/// The scopes of what only administrators change.
const ADMINISTRATION: [&str; 4] = ["Organization", "OrganizationDomain", "OrganizationMembership", "Team"];

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}

impl Budget {
    pub(crate) fn new(limits: HourlyLimits) -> Self {
        let quota = |most| limits.scaled(most).and_then(NonZeroU32::new).map(Quota::per_hour);
        let limiters = quota(AN_HOUR).zip(quota(OF_ONE)).map(|(all, one)| Limiters {
            of_all: RateLimiter::keyed(all),
            of_one: RateLimiter::keyed(one),
        });
        Self(limiters.map(Arc::new))
    }

    /// Takes what these entries need, or says when there is more. What the server does automatically is never refused, and a dry run
    /// leaves no entries.
    pub(crate) fn take(&self, actor: &Actor, entries: &[Entry]) -> Result<()> {
        let (Some(limiters), Some(user)) = (&self.0, actor.user) else {
            return Ok(());
        };
        if actor.request.is_dry_run {
            return Ok(());
        }
        limiters.forget_quiet();
        for (subject, kilobytes) in needed(user, entries) {
            if let Subject::Organization(organization) = subject {
                take(&limiters.of_one, &(organization, user), kilobytes.min(OF_ONE))?;
            }
            take(&limiters.of_all, &subject, kilobytes.min(AN_HOUR))?;
        }
        Ok(())
    }
}

impl Limiters {
    fn forget_quiet(&self) {
        if self.of_all.len() > REMEMBERED {
            self.of_all.retain_recent();
        }
        if self.of_one.len() > REMEMBERED {
            self.of_one.retain_recent();
        }
    }
}

/// In kilobytes, all of one subject together: a part that there was room for is not used up for nothing.
fn needed(user: UserId, entries: &[Entry]) -> HashMap<Subject, u32> {
    let mut needed = HashMap::new();
    // Whatever is deleted was created and changed before, and counted then. So deleting is possible at any time.
    for entry in entries.iter().filter(|entry| !entry.is_deletion()) {
        let subject = match entry.organization {
            Some(organization) if ADMINISTRATION.contains(&entry.scope) => Subject::Administration(organization),
            Some(organization) => Subject::Organization(organization),
            None => Subject::User(user),
        };
        let kilobytes = u32::try_from(size(entry).div_ceil(1024)).unwrap_or(u32::MAX);
        let sum: &mut u32 = needed.entry(subject).or_default();
        *sum = sum.saturating_add(kilobytes);
    }
    needed
}

fn take<K: Clone + Eq + Hash>(limiter: &DefaultKeyedRateLimiter<K>, key: &K, kilobytes: u32) -> Result<()> {
    let Some(kilobytes) = NonZeroU32::new(kilobytes) else {
        return Ok(());
    };
    match limiter.check_key_n(key, kilobytes) {
        Ok(Err(until)) => Err(Error::LimitReached {
            detail: "Too many changes in the last hour for the activity log".to_owned(),
            wait: until.wait_time_from(DefaultClock::default().now()),
        }),
        // Nobody asks for more than there can be at once.
        _ => Ok(()),
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
    use crate::access::Request;

    fn user(number: i64) -> Actor {
        Actor::user(UserId(number), Request::default())
    }

    /// How many times 4 MB they can write.
    fn large_entries(budget: &Budget, actor: &Actor, large: &Entry) -> usize {
        let entries = std::slice::from_ref(large);
        (0..100).take_while(|_| budget.take(actor, entries).is_ok()).count()
    }

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
        let taken: usize = (1..=3)
            .map(|number| large_entries(&budget, &user(number), &large))
            .sum();
        assert!((10..=16).contains(&taken), "{taken} times 4 MB");
        assert!(matches!(
            budget.take(&user(3), &[large]),
            Err(Error::LimitReached { .. })
        ));
        budget.take(&user(1), &[entry(2, 1000)]).unwrap();
    }

    #[test]
    fn one_member_leaves_half_to_the_others() {
        let budget = Budget::new(HourlyLimits::default());
        let large = entry(1, 4 << 20);
        let taken = large_entries(&budget, &user(1), &large);
        assert!((5..=8).contains(&taken), "{taken} times 4 MB");
        budget.take(&user(2), &[large]).unwrap();
    }

    /// So that nobody keeps others from what is recorded in their log, too, by filling it.
    #[test]
    fn what_is_nobodys_doing_is_recorded_in_a_full_log() {
        let budget = Budget::new(HourlyLimits::default());
        let large = Entry {
            scope: ADMINISTRATION[0],
            ..entry(1, 4 << 20)
        };
        large_entries(&budget, &user(1), &large);
        assert!(budget.take(&user(2), std::slice::from_ref(&large)).is_err());
        budget.take(&Actor::nobody(Request::default()), &[large]).unwrap();
    }

    #[test]
    fn dry_runs_use_nothing_up() {
        let budget = Budget::new(HourlyLimits::default());
        let large = entry(1, 4 << 20);
        let dry = Request {
            is_dry_run: true,
            ..Request::default()
        };
        assert_eq!(large_entries(&budget, &Actor::user(UserId(1), dry), &large), 100);
        budget.take(&user(1), &[large]).unwrap();
    }

    #[test]
    fn members_cannot_keep_administrators_from_their_work() {
        let budget = Budget::new(HourlyLimits::default());
        let large = entry(1, 4 << 20);
        for number in 1..=3 {
            large_entries(&budget, &user(number), &large);
        }
        let administrator = user(4);
        assert!(budget.take(&administrator, std::slice::from_ref(&large)).is_err());
        for scope in ADMINISTRATION {
            budget
                .take(
                    &administrator,
                    &[Entry {
                        scope,
                        ..entry(1, 1000)
                    }],
                )
                .unwrap();
        }
        let deleted = large.named("deleted");
        assert_eq!(
            large_entries(&budget, &administrator, &deleted),
            100,
            "of a member's things"
        );
    }

    #[test]
    fn what_is_refused_uses_nothing_up() {
        let budget = Budget::new(HourlyLimits::default());
        let large = entry(1, 20 << 20);
        budget.take(&user(1), std::slice::from_ref(&large)).unwrap();
        for _ in 0..10 {
            assert!(budget.take(&user(1), &[entry(1, 8 << 20), large.clone()]).is_err());
        }
        budget.take(&user(1), &[entry(1, 8 << 20)]).unwrap();
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
        let taken = large_entries(&budget, &user(1), &own);
        assert!(taken < 20, "{taken} times 4 MB");
        budget.take(&user(2), &[own]).unwrap();
    }

    #[test]
    fn whoever_changes_little_is_not_stopped() {
        let budget = Budget::new(HourlyLimits::default());
        for _ in 0..20_000 {
            budget.take(&user(1), &[entry(1, 100)]).unwrap();
        }
    }
}
