//! Who looks at first rows, or tests a destination, at the same time: each organization once. Those whose turn it is wait in one
//! queue, so that organizations take turns, however many each of them asks for; and whoever takes long steps aside, so that many
//! slow organizations of one person keep nobody waiting.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use service::OrganizationId;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// How long others wait for one.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Shares {
    patience: Duration,
    all: Semaphore,
    /// Room for those that take longer than [`PATIENCE`]. Without any they keep their place.
    aside: Semaphore,
    organizations: Mutex<HashMap<OrganizationId, Arc<Semaphore>>>,
}

impl Shares {
    pub(crate) fn new(at_once: usize, aside: usize) -> Self {
        Self {
            patience: PATIENCE,
            all: Semaphore::new(at_once),
            aside: Semaphore::new(aside),
            organizations: Mutex::default(),
        }
    }

    /// Waits for a turn and does the work.
    pub(crate) async fn run<T>(&self, organization: OrganizationId, work: impl Future<Output = T> + Send) -> T {
        let own = self.of(organization);
        let _own = own.acquire().await;
        let place = self.all.acquire().await;
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(self.patience) => {}
        }
        tokio::select! {
            biased;
            done = &mut work => done,
            _aside = self.aside.acquire() => {
                drop(place);
                work.await
            }
        }
    }

    fn of(&self, organization: OrganizationId) -> Arc<Semaphore> {
        let mut organizations = self.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        // What nobody holds or waits for is not kept.
        organizations.retain(|_, own| Arc::strong_count(own) > 1);
        let own = organizations.entry(organization);
        own.or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_let_in(shares: &Shares, organization: OrganizationId) -> bool {
        let done = shares.run(organization, async {});
        tokio::time::timeout(Duration::from_millis(50), done).await.is_ok()
    }

    fn organization(number: u128) -> OrganizationId {
        OrganizationId(uuid::Uuid::from_u128(number))
    }

    /// Something of this organization that takes so long.
    fn busy(shares: &Arc<Shares>, number: u128, time: Duration) -> tokio::task::JoinHandle<()> {
        let shares = shares.clone();
        tokio::spawn(async move { shares.run(organization(number), sleep(time)).await })
    }

    #[tokio::test]
    async fn one_organization_keeps_nobody_else_waiting() {
        let shares = Arc::new(Shares::new(2, 10));
        let [a, b, c] = [1, 2, 3].map(organization);
        let of_a: Vec<_> = (0..30).map(|_| busy(&shares, 1, Duration::from_hours(1))).collect();
        tokio::task::yield_now().await;
        assert!(!is_let_in(&shares, a).await, "one at a time");
        assert!(is_let_in(&shares, b).await);
        let of_b = busy(&shares, 2, Duration::from_hours(1));
        tokio::task::yield_now().await;
        assert!(!is_let_in(&shares, c).await, "two are under way");
        of_b.abort();
        shares.run(c, async {}).await;
        of_a.iter().for_each(tokio::task::JoinHandle::abort);
        shares.run(a, async {}).await;
        let kept = shares.organizations.lock().unwrap().len();
        assert!(kept <= 2, "{kept}: those who are gone are not kept in mind");
    }

    #[tokio::test]
    async fn many_slow_organizations_step_aside() {
        let patience = Duration::from_millis(10);
        let shares = Arc::new(Shares {
            patience,
            ..Shares::new(4, 100)
        });
        for number in 1..41 {
            busy(&shares, number, Duration::from_hours(1));
        }
        tokio::task::yield_now().await;
        let done = shares.run(organization(1000), async {});
        let done = tokio::time::timeout(Duration::from_mins(1), done).await;
        assert!(done.is_ok(), "it waits for nobody's hour");
    }
}
