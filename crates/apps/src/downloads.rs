//! Whose turn it is to fetch the code of an app from elsewhere.

use std::time::Duration;

use service::{FairSemaphore, Permit, Result, Slow, UserId};

/// Code that is being fetched from elsewhere at the same time, from the first request until nobody needs it any more: each has up to 30 MB,
/// and takes as long as whoever gives it wants.
const AT_ONCE: usize = 8;
const OF_ONE: usize = 2;
/// Who takes longer leaves half of the places to others.
const PATIENCE: Duration = Duration::from_secs(3);
/// Otherwise twice as many people could take turns at being slow.
const SLOW_FOR: Duration = Duration::from_mins(5);
const WHAT: &str = "the download of apps";

#[derive(Debug)]
pub(crate) struct Downloads {
    of_organizations: FairSemaphore,
    /// As many as people want, but for those who were slow: they have one share, however many organizations they found.
    of_people: FairSemaphore,
}

/// The right to fetch code, of the organization and of the person.
#[derive(Debug)]
pub struct DownloadTurn {
    _of_person: Permit,
    _of_organization: Permit,
}

impl Default for Downloads {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl Downloads {
    fn with_patience(after: Duration) -> Self {
        let slow = Slow {
            after,
            permits: AT_ONCE / 2,
        };
        Self {
            of_organizations: FairSemaphore::new(WHAT, AT_ONCE, slow)
                .with_most_of_one(OF_ONE)
                .with_slow_for(SLOW_FOR),
            of_people: FairSemaphore::new(WHAT, usize::MAX, slow)
                .with_most_of_one(OF_ONE)
                .with_slow_for(SLOW_FOR)
                .followed_by_waiting(),
        }
    }

    /// Whoever founds many organizations fetches no more with each.
    pub(crate) async fn turn(&self, user: UserId) -> Result<DownloadTurn> {
        let mut of_person = self.of_people.acquire_for(user).await?;
        let of_organization = self.of_organizations.acquire().await?;
        // Nobody is slow for having waited for the others of their organization.
        of_person.restart();
        Ok(DownloadTurn {
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

    /// Long enough for a turn that nobody waits for.
    const MOMENT: Duration = Duration::from_millis(100);

    /// None: it would have to be waited for.
    async fn turn(downloads: &Downloads, user: i64, organization: u128) -> Option<DownloadTurn> {
        let organization = OrganizationId(uuid::Uuid::from_u128(organization));
        let turn = caller::on_behalf_of_organization(organization, downloads.turn(UserId(user)));
        timeout(MOMENT, turn)
            .await
            .ok()
            .map(|turn| turn.expect("it is not refused"))
    }

    #[tokio::test]
    async fn who_was_slow_is_so_in_every_organization() {
        // Everybody takes longer than that.
        let downloads = Downloads::with_patience(Duration::ZERO);
        for user in 1..=4 {
            drop(turn(&downloads, user, 0).await.expect("nobody else is there"));
        }
        // Each of them, twice, and always for an organization that nothing is known of.
        let mut held = Vec::new();
        for number in 0..8_u8 {
            let user = 1 + i64::from(number % 4);
            held.extend(turn(&downloads, user, 100 + u128::from(number)).await);
        }
        assert_eq!(held.len(), AT_ONCE / 2, "the slow share half of the places");
        for number in 11..=14_u8 {
            let other = turn(&downloads, i64::from(number), 200 + u128::from(number)).await;
            held.push(other.expect("the other half is for others"));
        }
    }

    #[tokio::test]
    async fn nobody_is_slow_for_having_waited() {
        let downloads = Downloads::with_patience(MOMENT / 2);
        let held = [turn(&downloads, 1, 1).await, turn(&downloads, 2, 1).await];
        assert!(held.iter().all(Option::is_some));
        assert!(turn(&downloads, 3, 1).await.is_none(), "its organization has two");
        drop(held);
        // Those two took long, and have all that the slow may have.
        let mut held = Vec::new();
        for (user, organization) in [(1, 101), (1, 102), (2, 103), (2, 104)] {
            held.extend(turn(&downloads, user, organization).await);
        }
        assert_eq!(held.len(), AT_ONCE / 2);
        assert!(turn(&downloads, 3, 200).await.is_some());
    }
}
