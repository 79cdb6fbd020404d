//! How much memory requests that capture may use at once, all together and each sender for itself.
//!
//! Memory is reserved before it is used, in the size it really has: bytes that have arrived, not those that were
//! announced, and values as they are once parsed. Until its token is known a request shares a small part with all others
//! of that kind, and where that is full, whoever has most of it makes room. Nobody, by address or by organization, gets more
//! than five sixteenths, and subnets share an organization's part, and all of it ([`super::part`]). Of the part for large bodies neither an organization nor a subnet, as tokens can be read on any
//! website, gets more than half of what others leave; and however many large or unknown bodies there are, a quarter is left for
//! small ones of known organizations.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use events::capture::Refusal;
use service::OrganizationId;
use service::sign_in::{network, subnet};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::answers::Refused;
use super::part::much;
use super::readers::Sender;
use super::usage::{Holding, Limits, MAX_OF_NETWORK, Used, large_part, leave};
use crate::http::bodies::BodyRef;

/// Unless the operator says otherwise.
pub(super) const DEFAULT_BYTES: usize = 768 * 1024 * 1024;
/// Who finds no memory within this is asked to come back.
const WAIT_LIMIT: Duration = Duration::from_secs(10);
/// Whoever waits also tries again after this: what was given back may have gone to one who cannot use it.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Limits,
    used: Mutex<Used>,
}

/// The part of one request, given back when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    shared: Arc<Shared>,
    holding: Holding,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self::with_wait_limit(bytes, WAIT_LIMIT)
    }

    fn with_wait_limit(bytes: usize, wait_limit: Duration) -> Self {
        let limits = Limits {
            all: bytes,
            large: bytes / 8 * 5,
            unauthenticated: bytes / 8,
            unauthenticated_of_subnet: bytes / 16,
            unauthenticated_of_network: bytes / 32,
            of_one: bytes / 16 * 5,
            wait_limit,
        };
        Self(Arc::new(Shared {
            limits,
            used: Mutex::default(),
        }))
    }

    /// Lets a request in, with no memory yet.
    pub(super) fn enter(&self, address: IpAddr) -> Result<Reservation, Refused> {
        let network = network(address);
        let mut used = self.0.lock();
        let share = used.networks.entry(network).or_default();
        if share.requests >= MAX_OF_NETWORK {
            return Err(Refused::Busy);
        }
        share.requests += 1;
        Ok(Reservation {
            shared: self.0.clone(),
            holding: Holding::of(network),
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(self: &Arc<Self>, network: IpAddr) -> Result<Waiting, Refused> {
        self.lock().waiters.enter(network)?;
        Ok(Waiting {
            shared: self.clone(),
            network,
        })
    }
}

/// One who waits, for as long as this is there.
struct Waiting {
    shared: Arc<Shared>,
    network: IpAddr,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.lock().waiters.leave(self.network);
    }
}

impl Reservation {
    /// Reserves more, if there is more.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Refused> {
        let limits = &self.shared.limits;
        let total = self.holding.bytes.saturating_add(bytes);
        if total > much(limits.of_one) {
            return Err(Refused::TooMuchMemory);
        }
        if self.holding.organization.is_none() && total > limits.unauthenticated_of_network {
            return Err(Refusal::TokenTooFar.into());
        }
        let mut used = self.shared.lock();
        let share = used.networks.get(&self.holding.network).copied().unwrap_or_default();
        let large = self.holding.large_part(total) - self.holding.large_part(self.holding.bytes);
        let has_room = used.all + bytes <= limits.all
            && share.bytes + bytes <= limits.of_one
            && match self.holding.organization {
                Some(organization) => used.has_room_for(limits, &self.holding, organization, bytes, large),
                None => used.make_room(limits, &self.holding, bytes),
            };
        if !has_room {
            return Err(Refused::Busy);
        }
        used.change(limits, &self.holding, total);
        drop(used);
        self.holding.bytes = total;
        Ok(())
    }

    /// Gives back what is no longer needed.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        if bytes < self.holding.bytes {
            let mut used = self.shared.lock();
            used.change(&self.shared.limits, &self.holding, bytes);
            used.waiters.wake(self.holding.network);
            drop(used);
            self.holding.bytes = bytes;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.holding.bytes
    }

    /// Whose this is.
    pub(super) fn sender(&self) -> Sender {
        Sender {
            network: self.holding.network,
            organization: self.holding.organization,
            is_highly_compressed: false,
        }
    }

    /// Whether so much could be reserved now, without doing it.
    pub(super) fn has_room(&mut self, bytes: usize) -> Result<(), Refused> {
        let before = self.holding.bytes;
        self.grow(bytes)?;
        // Nobody is woken: nothing was given back that others waited for.
        self.shared.lock().change(&self.shared.limits, &self.holding, before);
        self.holding.bytes = before;
        Ok(())
    }

    /// Lets the request hold memory for long before it is known whose it is. It ends with what this returns: that comes when
    /// others who have less need the room. Once the token is known it never does.
    pub(super) fn stay(&mut self) -> impl Future<Output = ()> + use<> {
        let (end, ended) = oneshot::channel();
        let mut used = self.shared.lock();
        // One that stays already has somebody who listens.
        if self.holding.body_ref.is_none() {
            used.change(&self.shared.limits, &self.holding, 0);
            let bytes = std::mem::take(&mut self.holding.bytes);
            used.stayed += 1;
            let body_ref = BodyRef {
                whose: subnet(self.holding.network),
                network: self.holding.network,
                number: used.stayed,
            };
            used.bodies.add(body_ref, 0, Some(end));
            self.holding.body_ref = Some(body_ref);
            used.change(&self.shared.limits, &self.holding, bytes);
            self.holding.bytes = bytes;
        }
        drop(used);
        async move {
            if ended.await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The request is for this organization: from now on it shares with the organization's others, whichever team they are for.
    pub(super) fn authenticate(&mut self, organization: OrganizationId) -> Result<(), Refused> {
        if self.holding.organization.is_some() {
            return Ok(());
        }
        let mut used = self.shared.lock();
        let sender = (organization, subnet(self.holding.network));
        let bytes = self.holding.bytes;
        let has_room = used.may_have_one_more(sender)
            && used.has_room_for(
                &self.shared.limits,
                &self.holding,
                organization,
                bytes,
                large_part(bytes),
            );
        // Who has made room for others cannot go on.
        if !has_room || self.holding.body_ref.is_some_and(|body_ref| !used.bodies.has(body_ref)) {
            return Err(Refused::Busy);
        }
        used.change(&self.shared.limits, &self.holding, 0);
        self.holding.bytes = 0;
        used.forget(self.holding.body_ref.take());
        self.holding.organization = Some(organization);
        used.organizations.entry(organization).or_default().requests += 1;
        *used.senders.entry(sender).or_default() += 1;
        used.change(&self.shared.limits, &self.holding, bytes);
        drop(used);
        self.holding.bytes = bytes;
        Ok(())
    }

    /// Tries as often as others give something back.
    pub(super) async fn patiently(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        match attempt(self) {
            // Few have to wait, and the others should not carry what it takes.
            Err(Refused::Busy) => Box::pin(self.in_turn(attempt)).await,
            other => other,
        }
    }

    async fn in_turn(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<(), Refused>) -> Result<(), Refused> {
        let shared = self.shared.clone();
        let _waiting = shared.wait(self.holding.network)?;
        let deadline = Instant::now() + shared.limits.wait_limit;
        while Instant::now() < deadline {
            let told = shared.lock().waiters.turn(self.holding.network)?;
            match attempt(self) {
                Err(Refused::Busy) => {}
                Ok(()) => {
                    // There may be enough for one more.
                    shared.lock().waiters.wake_next();
                    return Ok(());
                }
                other => return other,
            }
            // Told or not, it is time to try again.
            let _ = timeout_at(deadline.min(Instant::now() + AGAIN_AFTER), told).await;
        }
        attempt(self)
    }
}

impl events::Held for Reservation {
    fn shrink_to(&mut self, bytes: usize) {
        Self::shrink_to(self, bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut used = self.shared.lock();
        used.change(&self.shared.limits, &self.holding, 0);
        used.forget(self.holding.body_ref.take());
        leave(&mut used.networks, self.holding.network);
        if let Some(organization) = self.holding.organization {
            leave(&mut used.organizations, organization);
            used.forget_sender((organization, subnet(self.holding.network)));
        }
        used.waiters.wake(self.holding.network);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures_util::FutureExt;

    use super::super::usage::MAX_OF_ORGANIZATION;
    use super::super::waiters::MAX_OF_NETWORK as MAX_WAITING_OF_NETWORK;
    use super::*;

    const ALL: usize = 64 * 1024 * 1024;
    const MB: usize = 1024 * 1024;

    /// Each in a subnet of its own.
    fn from(number: u8) -> IpAddr {
        [192, 0, number, 1].into()
    }

    fn is_busy<T>(result: &Result<T, Refused>) -> bool {
        matches!(result, Err(Refused::Busy))
    }

    fn organization(number: u128) -> OrganizationId {
        OrganizationId(uuid::Uuid::from_u128(number))
    }

    fn authenticated(budget: &Budget, network: u8, number: u128, bytes: usize) -> Reservation {
        let mut one = budget.enter(from(network)).unwrap();
        one.authenticate(organization(number)).unwrap();
        one.grow(bytes).unwrap();
        one
    }

    #[test]
    fn a_network_gets_its_part_and_all_of_it_is_given_back() {
        let budget = Budget::new(ALL);
        let mut held: Vec<Reservation> = (0..20).map(|number| authenticated(&budget, 1, number, MB)).collect();
        let mut next = authenticated(&budget, 1, 99, 0);
        assert!(is_busy(&next.grow(1)));
        let other = authenticated(&budget, 2, 1, MB / 8);
        held.pop();
        next.grow(MB).unwrap();
        drop((held, next, other));
        let used = budget.0.lock();
        assert_eq!((used.all, used.large, used.unauthenticated), (0, 0, 0));
        assert!(used.networks.is_empty() && used.organizations.is_empty());
    }

    #[test]
    fn an_organization_gets_its_part_from_wherever_it_sends() {
        let budget = Budget::new(ALL);
        let mut held = Vec::new();
        for network in 0..20 {
            let mut one = authenticated(&budget, network, 1, 0);
            if one.grow(MB).is_ok() {
                held.push(one);
            }
        }
        assert!((15..20).contains(&held.len()), "{} of 20 have a megabyte", held.len());
        let mut next = budget.enter(from(99)).unwrap();
        next.grow(MB).unwrap();
        assert!(
            is_busy(&next.authenticate(organization(1))),
            "what was held before counts as well"
        );
        next.authenticate(organization(2)).unwrap();
        authenticated(&budget, 98, 1, 1).grow(MB / 16).unwrap();
        drop(held);
        assert!(budget.0.lock().parts.len() == 1, "the next one's");
    }

    #[test]
    fn who_has_shown_no_token_shares_a_small_part() {
        let budget = Budget::new(ALL);
        let unauthenticated = |network| {
            let mut one = budget.enter(from(network)).unwrap();
            one.grow(2 * MB).unwrap();
            one
        };
        let mut first = unauthenticated(1);
        assert!(matches!(first.grow(1), Err(Refused::Body(Refusal::TokenTooFar))));
        assert!(is_busy(&budget.enter(from(1)).unwrap().grow(1)), "of one network");
        let others: Vec<Reservation> = (2..5).map(unauthenticated).collect();
        let mut fifth = budget.enter(from(5)).unwrap();
        assert!(is_busy(&fifth.grow(1)), "of all");
        fifth.authenticate(organization(1)).unwrap();
        fifth.grow(4 * MB).unwrap();
        drop((first, others));
    }

    #[test]
    fn large_and_unknown_bodies_leave_a_quarter_for_small_ones() {
        let budget = Budget::new(ALL);
        let unauthenticated: Vec<Reservation> = (200..204)
            .map(|network| {
                let mut one = budget.enter(from(network)).unwrap();
                one.grow(2 * MB).unwrap();
                one
            })
            .collect();
        let large: Vec<Reservation> = (0_u8..)
            .zip([17 * MB, 10 * MB, 5 * MB, 2 * MB, 2 * MB, MB * 3 / 2, MB / 64 * 65])
            .map(|(number, bytes)| authenticated(&budget, number, number.into(), bytes))
            .collect();
        assert!(is_busy(&authenticated(&budget, 99, 99, 0).grow(2 * MB)));
        let mut small: Vec<Reservation> = (10..26)
            .map(|number| authenticated(&budget, number, number.into(), MB))
            .collect();
        assert!(is_busy(&small[0].grow(1)), "growing large counts all of it");
        drop(large);
        small[0].grow(1).unwrap();
        small[0].shrink_to(10);
        drop(unauthenticated);
        assert_eq!(budget.0.lock().large, 0);
    }

    #[test]
    fn a_few_organizations_leave_room_for_large_bodies_of_others() {
        let budget = Budget::new(ALL);
        let mut held = Vec::new();
        for number in [1, 2] {
            for network in 0..100 {
                let mut one = authenticated(&budget, network, number, 0);
                if one.grow(MB * 3 / 2).is_ok() {
                    held.push(one);
                }
            }
        }
        let mut other = authenticated(&budget, 200, 3, 0);
        other.grow(4 * MB).unwrap();
        assert!(is_busy(&other.grow(4 * MB)), "nor does this one take all that is left");
        let mut late = budget.enter(from(201)).unwrap();
        late.grow(2 * MB).unwrap();
        assert!(
            is_busy(&late.authenticate(organization(1))),
            "what is large already counts as well"
        );
        late.authenticate(organization(4)).unwrap();
    }

    #[test]
    fn a_subnet_with_many_tokens_leaves_room_for_large_bodies_of_others() {
        let budget = Budget::new(ALL);
        let mut held = Vec::new();
        for number in 0_u8..=255 {
            let mut one = budget.enter([198, 51, 100, number].into()).unwrap();
            one.authenticate(organization(u128::from(number % 32))).unwrap();
            if one.grow(MB * 3 / 2).is_ok() {
                held.push(one);
            }
        }
        let mut other = authenticated(&budget, 1, 99, 0);
        other.grow(8 * MB).unwrap();
        drop((held, other));
        assert!(budget.0.lock().subnets.is_empty());
    }

    type Listening = Pin<Box<dyn Future<Output = ()>>>;

    /// One that stays, with what it is told if it has to end.
    fn staying(budget: &Budget, address: [u8; 4]) -> (Reservation, Listening) {
        let mut one = budget.enter(address.into()).unwrap();
        let ended = Box::pin(one.stay());
        (one, ended)
    }

    #[test]
    fn who_has_most_makes_room_for_who_has_less() {
        let budget = Budget::new(ALL);
        let mut held: Vec<_> = (0..8).map(|number| staying(&budget, [198, 51, number, 1])).collect();
        for (one, _) in &mut held {
            one.grow(MB).unwrap();
        }
        let (mut equal, _listening) = staying(&budget, [198, 51, 100, 1]);
        assert!(is_busy(&equal.grow(MB)), "nobody has more");
        equal.grow(MB / 2).unwrap();
        let is_ended = |held: &mut Vec<(Reservation, Listening)>| -> Vec<usize> {
            let ended = |(_, ended): &mut (_, Listening)| ended.now_or_never().is_some();
            held.iter_mut()
                .enumerate()
                .filter_map(|(place, one)| ended(one).then_some(place))
                .collect()
        };
        let first = is_ended(&mut held);
        let [place] = first[..] else { panic!("{first:?}") };
        let (mut loser, _) = held.remove(place);
        assert!(
            is_busy(&loser.grow(1)) && is_busy(&loser.authenticate(organization(1))),
            "it is over"
        );
        let (mut winner, mut ended) = held.pop().unwrap();
        winner.authenticate(organization(1)).unwrap();
        let others: Vec<_> = (0..20).map(|number| staying(&budget, [203, 0, number, 1])).collect();
        let others: Vec<_> = others
            .into_iter()
            .map(|(mut one, ended)| {
                one.grow(MB / 4).unwrap();
                (one, ended)
            })
            .collect();
        assert!((&mut ended).now_or_never().is_none(), "who is known stays");
        drop((held, loser, winner, equal, others));
        let used = budget.0.lock();
        assert_eq!((used.all, used.unauthenticated), (0, 0));
        assert!(used.networks.is_empty() && used.bodies.is_empty());
    }

    #[test]
    fn neighbors_share_and_the_largest_makes_room_first() {
        let budget = Budget::new(ALL);
        let mut held: Vec<_> = (1..=4).map(|number| staying(&budget, [198, 51, 100, number])).collect();
        for ((one, _), bytes) in held.iter_mut().zip([2 * MB, MB, MB / 2, MB / 2]) {
            one.grow(bytes).unwrap();
        }
        let (mut next, _listening) = staying(&budget, [198, 51, 100, 5]);
        assert!(is_busy(&next.grow(2 * MB)), "the subnet has no more");
        next.grow(MB).unwrap();
        let ended: Vec<bool> = held
            .iter_mut()
            .map(|(_, ended)| ended.now_or_never().is_some())
            .collect();
        assert_eq!(ended, [true, false, false, false]);
        let (mut again, _listening) = staying(&budget, [198, 51, 100, 2]);
        again.grow(MB).unwrap();
        let third = staying(&budget, [198, 51, 100, 2]).0.grow(MB / 2);
        assert!(is_busy(&third), "those of one network wait for each other");
    }

    /// As small bodies do while their organization has no room.
    #[test]
    fn who_begins_to_stay_later_makes_room_from_then_on() {
        let budget = Budget::new(ALL);
        let mut held: Vec<_> = (1..=4)
            .map(|subnet| budget.enter([198, 51, subnet, 1].into()).unwrap())
            .collect();
        for one in &mut held {
            one.grow(2 * MB).unwrap();
        }
        let (mut other, _listening) = staying(&budget, [203, 0, 113, 1]);
        assert!(is_busy(&other.grow(MB / 2)));
        let mut waiting: Vec<Listening> = held.iter_mut().map(|one| Box::pin(one.stay()) as Listening).collect();
        other.grow(MB / 2).unwrap();
        let ended = waiting.iter_mut().filter_map(FutureExt::now_or_never).count();
        assert_eq!(ended, 1);
        let mut twice = Box::pin(held[0].stay());
        assert!((&mut twice).now_or_never().is_none(), "it stays already");
    }

    #[test]
    fn what_can_never_fit_is_refused_for_good() {
        let mut one = authenticated(&Budget::new(ALL), 1, 1, 0);
        assert!(matches!(one.grow(ALL / 2), Err(Refused::TooMuchMemory)));
        assert!(matches!(one.grow(usize::MAX), Err(Refused::TooMuchMemory)));
    }

    #[test]
    fn no_subnet_keeps_others_from_using_a_token() {
        let budget = Budget::new(ALL);
        let ask = |subnet: u8, network: u8| {
            let mut one = budget.enter([192, 0, subnet, network].into()).unwrap();
            one.authenticate(organization(1)).map(|()| one)
        };
        let mut held = Vec::new();
        for subnet in 1..=6 {
            for number in 0..=MAX_OF_ORGANIZATION {
                let network = u8::try_from(number / 1000).unwrap();
                match ask(subnet, network) {
                    Ok(one) => held.push(one),
                    Err(_) => break,
                }
            }
        }
        assert!(held.len() > MAX_OF_ORGANIZATION / 2 && is_busy(&ask(1, 9)));
        for _ in 0..20 {
            held.push(ask(7, 1).expect("a few are left"));
        }
        drop(held);
        let used = budget.0.lock();
        assert!(used.senders.is_empty() && used.organizations.is_empty());
    }

    #[test]
    fn a_network_has_so_many_requests_under_way() {
        let budget = Budget::new(ALL);
        let sixty_four = |end: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, end]);
        let held: Vec<Reservation> = (0..MAX_OF_NETWORK)
            .map(|number| budget.enter(sixty_four(u16::try_from(number).unwrap())).unwrap())
            .collect();
        assert!(matches!(budget.enter(sixty_four(9999)), Err(Refused::Busy)));
        budget.enter(from(1)).unwrap();
        drop(held);
        budget.enter(sixty_four(9999)).unwrap();
    }

    #[tokio::test]
    async fn who_waits_gets_what_is_given_back() {
        let budget = Budget::with_wait_limit(ALL, Duration::from_millis(20));
        let mut first = budget.enter(from(1)).unwrap();
        first.grow(2 * MB).unwrap();
        let mut second = budget.enter(from(1)).unwrap();
        let busy = second.patiently(|one| one.grow(MB)).await;
        assert!(is_busy(&busy), "nothing was given back");
        let giving = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        let (got, ()) = tokio::join!(second.patiently(|one| one.grow(MB)), giving);
        got.unwrap();
    }

    #[tokio::test]
    async fn who_gives_something_back_does_not_wake_everybody() {
        let budget = Budget::new(ALL);
        let mut held = budget.enter(from(1)).unwrap();
        held.grow(2 * MB).unwrap();
        let attempts = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let waiting: Vec<_> = (0..MAX_WAITING_OF_NETWORK)
            .map(|_| {
                let (budget, attempts) = (budget.clone(), attempts.clone());
                tokio::spawn(async move {
                    let mut one = budget.enter(from(1)).unwrap();
                    let counted = |one: &mut Reservation| {
                        attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        one.grow(2 * MB)
                    };
                    one.patiently(counted).await
                })
            })
            .collect();
        let started = std::time::Instant::now();
        while attempts.load(std::sync::atomic::Ordering::Relaxed) < 2 * MAX_WAITING_OF_NETWORK {
            tokio::task::yield_now().await;
        }
        let before = attempts.load(std::sync::atomic::Ordering::Relaxed);
        let mut next = budget.enter(from(1)).unwrap();
        let asked = std::time::Instant::now();
        assert!(
            is_busy(&next.patiently(|one| one.grow(1)).await),
            "too many wait already"
        );
        assert!(asked.elapsed() < Duration::from_secs(8));
        for _ in 0..3 {
            drop(budget.enter(from(2)).unwrap());
        }
        tokio::task::yield_now().await;
        let woken = attempts.load(std::sync::atomic::Ordering::Relaxed) - before;
        // Each tries again after a while, told or not.
        let is_slow = started.elapsed() >= AGAIN_AFTER;
        assert!(woken <= 2 * 3 * 2 || is_slow, "{woken} tried again");
        drop(held);
        for one in waiting {
            one.await.unwrap().unwrap();
        }
        let used = budget.0.lock();
        assert!(used.all == 0 && used.waiters.is_empty());
    }
}
