//! A fair semaphore, for the database and other scarce resources: organizations take turns, then the users of each, then the credentials
//! of each user. Tenants whose work was slow recently share a part of the permits.

mod tenant_use;

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::tenant_use::TenantUse;
use super::caller::{self, Caller, Tenant};
use crate::error::{Error, Result};
use crate::id::UserId;
use crate::round::Queue;

/// How long somebody waits for a permit.
const WAIT_LIMIT: Duration = Duration::from_secs(10);
/// When to come back without one.
const BUSY: Duration = Duration::from_secs(2);
/// How long somebody is slow, unless said otherwise.
const SLOW_FOR: Duration = Duration::from_secs(10);
/// Past this many tenants those that are neither here nor slow are forgotten.
const REMEMBERED: usize = 1_000;

/// A number of permits. Clones share them.
#[derive(Clone)]
pub struct FairSemaphore(Arc<Mutex<State>>);

impl fmt::Debug for FairSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairSemaphore").finish_non_exhaustive()
    }
}

/// Who is slow, and what that means.
#[derive(Debug, Clone, Copy)]
pub struct Slow {
    /// Whoever holds a permit for longer is slow, for a while.
    pub after: Duration,
    /// How many permits they may hold, all together.
    pub permits: usize,
}

struct State {
    /// What they are permits for.
    what: &'static str,
    permits: usize,
    free: usize,
    /// How many one tenant may hold.
    most_of_one: usize,
    /// How long all that one tenant holds may take together, by what theirs took lately. There is always one.
    longest_of_one: Option<Duration>,
    /// Whether whoever has a permit waits for something else before their own work begins.
    is_followed_by_waiting: bool,
    slow: Slow,
    slow_for: Duration,
    held_by_slow: usize,
    /// Whether the last one who waited and got a permit was slow.
    was_slow: bool,
    tenants: HashMap<Tenant, TenantUse<Permit>>,
    /// Those that have somebody waiting, in the order of their turns.
    order: VecDeque<Tenant>,
}

impl Slow {
    /// For connections that are used for a moment each.
    pub fn half_of(permits: usize) -> Self {
        Self {
            after: Duration::from_millis(100),
            // Two at least, so that whoever needs a second one while holding the first gets it.
            permits: (permits / 2).max(2),
        }
    }
}

/// The right to one use, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    /// None: it was not handed over in the end.
    semaphore: Option<FairSemaphore>,
    tenant: Tenant,
    /// None: their own work has not begun.
    since: Option<Instant>,
    is_slow: bool,
}

impl FairSemaphore {
    pub fn new(what: &'static str, permits: usize, slow: Slow) -> Self {
        Self(Arc::new(Mutex::new(State {
            what,
            permits,
            free: permits,
            most_of_one: permits,
            longest_of_one: None,
            is_followed_by_waiting: false,
            slow,
            slow_for: SLOW_FOR,
            held_by_slow: 0,
            was_slow: false,
            tenants: HashMap::new(),
            order: VecDeque::new(),
        })))
    }

    /// Unlimited in total, limited for each tenant.
    pub fn for_each(what: &'static str, most_of_one: usize) -> Self {
        let slow = Slow {
            after: Duration::MAX,
            permits: usize::MAX,
        };
        Self::new(what, usize::MAX, slow).with_most_of_one(most_of_one)
    }

    /// The same, of which one tenant holds no more than so many.
    #[must_use]
    pub fn with_most_of_one(self, permits: usize) -> Self {
        self.lock().most_of_one = permits;
        self
    }

    /// Sets for how long a slow tenant counts as slow.
    #[must_use]
    pub fn with_slow_for(self, time: Duration) -> Self {
        self.lock().slow_for = time;
        self
    }

    /// The same, where all that one tenant holds takes no longer than this, as far as can be told.
    #[must_use]
    pub(super) fn with_longest_of_one(self, time: Duration) -> Self {
        self.lock().longest_of_one = Some(time);
        self
    }

    /// The same, where holders say with [`Permit::restart`] when their own work begins. Before that no time counts.
    #[must_use]
    pub fn followed_by_waiting(self) -> Self {
        self.lock().is_followed_by_waiting = true;
        self
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.lock().tenants.values().map(|one| one.held).sum()
    }

    /// For whom the task at hand works.
    pub async fn acquire(&self) -> Result<Permit> {
        self.acquire_by(caller::current()).await
    }

    /// For a person, in whichever organization: all of theirs share one turn.
    pub async fn acquire_for(&self, user: UserId) -> Result<Permit> {
        let of_person = Caller {
            tenant: Tenant::User(user),
            user: Some(user),
            ..caller::current()
        };
        self.acquire_by(of_person).await
    }

    /// The same, for those who need not wait: if they have room, none of theirs waits for it. Others do not matter where each has their own.
    pub fn try_acquire_for(&self, user: UserId) -> Option<Permit> {
        let tenant = Tenant::User(user);
        let mut state = self.lock();
        state.has_room(tenant).then(|| state.permit(self, tenant))
    }

    async fn acquire_by(&self, caller: Caller) -> Result<Permit> {
        let (turn, what) = {
            let mut state = self.lock();
            if state.order.is_empty() && state.has_room(caller.tenant) {
                return Ok(state.permit(self, caller.tenant));
            }
            let turn = state.wait(caller)?;
            state.hand_out(self);
            (turn, state.what)
        };
        let busy = || Error::Unavailable {
            detail: format!("{what} is busy"),
            wait: BUSY,
        };
        let permit = timeout(WAIT_LIMIT, turn).await;
        permit.map_err(|_| busy())?.map_err(|_| busy())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, tenant: Tenant) -> bool {
        let is_slow = || self.tenants.get(&tenant).is_some_and(TenantUse::is_slow);
        self.free > 0 && self.may_have_more(tenant) && (self.held_by_slow < self.slow.permits || !is_slow())
    }

    fn may_have_more(&self, tenant: Tenant) -> bool {
        let may = |one: &TenantUse<Permit>| one.held < self.most_of_one && self.is_time_left_beside(one, one.held);
        self.tenants.get(&tenant).is_none_or(may)
    }

    /// Whether so many others of one tenant leave some of its time.
    fn is_time_left_beside(&self, one: &TenantUse<Permit>, others: usize) -> bool {
        let takes = one.usual.saturating_mul(u32::try_from(others).unwrap_or(u32::MAX));
        self.longest_of_one.is_none_or(|longest| others == 0 || takes < longest)
    }

    fn permit(&mut self, semaphore: &FairSemaphore, tenant: Tenant) -> Permit {
        if self.tenants.len() >= REMEMBERED {
            self.tenants.retain(|_, one| !one.is_over());
        }
        let since = (!self.is_followed_by_waiting).then(Instant::now);
        let one = self.of(tenant);
        let is_slow = one.is_slow();
        one.held += 1;
        self.free -= 1;
        self.held_by_slow += usize::from(is_slow);
        Permit {
            semaphore: Some(semaphore.clone()),
            tenant,
            since,
            is_slow,
        }
    }

    /// Of those who are not known ten have room.
    fn of(&mut self, tenant: Tenant) -> &mut TenantUse<Permit> {
        let usual = self.longest_of_one.map_or(Duration::ZERO, |longest| longest / 10);
        let unknown = || TenantUse {
            usual,
            ..TenantUse::default()
        };
        self.tenants.entry(tenant).or_insert_with(unknown)
    }

    fn wait(&mut self, caller: Caller) -> Result<oneshot::Receiver<Permit>> {
        let Caller {
            tenant,
            user,
            credential,
            ..
        } = caller;
        let one = self.of(tenant);
        // Nobody makes the server itself come back later.
        if !one.has_place_for(user, credential) && tenant != Tenant::System {
            return Err(Error::Throttled(BUSY));
        }
        let is_first = one.waiters == 0;
        one.waiters += 1;
        let (turn, receiver) = oneshot::channel();
        one.waiting.of(user).of(credential).push_back(turn);
        if is_first {
            self.order.push_back(tenant);
        }
        Ok(receiver)
    }

    /// Gives permits that are free to whoever is next.
    fn hand_out(&mut self, semaphore: &FairSemaphore) {
        while let Some((tenant, turn)) = self.next() {
            if turn.is_closed() {
                continue;
            }
            let permit = self.permit(semaphore, tenant);
            let is_slow = permit.is_slow;
            if let Err(mut permit) = turn.send(permit) {
                // Whoever waited has gone. The lock is held, so the permit must not give itself back.
                permit.semaphore = None;
                self.take_back(&permit);
            } else {
                self.was_slow = is_slow;
            }
        }
    }

    /// Whose turn it is. Quick and slow tenants alternate, as one slow request marks all of a tenant: its other users must not wait until
    /// nobody is quick. While quick ones wait, the slow never hold all permits.
    fn next(&mut self) -> Option<(Tenant, oneshot::Sender<Permit>)> {
        if self.free == 0 {
            return None;
        }
        let is_slow = |index: usize| self.tenants.get(&self.order[index]).is_some_and(TenantUse::is_slow);
        let mut able = (0..self.order.len()).filter(|&index| self.may_have_more(self.order[index]));
        let quick = able.clone().find(|&index| !is_slow(index));
        let slow = able.find(|&index| is_slow(index));
        let slow = slow.filter(|_| self.held_by_slow < self.slow.permits);
        let index = match (quick, slow) {
            (Some(quick), Some(slow)) => {
                let leaves_one = self.held_by_slow + 1 < self.permits;
                if leaves_one && !self.was_slow { slow } else { quick }
            }
            (quick, slow) => quick.or(slow)?,
        };
        let tenant = self.order.remove(index)?;
        let one = self.tenants.get_mut(&tenant)?;
        one.waiters -= 1;
        let turn = one.waiting.pop();
        if one.waiters > 0 {
            self.order.push_back(tenant);
        }
        Some((tenant, turn?))
    }

    /// Lately means the last eight or so.
    fn note_time(&mut self, permit: &Permit) {
        let is_counted = self.longest_of_one.is_some();
        let one = self.tenants.get_mut(&permit.tenant).filter(|_| is_counted);
        if let (Some(one), Some(since)) = (one, permit.since) {
            one.usual = (one.usual * 7 + since.elapsed()) / 8;
            one.known_until = Some(Instant::now() + SLOW_FOR);
        }
    }

    fn take_back(&mut self, permit: &Permit) {
        self.free += 1;
        self.held_by_slow -= usize::from(permit.is_slow);
        let Some(one) = self.tenants.get_mut(&permit.tenant) else {
            return;
        };
        one.held -= 1;
        // The server itself is never slow: it clears away what others left.
        let is_slow = permit.since.is_some_and(|since| since.elapsed() > self.slow.after);
        if permit.tenant != Tenant::System && is_slow {
            one.slow_until = Some(Instant::now() + self.slow_for);
        }
        if one.is_over() {
            self.tenants.remove(&permit.tenant);
        }
    }
}

impl Permit {
    /// What was waited for until now was not the holder's own work.
    pub fn restart(&mut self) {
        self.since = Some(Instant::now());
    }

    /// Whether it was given to somebody who was quick, and is slow by now.
    pub(super) fn is_outdated(&self) -> bool {
        let is_slow = |state: &State| state.tenants.get(&self.tenant).is_some_and(TenantUse::is_slow);
        !self.is_slow
            && self
                .semaphore
                .as_ref()
                .is_some_and(|semaphore| is_slow(&semaphore.lock()))
    }

    /// Whether the tenant holds more than it may, because what it did since then took longer than before.
    pub(super) fn is_beyond_share(&self) -> bool {
        let is_beyond = |state: &State| {
            let one = state.tenants.get(&self.tenant);
            one.is_some_and(|one| !state.is_time_left_beside(one, one.held.saturating_sub(1)))
        };
        self.semaphore
            .as_ref()
            .is_some_and(|semaphore| is_beyond(&semaphore.lock()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(semaphore) = mem::take(&mut self.semaphore) else {
            return;
        };
        let mut state = semaphore.lock();
        state.note_time(self);
        state.take_back(self);
        state.hand_out(&semaphore);
    }
}

#[cfg(test)]
mod tests {
    use super::super::caller::{CredentialId, on_behalf_of_caller, on_behalf_of_organization};
    use super::tenant_use::MAX_WAITING;
    use super::*;
    use crate::id::{KeyId, OrganizationId};

    const ONE: Tenant = Tenant::Organization(OrganizationId(uuid::Uuid::from_u128(1)));
    const TWO: Tenant = Tenant::Organization(OrganizationId(uuid::Uuid::from_u128(2)));

    fn organization(number: u128) -> OrganizationId {
        OrganizationId(uuid::Uuid::from_u128(number))
    }

    fn semaphore(permits: usize) -> FairSemaphore {
        FairSemaphore::new("The database", permits, Slow::half_of(permits))
    }

    async fn acquire(semaphore: &FairSemaphore, number: u128) -> Result<Permit> {
        on_behalf_of_organization(organization(number), semaphore.acquire()).await
    }

    fn waiting(semaphore: &FairSemaphore) -> usize {
        semaphore.lock().tenants.values().map(|one| one.waiters).sum()
    }

    /// Lets everybody else come as far as they can.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn where_each_has_a_few_nobody_waits_for_another() {
        let semaphore = FairSemaphore::for_each("the server", 2);
        let mut held = vec![
            acquire(&semaphore, 1).await.unwrap(),
            acquire(&semaphore, 1).await.unwrap(),
        ];
        let third = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { acquire(&semaphore, 1).await.unwrap() }
        });
        settle().await;
        assert_eq!(waiting(&semaphore), 1);
        for _ in 0..2 {
            held.push(acquire(&semaphore, 2).await.unwrap());
        }
        assert!(!third.is_finished());
        held.remove(0);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn what_one_holds_takes_only_so_long() {
        let semaphore = FairSemaphore::for_each("the server", 8).with_longest_of_one(Duration::from_millis(50));
        let first = acquire(&semaphore, 1).await.unwrap();
        let second = acquire(&semaphore, 1).await.unwrap();
        semaphore.lock().tenants.get_mut(&ONE).unwrap().usual = Duration::from_millis(30);
        let third = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { acquire(&semaphore, 1).await.unwrap() }
        });
        settle().await;
        assert!(!third.is_finished(), "two take all of the time");
        acquire(&semaphore, 2).await.unwrap();
        // One that was held for no time: it is known that they take less by now, but not by much.
        drop(second);
        third.await.unwrap();
        drop(first);
        // Whoever has nothing in progress for a moment is not forgotten.
        let usual = semaphore.lock().tenants[&ONE].usual;
        assert!(
            usual < Duration::from_millis(30) && usual > Duration::from_millis(15),
            "{usual:?}"
        );
    }

    #[tokio::test]
    async fn what_was_admitted_is_too_much_once_it_takes_longer() {
        let semaphore = FairSemaphore::for_each("the server", 8)
            .with_longest_of_one(Duration::from_millis(50))
            .followed_by_waiting();
        let first = acquire(&semaphore, 1).await.unwrap();
        let second = acquire(&semaphore, 1).await.unwrap();
        let third = acquire(&semaphore, 1).await.unwrap();
        let other = acquire(&semaphore, 2).await.unwrap();
        assert!(!first.is_beyond_share());
        semaphore.lock().tenants.get_mut(&ONE).unwrap().usual = Duration::from_millis(30);
        assert!(first.is_beyond_share() && !other.is_beyond_share());
        drop(first);
        assert!(!second.is_beyond_share() && !third.is_beyond_share(), "two may be held");
    }

    #[tokio::test]
    async fn what_is_waited_for_is_nobodys_own_work() {
        let slow = Slow {
            after: Duration::ZERO,
            permits: 1,
        };
        let semaphore = FairSemaphore::new("the server", 8, slow)
            .with_longest_of_one(Duration::from_millis(50))
            .followed_by_waiting();
        drop(acquire(&semaphore, 1).await.unwrap());
        assert!(semaphore.lock().tenants.is_empty(), "whoever gave up has done nothing");
        let mut permit = acquire(&semaphore, 1).await.unwrap();
        permit.restart();
        drop(permit);
        assert!(semaphore.lock().tenants[&ONE].is_slow());
    }

    #[tokio::test]
    async fn nobody_waits_for_all_that_another_one_wants() {
        let semaphore = semaphore(1);
        let held = acquire(&semaphore, 1).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for number in [1, 1, 1, 1, 2, 3] {
            let (semaphore, order) = (semaphore.clone(), order.clone());
            tasks.spawn(async move {
                let permit = acquire(&semaphore, number).await.unwrap();
                order.lock().unwrap().push(number);
                drop(permit);
            });
            settle().await;
        }
        drop(held);
        tasks.join_all().await;
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 1, 1, 1]);
        let state = semaphore.lock();
        assert_eq!((state.free, state.held_by_slow), (1, 0));
        assert!(state.tenants.is_empty() && state.order.is_empty());
    }

    #[tokio::test]
    async fn the_slow_leave_some_permits_to_others() {
        let semaphore = semaphore(4);
        for tenant in [ONE, TWO] {
            let until = Instant::now() + Duration::from_hours(1);
            semaphore.lock().tenants.entry(tenant).or_default().slow_until = Some(until);
        }
        let first = acquire(&semaphore, 1).await.unwrap();
        let second = acquire(&semaphore, 2).await.unwrap();
        let third = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { acquire(&semaphore, 1).await }
        });
        settle().await;
        assert_eq!(waiting(&semaphore), 1, "the slow have what they may have");
        let quick = [acquire(&semaphore, 3).await, acquire(&semaphore, 4).await];
        assert!(quick.iter().all(Result::is_ok), "others do not wait for them");
        drop(first);
        drop(third.await.unwrap().unwrap());
        drop((second, quick));
        assert_eq!(semaphore.lock().free, 4);
    }

    /// One slow request marks a whole organization: its other users do not wait until nobody else is there.
    #[tokio::test]
    async fn the_slow_have_their_turns_while_others_are_quick() {
        for (permits, latest) in [(4, 1), (2, 1), (1, 20)] {
            let semaphore = semaphore(permits);
            let until = Instant::now() + Duration::from_hours(1);
            semaphore.lock().tenants.entry(ONE).or_default().slow_until = Some(until);
            let mut held = Vec::new();
            for _ in 0..permits {
                held.push(acquire(&semaphore, 9).await.unwrap());
            }
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = tokio::task::JoinSet::new();
            for number in [[2; 20].as_slice(), &[1, 1]].concat() {
                let (semaphore, order) = (semaphore.clone(), order.clone());
                tasks.spawn(async move {
                    let permit = acquire(&semaphore, number).await.unwrap();
                    order.lock().unwrap().push(number);
                    drop(permit);
                });
                settle().await;
            }
            held.pop();
            tasks.join_all().await;
            let order = order.lock().unwrap();
            let first = order.iter().position(|number| *number == 1).unwrap();
            assert!(first <= latest, "{permits} permits: {order:?}");
        }
    }

    #[tokio::test]
    async fn whoever_turns_out_to_be_slow_is_found_out_by_what_they_hold() {
        let semaphore = semaphore(4);
        let (first, second) = (
            acquire(&semaphore, 1).await.unwrap(),
            acquire(&semaphore, 1).await.unwrap(),
        );
        let other = acquire(&semaphore, 2).await.unwrap();
        assert!(!second.is_outdated());
        semaphore.lock().slow.after = Duration::ZERO;
        drop(first);
        assert!(second.is_outdated() && !other.is_outdated());
        drop(second);
        assert!(
            !acquire(&semaphore, 1).await.unwrap().is_outdated(),
            "it was given to somebody slow"
        );
    }

    #[tokio::test]
    async fn whoever_was_slow_is_so_for_as_long_as_was_said() {
        let semaphore = semaphore(4).with_slow_for(SLOW_FOR * 30);
        semaphore.lock().slow.after = Duration::ZERO;
        drop(acquire(&semaphore, 1).await.unwrap());
        let until = semaphore.lock().tenants[&ONE].slow_until.unwrap();
        assert!(until > Instant::now() + SLOW_FOR * 20);
    }

    #[tokio::test]
    async fn whoever_goes_away_keeps_nothing() {
        let semaphore = semaphore(1);
        let held = acquire(&semaphore, 1).await.unwrap();
        let waiter = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { acquire(&semaphore, 2).await }
        });
        settle().await;
        assert_eq!(waiting(&semaphore), 1);
        waiter.abort();
        assert!(waiter.await.is_err());
        drop(held);
        drop(acquire(&semaphore, 3).await.unwrap());
        assert_eq!(semaphore.lock().free, 1);
    }

    /// One of the credentials of a person.
    fn person_with_key(number: u128) -> Caller {
        Caller {
            tenant: Tenant::User(UserId(7)),
            user: Some(UserId(7)),
            credential: Some(CredentialId::Key(KeyId(uuid::Uuid::from_u128(number)))),
            grant: None,
        }
    }

    #[tokio::test]
    async fn whoever_has_one_key_of_a_person_does_not_keep_the_others_waiting() {
        let semaphore = FairSemaphore::for_each("the server", 1);
        let held = semaphore.acquire_by(person_with_key(1)).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        let mut acquire = |number| {
            let (semaphore, order) = (semaphore.clone(), order.clone());
            tasks.spawn(on_behalf_of_caller(person_with_key(number), async move {
                let permit = semaphore.acquire_for(UserId(7)).await?;
                order.lock().unwrap().push(number);
                drop(permit);
                Ok::<_, Error>(())
            }));
        };
        for _ in 0..MAX_WAITING {
            acquire(1);
        }
        settle().await;
        assert_eq!(
            waiting(&semaphore),
            MAX_WAITING / 4,
            "those beyond are asked to come back"
        );
        acquire(2);
        settle().await;
        assert_eq!(waiting(&semaphore), MAX_WAITING / 4 + 1);
        drop(held);
        while tasks.join_next().await.is_some() {}
        assert_eq!(order.lock().unwrap()[..3], [1, 2, 1]);
    }

    #[test]
    fn one_person_leaves_half_to_others_whatever_keys_they_have() {
        let semaphore = FairSemaphore::for_each("the server", 0);
        let mut state = semaphore.lock();
        let mut waiting = Vec::new();
        for number in 0..100 {
            waiting.extend(std::iter::from_fn(|| state.wait(person_with_key(number)).ok()));
        }
        assert_eq!(waiting.len(), MAX_WAITING / 2);
    }

    #[tokio::test]
    async fn one_tenant_has_so_many_waiting_and_others_do_not_notice() {
        let semaphore = semaphore(1);
        let held = acquire(&semaphore, 1).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..MAX_WAITING / 4 {
            let semaphore = semaphore.clone();
            tasks.spawn(async move { acquire(&semaphore, 1).await.map(drop) });
        }
        while waiting(&semaphore) < MAX_WAITING / 4 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(acquire(&semaphore, 1).await, Err(Error::Throttled(_))));
        let other = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { acquire(&semaphore, 2).await.map(drop) }
        });
        // Nor do others of the same tenant.
        let colleague = tokio::spawn({
            let semaphore = semaphore.clone();
            let caller = Caller {
                tenant: ONE,
                user: Some(UserId(7)),
                credential: None,
                grant: None,
            };
            async move { semaphore.acquire_by(caller).await.map(drop) }
        });
        settle().await;
        drop(held);
        other.await.unwrap().unwrap();
        colleague.await.unwrap().unwrap();
        tasks.abort_all();
    }
}
