//! Who has how much of a process at the same time: no place and no organization may have all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use service::OrganizationId;
use service::batch_exports::Busy;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The runs under way in a process.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    slots: usize,
    under_way: Arc<Mutex<UnderWay>>,
}

#[derive(Debug, Default)]
struct UnderWay {
    places: HashMap<String, usize>,
    organizations: HashMap<OrganizationId, usize>,
}

/// One run under way. As long as it is held, its place and its organization count as busier.
#[derive(Debug)]
pub(crate) struct Turn {
    runs: Runs,
    place: String,
    organization: OrganizationId,
}

impl Runs {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots,
            under_way: Arc::default(),
        }
    }

    pub(crate) fn begin(&self, place: &str, organization: OrganizationId) -> Turn {
        let mut under_way = self.under_way();
        *under_way.places.entry(place.to_owned()).or_default() += 1;
        *under_way.organizations.entry(organization).or_default() += 1;
        Turn {
            runs: self.clone(),
            place: place.to_owned(),
            organization,
        }
    }

    /// Who has as many slots as they may have while others wait: half of them.
    pub(crate) fn busy(&self) -> Busy {
        let under_way = self.under_way();
        let half = self.slots.div_ceil(2);
        Busy {
            places: at_least((self.slots / 2).max(1), &under_way.places),
            organizations: at_least(half, &under_way.organizations),
            is_strict: false,
        }
    }

    /// For the slot beside the others. It is for organizations that have none, while one has more than half: that one
    /// took them when nobody else waited, and a run may last for days. None: it is not needed.
    pub(crate) fn busy_for_guests(&self) -> Option<Busy> {
        let busy = self.busy();
        let under_way = self.under_way();
        let most = under_way.organizations.values().copied().max().unwrap_or(0);
        (most > self.slots / 2).then(|| Busy {
            organizations: at_least(1, &under_way.organizations),
            is_strict: true,
            ..busy
        })
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut under_way = self.runs.under_way();
        take_one(&mut under_way.places, &self.place);
        take_one(&mut under_way.organizations, &self.organization);
    }
}

fn at_least<K: Clone>(least: usize, counts: &HashMap<K, usize>) -> Vec<K> {
    let many = counts.iter().filter(|(_, count)| **count >= least);
    many.map(|(key, _)| key.clone()).collect()
}

fn take_one<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Who looks at first rows, or tests a destination, at the same time: each organization once. Those whose turn it is wait in one queue, so that
/// organizations take turns, however many each of them asks for.
#[derive(Debug)]
pub(crate) struct Shares {
    all: Arc<Semaphore>,
    organizations: Mutex<HashMap<OrganizationId, Arc<Semaphore>>>,
}

impl Shares {
    pub(crate) fn new(at_once: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(at_once)),
            organizations: Mutex::default(),
        }
    }

    /// Waits for a turn, which lasts until what is returned is dropped.
    pub(crate) async fn turn(&self, organization: OrganizationId) -> Share {
        let own = self.of(organization);
        let own = own.acquire_owned().await.ok();
        Share {
            _own: own,
            _any: self.all.clone().acquire_owned().await.ok(),
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

/// Given back in this order: whoever is next of the same organization goes to the end of the queue.
#[derive(Debug)]
#[must_use]
pub(crate) struct Share {
    _own: Option<OwnedSemaphorePermit>,
    _any: Option<OwnedSemaphorePermit>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn is_let_in(previews: &Shares, organization: OrganizationId) -> bool {
        tokio::time::timeout(Duration::from_millis(50), previews.turn(organization))
            .await
            .is_ok()
    }

    fn organizations() -> [OrganizationId; 3] {
        [1, 2, 3].map(|number| OrganizationId(uuid::Uuid::from_u128(number)))
    }

    #[test]
    fn whoever_has_half_of_the_slots_comes_after_others() {
        let [a, b, _] = organizations();
        for (slots, half) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            let runs = Runs::new(slots);
            let mut turns = vec![runs.begin("there", b)];
            for _ in 1..half {
                turns.push(runs.begin("here", a));
            }
            assert!(!runs.busy().organizations.contains(&a), "{slots}");
            turns.push(runs.begin("here", a));
            assert!(runs.busy().organizations.contains(&a), "{slots}");
            drop(turns);
            assert!(runs.busy().organizations.is_empty() && runs.busy().places.is_empty());
        }
    }

    #[test]
    fn there_is_a_slot_for_guests_while_one_organization_has_most() {
        let [a, b, _] = organizations();
        let runs = Runs::new(4);
        let mut turns = vec![runs.begin("here", a), runs.begin("here", a)];
        assert!(runs.busy_for_guests().is_none());
        turns.push(runs.begin("here", a));
        let busy = runs.busy_for_guests().unwrap();
        assert_eq!((busy.organizations, busy.is_strict), (vec![a], true));
        turns.push(runs.begin("there", b));
        assert_eq!(runs.busy_for_guests().unwrap().organizations.len(), 2);
    }

    #[tokio::test]
    async fn previews_of_one_organization_keep_nobody_else_waiting() {
        let previews = Arc::new(Shares::new(2));
        let [a, b, c] = organizations();
        let of_a = previews.turn(a).await;
        for _ in 0..30 {
            let previews = previews.clone();
            tokio::spawn(async move { drop(previews.turn(a).await) });
        }
        assert!(!is_let_in(&previews, a).await, "one at a time");
        assert!(is_let_in(&previews, b).await);
        let of_b = previews.turn(b).await;
        assert!(!is_let_in(&previews, c).await, "two are under way");
        drop(of_b);
        assert!(is_let_in(&previews, c).await);
        drop(of_a);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(is_let_in(&previews, a).await, "all of them came to their turn");
        assert!(
            previews.organizations.lock().unwrap().len() <= 1,
            "nobody else is kept in mind"
        );
    }
}
