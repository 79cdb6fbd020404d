//! Concurrency limits for previews and connection tests: one per user, two per organization. Users take turns at the slots, however many
//! organizations they have; users who were slow recently share half of the slots. A slow operation continues outside the slots; when
//! too many do, the oldest is canceled. So slow organizations do not delay others.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use service::{Error, FairSemaphore, OrganizationId, Result, Slow, UserId};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

/// How long others wait for one before it steps aside.
const ASIDE_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Shares {
    aside_after: Duration,
    places: FairSemaphore,
    room_aside: usize,
    /// Those that have taken longer than [`ASIDE_AFTER`], in the order they stepped aside in. Dropped, it ends one of them.
    aside: Mutex<VecDeque<oneshot::Sender<Infallible>>>,
    own: Mutex<HashMap<Own, Arc<Semaphore>>>,
}

/// How many people of one organization are there at the same time.
const COLLEAGUES: usize = 2;
/// So many of one person or organization are there or wait. Whoever waits holds what they sent.
const MAX_PRESENT: usize = 32;
/// When those beyond may come back.
const WAIT: Duration = Duration::from_secs(5);

/// Who has places of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Own {
    User(UserId),
    Organization(OrganizationId),
}

impl Own {
    fn at_once(self) -> usize {
        match self {
            Self::User(_) => 1,
            Self::Organization(_) => COLLEAGUES,
        }
    }
}

impl Shares {
    pub(crate) fn new(what: &'static str, at_once: usize, room_aside: usize) -> Self {
        Self::with_aside_after(ASIDE_AFTER, what, at_once, room_aside)
    }

    fn with_aside_after(aside_after: Duration, what: &'static str, at_once: usize, room_aside: usize) -> Self {
        let slow = Slow {
            after: aside_after / 2,
            permits: (at_once / 2).max(1),
        };
        Self {
            aside_after,
            places: FairSemaphore::new(what, at_once, slow),
            room_aside,
            aside: Mutex::default(),
            own: Mutex::default(),
        }
    }

    /// Waits for a turn and does the work. None: it took long, and others needed the room.
    pub(crate) async fn run<T>(
        &self,
        user: UserId,
        organization: OrganizationId,
        work: impl Future<Output = T> + Send,
    ) -> Result<Option<T>> {
        // First the person: whoever is busy elsewhere keeps no organization waiting.
        let person = self.own(Own::User(user))?;
        let _person = person.acquire().await;
        let organization = self.own(Own::Organization(organization))?;
        let _organization = organization.acquire().await;
        let place = self.places.acquire_for(user).await?;
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return Ok(Some(done)),
            () = sleep(self.aside_after) => {}
        }
        let end = self.step_aside();
        drop(place);
        tokio::select! {
            biased;
            done = &mut work => Ok(Some(done)),
            _ = end => Ok(None),
        }
    }

    fn step_aside(&self) -> oneshot::Receiver<Infallible> {
        let (room, end) = oneshot::channel();
        let mut aside = self.aside.lock().unwrap_or_else(PoisonError::into_inner);
        aside.retain(|other| !other.is_closed());
        aside.push_back(room);
        if aside.len() > self.room_aside {
            aside.pop_front();
        }
        end
    }

    fn own(&self, own: Own) -> Result<Arc<Semaphore>> {
        let mut all = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // What nobody holds or waits for is not kept.
        all.retain(|_, one| Arc::strong_count(one) > 1);
        let one = all
            .entry(own)
            .or_insert_with(|| Arc::new(Semaphore::new(own.at_once())));
        // One is ours.
        if Arc::strong_count(one) > MAX_PRESENT {
            let detail = "Too many tests and previews are in progress".to_owned();
            return Err(Error::Unavailable { detail, wait: WAIT });
        }
        Ok(one.clone())
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, JoinSet, yield_now};
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn organization(number: i64) -> OrganizationId {
        OrganizationId(uuid::Uuid::from_u128(number.unsigned_abs().into()))
    }

    /// Something of this person, in this organization, that never ends on its own.
    fn endless(shares: &Arc<Shares>, user: i64, number: i64) -> JoinHandle<Result<Option<()>>> {
        let shares = shares.clone();
        tokio::spawn(async move {
            shares
                .run(UserId(user), organization(number), std::future::pending())
                .await
        })
    }

    async fn is_let_in(shares: &Shares, user: i64, number: i64) -> bool {
        let done = shares.run(UserId(user), organization(number), async {});
        timeout(Duration::from_millis(50), done).await.is_ok()
    }

    #[tokio::test]
    async fn one_organization_keeps_nobody_else_waiting() {
        let shares = Arc::new(Shares::with_aside_after(LONG * 100, "this", 4, 10));
        let of_one: Vec<_> = (0..30).map(|user| endless(&shares, user, 1)).collect();
        yield_now().await;
        assert!(!is_let_in(&shares, 100, 1).await, "two at a time");
        assert!(is_let_in(&shares, 101, 2).await);
        for one in of_one {
            one.abort();
            assert!(one.await.is_err(), "it never ends on its own");
        }
        let done = shares.run(UserId(100), organization(1), async {}).await;
        assert!(matches!(done, Ok(Some(()))));
        let kept = shares.own.lock().unwrap().len();
        assert!(kept <= 2, "{kept}: those who are gone are not kept in mind");
    }

    #[tokio::test]
    async fn one_person_keeps_no_colleague_waiting() {
        let shares = Arc::new(Shares::with_aside_after(LONG * 100, "this", 4, 10));
        let theirs: Vec<_> = (0..30).map(|_| endless(&shares, 1, 1)).collect();
        yield_now().await;
        for colleague in 2..5 {
            assert!(
                is_let_in(&shares, colleague, 1).await,
                "half of the organization's places"
            );
        }
        theirs.iter().for_each(JoinHandle::abort);
    }

    #[tokio::test]
    async fn only_so_many_of_one_person_wait() {
        let shares = Arc::new(Shares::with_aside_after(LONG * 100, "this", 4, 10));
        let theirs: Vec<_> = (0..MAX_PRESENT).map(|_| endless(&shares, 1, 1)).collect();
        yield_now().await;
        let refused = shares.run(UserId(1), organization(2), async {}).await;
        assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        assert!(is_let_in(&shares, 2, 1).await, "a colleague");
        theirs.iter().for_each(JoinHandle::abort);
    }

    #[tokio::test]
    async fn all_organizations_of_one_person_share_one_turn() {
        let shares = Arc::new(Shares::with_aside_after(LONG * 100, "this", 2, 10));
        let theirs: Vec<_> = (0..30).map(|number| endless(&shares, 1, number)).collect();
        yield_now().await;
        assert!(!is_let_in(&shares, 1, 100).await, "one at a time");
        assert!(is_let_in(&shares, 2, 101).await, "one place is left to others");
        assert!(
            is_let_in(&shares, 2, 29).await,
            "what a person waits for keeps no organization waiting"
        );
        theirs.iter().for_each(JoinHandle::abort);
    }

    #[tokio::test]
    async fn many_slow_people_step_aside_and_make_room() {
        let shares = Arc::new(Shares::with_aside_after(Duration::from_millis(10), "this", 4, 8));
        let mut slow = JoinSet::new();
        for number in 0..40 {
            let slow_one = endless(&shares, number, number);
            slow.spawn(async move { slow_one.await.unwrap() });
        }
        yield_now().await;
        for number in 1000..1010 {
            let done = shares.run(UserId(number), organization(number), async {});
            let done = timeout(LONG, done).await.expect("it waits for nobody's end");
            assert!(matches!(done, Ok(Some(()))));
        }
        // Of those that never end, as many are left as there is room for.
        for _ in 0..32 {
            let ended = timeout(LONG, slow.join_next()).await.expect("others need the room");
            assert!(matches!(ended, Some(Ok(Ok(None)))), "{ended:?}");
        }
        assert_eq!(slow.len(), 8);
    }
}
