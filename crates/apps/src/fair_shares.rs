//! Who is permitted to have the code of an app in memory for a while: fetched from elsewhere, or changed here.

use std::time::Duration;

use service::{FairSemaphore, Permit, Result, Slow, UserId};

/// Code that is being fetched from elsewhere at the same time, from the first request until nobody needs it any more: each has up to 30 MB,
/// and takes as long as whoever gives it wants.
const DOWNLOADS: usize = 8;
const DOWNLOADS_OF_ORGANIZATION: usize = 2;
/// Changes of apps' code that are in progress at the same time: each has up to three copies of 8 MB, and takes as long as reading it.
const UPDATES: usize = 6;
const UPDATES_OF_ORGANIZATION: usize = 3;
/// Fewer than an organization has, so that nobody keeps all colleagues waiting.
const OF_PERSON: usize = 1;
/// Who takes longer leaves half of the places to others.
const SLOW_AFTER: Duration = Duration::from_secs(3);
/// Otherwise twice as many people could take turns at being slow.
const SLOW_FOR: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(crate) struct Shares {
    of_organizations: FairSemaphore,
    /// As many people as there are, but those who were slow have one share, however many organizations they create.
    of_people: FairSemaphore,
}

/// The right to have code in memory, of the organization and of the person.
#[derive(Debug)]
pub struct CodePermit {
    _of_person: Permit,
    _of_organization: Permit,
}

impl Shares {
    pub(crate) fn of_downloads() -> Self {
        Self::downloads_slow_after(SLOW_AFTER)
    }

    fn downloads_slow_after(after: Duration) -> Self {
        Self::new("the download of apps", DOWNLOADS, DOWNLOADS_OF_ORGANIZATION, after)
    }

    pub(crate) fn of_updates() -> Self {
        Self::new("the app loader", UPDATES, UPDATES_OF_ORGANIZATION, SLOW_AFTER)
    }

    fn new(what: &'static str, at_once: usize, of_organization: usize, after: Duration) -> Self {
        let slow = Slow {
            after,
            permits: at_once / 2,
        };
        Self {
            of_organizations: FairSemaphore::new(what, at_once, slow)
                .with_most_of_one(of_organization)
                .with_slow_for(SLOW_FOR),
            of_people: FairSemaphore::new(what, usize::MAX, slow)
                .with_most_of_one(OF_PERSON)
                .with_slow_for(SLOW_FOR)
                .followed_by_waiting(),
        }
    }

    /// Whoever creates many organizations has no more with each.
    pub(crate) async fn permit(&self, user: UserId) -> Result<CodePermit> {
        let mut of_person = self.of_people.acquire_for(user).await?;
        let of_organization = self.of_organizations.acquire().await?;
        // Nobody is slow for having waited for the others of their organization.
        of_person.restart();
        Ok(CodePermit {
            _of_person: of_person,
            _of_organization: of_organization,
        })
    }
}

#[cfg(test)]
mod tests {
    use service::{OrganizationId, caller};
    use tokio::time::timeout;

    use super::*;

    /// Long enough for a permit that nobody waits for.
    const MOMENT: Duration = Duration::from_millis(100);

    /// None: it would have to be waited for.
    async fn permit(shares: &Shares, user: i64, organization: u128) -> Option<CodePermit> {
        let organization = OrganizationId(uuid::Uuid::from_u128(organization));
        let permit = caller::on_behalf_of_organization(organization, shares.permit(UserId(user)));
        timeout(MOMENT, permit)
            .await
            .ok()
            .map(|permit| permit.expect("it is not refused"))
    }

    #[tokio::test]
    async fn nobody_has_all_that_their_organization_has() {
        for shares in [Shares::of_downloads(), Shares::of_updates()] {
            let first = permit(&shares, 1, 1).await;
            assert!(first.is_some());
            assert!(permit(&shares, 1, 1).await.is_none());
            assert!(permit(&shares, 2, 1).await.is_some(), "colleagues do not wait");
        }
    }

    #[tokio::test]
    async fn whoever_creates_many_organizations_changes_code_in_one_at_a_time() {
        let updates = Shares::of_updates();
        let mut held = Vec::new();
        for organization in 1..=6 {
            held.extend(permit(&updates, 1, organization).await);
        }
        assert_eq!(held.len(), 1);
        assert!(permit(&updates, 2, 7).await.is_some());
        held.clear();
        assert!(permit(&updates, 1, 2).await.is_some());
    }

    #[tokio::test]
    async fn who_was_slow_is_so_in_every_organization() {
        // Everybody takes longer than that.
        let downloads = Shares::downloads_slow_after(Duration::ZERO);
        for user in 1..=8 {
            drop(permit(&downloads, user, 0).await.expect("nobody else is there"));
        }
        // Each of them, and always for an organization that nothing is known of.
        let mut held = Vec::new();
        for number in 1..=8_u8 {
            held.extend(permit(&downloads, i64::from(number), 100 + u128::from(number)).await);
        }
        assert_eq!(held.len(), DOWNLOADS / 2, "the slow share half of the places");
        for number in 11..=14_u8 {
            let other = permit(&downloads, i64::from(number), 200 + u128::from(number)).await;
            held.push(other.expect("the other half is for others"));
        }
    }

    #[tokio::test]
    async fn nobody_is_slow_for_having_waited() {
        let downloads = Shares::downloads_slow_after(MOMENT / 2);
        let mut held = Vec::new();
        for (user, organization) in [(1, 1), (2, 1), (4, 2), (5, 2)] {
            held.extend(permit(&downloads, user, organization).await);
        }
        assert_eq!(held.len(), DOWNLOADS / 2);
        assert!(permit(&downloads, 3, 1).await.is_none(), "its organization has two");
        held.clear();
        // Those four took long, and have all that the slow may have.
        for (user, organization) in [(1, 101), (2, 102), (4, 103), (5, 104)] {
            held.extend(permit(&downloads, user, organization).await);
        }
        assert_eq!(held.len(), DOWNLOADS / 2);
        assert!(permit(&downloads, 3, 200).await.is_some());
    }
}
