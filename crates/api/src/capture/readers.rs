//! A fair queue for decompressing and parsing bodies: expensive work for cheap requests, so its concurrency is limited. Requests
//! without a known token never delay those with one.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use service::OrganizationId;
use service::round::{Queue, Round};
use service::sign_in::subnet;
use tokio::sync::oneshot;

use super::answers::Refused;

/// How many of one network may wait in a line.
const MAX_WAITING: usize = 64;
/// A subnet whose work took longer shares half of the places with others of that kind, for a while: taking turns is not fair to those whose
/// turns are short. Among them, those go first that took less time.
const SLOW_AFTER: Duration = Duration::from_millis(100);
/// Long enough that sixteen subnets do not take turns at being slow and resting.
const SLOW_FOR: Duration = Duration::from_mins(1);

/// What is to be done. Each has a line and places of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// The token is looked for in the first part of a body.
    Search,
    /// It is looked for further on.
    LongSearch,
    /// The token is known.
    Read,
}

/// Who has something to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) network: IpAddr,
    /// Whose token it is, once that is known. Teams of one organization share: anybody makes as many as they like.
    pub(super) organization: Option<OrganizationId>,
}

#[derive(Debug, Clone)]
pub(super) struct Readers(Arc<Mutex<[Line; 3]>>);

#[derive(Debug, Default)]
struct Line {
    places: usize,
    taken: usize,
    taken_by_slow: usize,
    waiting: Subnets,
    waiting_slow: Subnets,
    /// How much more time slow ones had than quick ones that waited. They take turns by time, where they share a place.
    debt: Duration,
    slow: HashMap<IpAddr, Slow>,
    /// What the slow one had used that was served last. Others who become slow, or come back, begin there: neither do they all go before those
    /// who are there, nor after them.
    served: Duration,
}

/// A subnet that was slow lately.
#[derive(Debug)]
struct Slow {
    until: Instant,
    /// The time that all of its work took since it is.
    used: Duration,
}

/// Subnets take turns, as tokens are public; in each its networks, so that one with many tokens does not keep its neighbors waiting; and in
/// these the organizations that they send for. Those without a token are one organization here.
type Subnets = Round<IpAddr, Round<IpAddr, Organizations>>;
type Organizations = Round<Option<OrganizationId>, VecDeque<Waiting>>;

#[derive(Debug)]
struct Waiting {
    sender: Sender,
    turn: oneshot::Sender<ReaderPermit>,
}

/// The right to work, for as long as it is held: by the thread that works, as whoever asked may have gone.
#[derive(Debug)]
pub(super) struct ReaderPermit {
    readers: Readers,
    task: Task,
    place: Option<HeldSlot>,
}

/// What is taken of a line.
#[derive(Debug)]
struct HeldSlot {
    subnet: IpAddr,
    is_slow: bool,
    since: Instant,
}

impl Readers {
    /// For a machine with so many processors.
    pub(super) fn new(processors: usize) -> Self {
        let line = |places| Line {
            places,
            ..Line::default()
        };
        let lines = [line((processors / 2).max(1)), line(1), line(processors.max(1))];
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Waits for a turn. Where too many of the same network wait, nobody else does.
    pub(super) async fn turn(&self, task: Task, sender: Sender) -> Result<ReaderPermit, Refused> {
        let waiting = {
            let mut lines = self.lock();
            let line = &mut lines[task as usize];
            line.catch_up(subnet(sender.network));
            if let Some(place) = line.take_free(subnet(sender.network)) {
                drop(lines);
                return Ok(self.permit(task, place));
            }
            line.push(sender)?
        };
        // Somebody may be in line who has gone.
        self.hand_out(task);
        waiting.await.map_err(|_| Refused::Failed)
    }

    fn permit(&self, task: Task, place: HeldSlot) -> ReaderPermit {
        ReaderPermit {
            readers: self.clone(),
            task,
            place: Some(place),
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Line; 3]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free places to those whose turn it is, and who are still there.
    fn hand_out(&self, task: Task) {
        loop {
            let mut lines = self.lock();
            let Some((turn, place)) = lines[task as usize].next() else {
                return;
            };
            drop(lines);
            if let Err(permit) = turn.send(self.permit(task, place)) {
                permit.give_back();
            }
        }
    }
}

impl Line {
    fn push(&mut self, sender: Sender) -> Result<oneshot::Receiver<ReaderPermit>, Refused> {
        let (turn, waiting) = oneshot::channel();
        let subnet = subnet(sender.network);
        let subnets = if self.is_slow(subnet) {
            &mut self.waiting_slow
        } else {
            &mut self.waiting
        };
        let line = subnets.of(subnet).of(sender.network).of(sender.organization);
        line.retain(|other| !other.turn.is_closed());
        if line.len() >= MAX_WAITING {
            return Err(Refused::Busy);
        }
        line.push_back(Waiting { sender, turn });
        Ok(waiting)
    }

    fn is_slow(&self, subnet: IpAddr) -> bool {
        self.slow.get(&subnet).is_some_and(|slow| slow.until > Instant::now())
    }

    fn is_free_for(&self, is_slow: bool) -> bool {
        self.taken < self.places && (!is_slow || self.taken_by_slow < (self.places / 2).max(1))
    }

    /// A place that nobody waits for.
    fn take_free(&mut self, subnet: IpAddr) -> Option<HeldSlot> {
        let is_slow = self.is_slow(subnet);
        let waiting = if is_slow { &self.waiting_slow } else { &self.waiting };
        (waiting.is_over() && self.is_free_for(is_slow)).then(|| self.take(subnet, is_slow))
    }

    fn take(&mut self, subnet: IpAddr, is_slow: bool) -> HeldSlot {
        self.taken += 1;
        self.taken_by_slow += usize::from(is_slow);
        if let Some(slow) = self.slow.get(&subnet).filter(|_| is_slow) {
            self.served = self.served.max(slow.used);
        }
        HeldSlot {
            subnet,
            is_slow,
            since: Instant::now(),
        }
    }

    /// Whose turn it is, if there is a place. The slow ones wait for each other, and not for all who are not.
    fn next(&mut self) -> Option<(oneshot::Sender<ReaderPermit>, HeldSlot)> {
        self.move_slow();
        let is_there = !self.waiting.is_over() && self.is_free_for(false);
        let is_slow_there = !self.waiting_slow.is_over() && self.is_free_for(true);
        let is_slow = is_slow_there && (!is_there || self.debt.is_zero());
        let next = match (is_there, is_slow) {
            (_, true) => self.pop_slow(),
            (true, false) => self.waiting.pop(),
            (false, false) => None,
        };
        let Waiting { sender, turn } = next?;
        Some((turn, self.take(subnet(sender.network), is_slow)))
    }

    /// Those who came before their subnet was slow wait with those who came after.
    fn move_slow(&mut self) {
        let slow: Vec<IpAddr> = self
            .waiting
            .keys()
            .copied()
            .filter(|subnet| self.is_slow(*subnet))
            .collect();
        for subnet in slow {
            while let Some(waiting) = self.waiting.pop_of(subnet) {
                let Sender { network, organization } = waiting.sender;
                let line = self.waiting_slow.of(subnet).of(network).of(organization);
                line.push_back(waiting);
            }
        }
    }

    fn pop_slow(&mut self) -> Option<Waiting> {
        let used = |subnet: &&IpAddr| self.slow.get(*subnet).map(|slow| slow.used);
        let next = self.waiting_slow.keys().min_by_key(used).copied()?;
        self.waiting_slow.pop_of(next)
    }

    /// Of a slow subnet that comes back: what it left to others in the meantime is over.
    fn catch_up(&mut self, subnet: IpAddr) {
        if self.waiting_slow.get(subnet).is_none()
            && let Some(slow) = self.slow.get_mut(&subnet)
        {
            slow.used = slow.used.max(self.served);
        }
    }

    fn give_back(&mut self, place: &HeldSlot) {
        self.taken -= 1;
        self.taken_by_slow -= usize::from(place.is_slow);
        let now = Instant::now();
        let took = now - place.since;
        self.slow.retain(|_, slow| slow.until > now);
        if took > SLOW_AFTER {
            let used = self.slow.get(&place.subnet).map_or(self.served, |slow| slow.used);
            let until = now + SLOW_FOR;
            self.slow.insert(place.subnet, Slow { until, used });
        }
        if let Some(slow) = self.slow.get_mut(&place.subnet) {
            slow.used += took;
        }
        if !place.is_slow {
            self.debt = self.debt.saturating_sub(took);
        } else if !self.waiting.is_over() {
            self.debt += took;
        }
    }
}

impl ReaderPermit {
    /// Whether there was something to give back.
    fn free(&mut self) -> bool {
        let place = self.place.take();
        if let Some(place) = &place {
            self.readers.lock()[self.task as usize].give_back(place);
        }
        place.is_some()
    }

    /// Nobody took it; whoever hands out goes on.
    fn give_back(mut self) {
        self.free();
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        if self.free() {
            self.readers.hand_out(self.task);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn from(number: u8, organization: Option<u128>) -> Sender {
        let id = |number| OrganizationId(uuid::Uuid::from_u128(number));
        Sender {
            network: [192, 0, 2, number].into(),
            organization: organization.map(id),
        }
    }

    /// Those who wait, in the order in which they come to their turns.
    async fn order(task: Task, senders: &[Sender]) -> Vec<Sender> {
        let readers = Readers::new(1);
        let held = readers.turn(task, from(0, None)).await.unwrap();
        let (told, mut turns) = tokio::sync::mpsc::unbounded_channel();
        for sender in senders.iter().copied() {
            let (readers, told) = (readers.clone(), told.clone());
            tokio::spawn(async move {
                let turn = readers.turn(task, sender).await.unwrap();
                told.send(sender).unwrap();
                drop(turn);
            });
            tokio::task::yield_now().await;
        }
        drop((held, told));
        let mut order = Vec::new();
        while let Some(sender) = turns.recv().await {
            order.push(sender);
        }
        order
    }

    #[tokio::test]
    async fn networks_take_turns() {
        let [a, b, c] = [1, 2, 3].map(|number| from(number, None));
        assert_eq!(order(Task::Search, &[a, a, a, b, c, b]).await, [a, b, c, a, b, a]);
    }

    #[tokio::test]
    async fn organizations_of_a_network_take_turns() {
        let [one, other] = [1, 2].map(|organization| from(1, Some(organization)));
        let order = order(Task::Read, &[one, one, one, other]).await;
        assert_eq!(order, [one, other, one, one]);
    }

    #[tokio::test]
    async fn networks_take_turns_however_many_tokens_one_uses() {
        let of_one: Vec<Sender> = (1..10).map(|token| from(1, Some(token))).collect();
        let neighbor = from(99, Some(99));
        let order = order(Task::Read, &[of_one.as_slice(), &[neighbor]].concat()).await;
        assert_eq!(order[1], neighbor, "{order:?}");
    }

    #[tokio::test]
    async fn subnets_take_turns_however_many_tokens_one_uses() {
        let of_one: Vec<Sender> = (1..10).map(|token| from(1, Some(token))).collect();
        let other = Sender {
            network: [198, 51, 100, 1].into(),
            ..from(1, Some(99))
        };
        let order = order(Task::Read, &[of_one.as_slice(), &[other]].concat()).await;
        assert_eq!(order[1], other, "{order:?}");
    }

    #[tokio::test]
    async fn who_searches_does_not_stand_in_the_way_of_who_reads() {
        let readers = Readers::new(2);
        let _searching = readers.turn(Task::Search, from(1, None)).await.unwrap();
        let _long = readers.turn(Task::LongSearch, from(1, None)).await.unwrap();
        let reading = readers.turn(Task::Read, from(1, Some(1)));
        tokio::time::timeout(Duration::from_secs(5), reading)
            .await
            .unwrap()
            .unwrap();
    }

    /// Bodies that take long come from many subnets: those of others do not wait for one of each.
    #[tokio::test]
    async fn who_was_slow_leaves_places_to_others() {
        let readers = Readers::new(2);
        let slow = [11, 12].map(|number: u8| Sender {
            network: [198, 51, number, 1].into(),
            ..from(1, Some(1))
        });
        for sender in slow {
            let turn = readers.turn(Task::Read, sender).await.unwrap();
            tokio::time::sleep(SLOW_AFTER * 2).await;
            drop(turn);
        }
        let first = readers.turn(Task::Read, slow[0]).await.unwrap();
        let mut second = Box::pin(readers.turn(Task::Read, slow[1]));
        assert!(futures_util::poll!(&mut second).is_pending(), "they share one place");
        for number in 1..10 {
            drop(readers.turn(Task::Read, from(number, Some(2))).await.unwrap());
        }
        drop(first);
        assert!(second.await.is_ok());
    }

    fn elsewhere(number: u8) -> Sender {
        Sender {
            network: [198, 51, number, 1].into(),
            ..from(1, Some(1))
        }
    }

    /// Has something read that takes so long.
    fn take(readers: &Readers, sender: Sender, time: Duration) {
        let mut permit = readers
            .turn(Task::Read, sender)
            .now_or_never()
            .expect("it is free")
            .unwrap();
        let place = permit.place.as_mut().unwrap();
        place.since = Instant::now().checked_sub(time).unwrap();
    }

    /// Puts bodies in line, and has one after the other read, each for so long: in which order that was.
    fn in_turn(readers: &Readers, all: &[(Sender, Duration)], turns: usize) -> Vec<Sender> {
        let blocker = readers.turn(Task::Read, elsewhere(99)).now_or_never().unwrap().unwrap();
        let mut waiting: Vec<_> = all
            .iter()
            .map(|(sender, time)| (*sender, *time, Box::pin(readers.turn(Task::Read, *sender))))
            .collect();
        for (.., turn) in &mut waiting {
            assert!(turn.now_or_never().is_none());
        }
        drop(blocker);
        let mut order = Vec::new();
        while order.len() < turns {
            let next = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(index, (sender, time, turn))| {
                    let permit = turn.now_or_never()?;
                    Some((index, *sender, *time, permit.unwrap()))
                });
            let (index, sender, time, mut permit) = next.expect("somebody has the place");
            drop(waiting.remove(index));
            permit.place.as_mut().unwrap().since = Instant::now().checked_sub(time).unwrap();
            drop(permit);
            order.push(sender);
        }
        order
    }

    const LONG: Duration = Duration::from_secs(1);
    const SHORT: Duration = Duration::from_millis(90);

    /// Whoever always has something that takes long, where there is one place, has half of its time.
    #[tokio::test]
    async fn slow_and_quick_ones_share_the_time_of_the_only_place() {
        let readers = Readers::new(1);
        let (slow, quick) = (elsewhere(1), elsewhere(2));
        take(&readers, slow, LONG);
        let all = [[(slow, LONG); 20], [(quick, SHORT); 20]].concat();
        let order = in_turn(&readers, &all, 20);
        let of_slow = order.iter().filter(|sender| **sender == slow).count();
        assert_eq!(of_slow, 2, "one for every eleven or twelve quick ones: {order:?}");
    }

    #[tokio::test]
    async fn whoever_becomes_slow_goes_neither_before_all_who_are_nor_after_them() {
        let readers = Readers::new(1);
        let (old, new) = (elsewhere(1), elsewhere(2));
        for _ in 0..30 {
            take(&readers, old, LONG);
        }
        take(&readers, new, LONG);
        let order = in_turn(&readers, &[[(new, LONG); 10], [(old, LONG); 10]].concat(), 10);
        let of_old = order.iter().filter(|sender| **sender == old).count();
        assert!((4..=6).contains(&of_old), "they take turns: {order:?}");
    }

    #[tokio::test]
    async fn who_becomes_slow_while_others_of_the_subnet_wait_is_so_with_all_of_them() {
        let readers = Readers::new(2);
        let held = [
            readers.turn(Task::Read, from(1, Some(1))).await.unwrap(),
            readers.turn(Task::Read, from(1, Some(1))).await.unwrap(),
        ];
        let mut waiting: Vec<_> = (0..8)
            .map(|_| Box::pin(readers.turn(Task::Read, from(1, Some(1)))))
            .collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        tokio::time::sleep(SLOW_AFTER * 2).await;
        drop(held);
        let mut begun = Vec::new();
        for one in &mut waiting {
            begun.extend(one.now_or_never());
        }
        assert_eq!(begun.len(), 1, "all of them share one place");
    }

    #[tokio::test]
    async fn who_goes_away_gives_the_turn_back() {
        let readers = Readers::new(1);
        let held = readers.turn(Task::Read, from(1, None)).await.unwrap();
        let gone = tokio::spawn({
            let readers = readers.clone();
            async move { readers.turn(Task::Read, from(1, None)).await }
        });
        tokio::task::yield_now().await;
        gone.abort();
        let _ = gone.await;
        drop(held);
        let next = readers.turn(Task::Read, from(2, None));
        tokio::time::timeout(Duration::from_secs(5), next)
            .await
            .unwrap()
            .unwrap();
    }

    #[tokio::test]
    async fn a_network_makes_no_long_line() {
        let readers = Readers::new(1);
        let _held = readers.turn(Task::Search, from(1, None)).await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING)
            .map(|_| Box::pin(readers.turn(Task::Search, from(1, None))))
            .collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        assert!(matches!(
            readers.turn(Task::Search, from(1, None)).await,
            Err(Refused::Busy)
        ));
        let mut other = Box::pin(readers.turn(Task::Search, from(2, None)));
        assert!(futures_util::poll!(&mut other).is_pending());
        waiting.clear();
        let mut again = Box::pin(readers.turn(Task::Search, from(1, None)));
        assert!(
            futures_util::poll!(&mut again).is_pending(),
            "those who went away do not count"
        );
    }
}
