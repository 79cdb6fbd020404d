//! How many exchanges with the identity providers of one organization are in progress at a time: whoever administers a domain chooses
//! how long they last, and how much of an answer is kept until then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use service::OrganizationId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const AT_A_TIME: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Exchanges(Mutex<HashMap<OrganizationId, Arc<Semaphore>>>);

impl Exchanges {
    /// Waits for the organization's other exchanges if there are many. The instance's own providers are the operator's choice.
    pub(crate) async fn begin(&self, organization: Option<OrganizationId>) -> Option<OwnedSemaphorePermit> {
        let permits = self.of(organization?);
        permits.acquire_owned().await.ok()
    }

    fn of(&self, organization: OrganizationId) -> Arc<Semaphore> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody uses.
        all.retain(|_, permits| Arc::strong_count(permits) > 1);
        let permits = all
            .entry(organization)
            .or_insert_with(|| Arc::new(Semaphore::new(AT_A_TIME)));
        permits.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn one_organization_does_not_keep_others_waiting() {
        let exchanges = Exchanges::default();
        let [one, other] = [1, 2].map(|number| Some(OrganizationId(Uuid::from_u128(number))));
        let mut held = Vec::new();
        for _ in 0..AT_A_TIME {
            held.push(exchanges.begin(one).await);
        }
        let next = tokio::time::timeout(Duration::from_millis(20), exchanges.begin(one));
        assert!(next.await.is_err(), "it waits");
        assert!(exchanges.begin(other).await.is_some());
        held.pop();
        assert!(exchanges.begin(one).await.is_some());
        drop(held);
        exchanges.of(OrganizationId(Uuid::nil()));
        assert_eq!(exchanges.0.lock().unwrap().len(), 1, "the others are forgotten");
    }
}
