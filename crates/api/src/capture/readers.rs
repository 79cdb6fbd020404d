//! A fair queue for decompressing and parsing bodies: expensive work for cheap requests, so its concurrency is limited. Requests
//! without a known token never delay those with one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use service::OrganizationId;
use service::round::{Queue, Round};
use service::sign_in::subnet;
use tokio::sync::oneshot;

use super::answers::Refused;

/// How many of one network may wait in a line.
const MAX_WAITING: usize = 64;
/// How long the longest body of somebody is remembered, and what they have used.
const REMEMBERED_FOR: Duration = Duration::from_mins(1);
/// What somebody who used little is ahead of the others at most, unless the next body takes longer: more would let many of them, after a rest,
/// keep those waiting who always have something.
const MAX_AHEAD: Duration = Duration::from_secs(1);
/// How often those are forgotten that have nothing to do.
const FORGET_EVERY: Duration = Duration::from_secs(10);

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
    /// Whether it becomes so much more than was sent that it costs the sender almost nothing.
    pub(super) is_highly_compressed: bool,
}

/// Whose time it takes: that of a subnet, and in it of a network.
#[derive(Debug, Clone, Copy)]
struct Group {
    subnet: IpAddr,
    network: IpAddr,
}

/// No sender has this address.
const ALL_HIGHLY_COMPRESSED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// How many times as much their time counts.
const HIGHLY_COMPRESSED_WEIGHT: u32 = 4;

impl Group {
    /// A time as it counts for the subnet.
    fn weighed(self, time: Duration) -> Duration {
        if self.subnet == ALL_HIGHLY_COMPRESSED {
            time * HIGHLY_COMPRESSED_WEIGHT
        } else {
            time
        }
    }
}

impl Sender {
    /// What is highly compressed is one subnet, from wherever it comes.
    fn group(self) -> Group {
        let subnet = subnet(self.network);
        if self.is_highly_compressed {
            return Group {
                subnet: ALL_HIGHLY_COMPRESSED,
                network: subnet,
            };
        }
        Group {
            subnet,
            network: self.network,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Readers(Arc<Mutex<[Line; 3]>>);

/// Those who wait for one of a few places.
///
/// Subnets share the time, as tokens are public; in each its networks do, so that one with many tokens does not keep its neighbors waiting; and in
/// these the organizations that they send for take turns. Those without a token are one organization here.
///
/// Bodies that are highly compressed share a quarter of the time of one subnet, and in it the subnets do that they come from: otherwise whoever
/// sends a few kilobytes from many subnets would have nearly all of it.
#[derive(Debug, Default)]
struct Line {
    places: usize,
    taken: usize,
    waiting: BTreeMap<IpAddr, BTreeMap<IpAddr, Organizations>>,
    subnets: Shares,
    /// Of each subnet.
    networks: HashMap<IpAddr, Shares>,
    forgets_at: Option<Instant>,
}

type Organizations = Round<Option<OrganizationId>, VecDeque<oneshot::Sender<ReaderPermit>>>;

/// What those have used who share the time: it is the time that is shared, not the number of turns, as some bodies take a thousand times as long
/// as others. How long one takes is known only when it is over, so each is expected to take as long as the longest of late.
#[derive(Debug, Default)]
struct Shares {
    usage: HashMap<IpAddr, Usage>,
    /// What whoever is furthest on had used when the last body began. Those who come, or come back, begin a little behind.
    furthest: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Usage {
    /// The time of all bodies, those in progress as they are expected.
    used: Duration,
    longest: Duration,
    /// When `longest` is forgotten.
    until: Instant,
}

impl Shares {
    /// How long the next body may take.
    fn expected(&self, of: IpAddr) -> Duration {
        self.usage.get(&of).map_or(Duration::ZERO, |usage| usage.longest)
    }

    /// What will have been used when a body begins: no less than what others leave.
    fn begins_at(&self, of: IpAddr, expected: Duration) -> Duration {
        let used = self.usage.get(&of).map_or(Duration::ZERO, |usage| usage.used);
        used.max(self.furthest.saturating_sub(MAX_AHEAD.max(expected)))
    }

    /// The same when it is over.
    fn ends_at(&self, of: IpAddr, expected: Duration) -> Duration {
        self.begins_at(of, expected) + expected
    }

    fn begin(&mut self, of: IpAddr, expected: Duration, now: Instant) {
        let begins_at = self.begins_at(of, expected);
        self.furthest = self.furthest.max(begins_at);
        self.usage_of(of, now).used = begins_at + expected;
    }

    fn end(&mut self, of: IpAddr, expected: Duration, took: Duration, now: Instant) {
        let usage = self.usage_of(of, now);
        usage.used = (usage.used + took).saturating_sub(expected);
        if took >= usage.longest || usage.until <= now {
            usage.longest = took;
            usage.until = now + REMEMBERED_FOR;
        }
    }

    fn usage_of(&mut self, of: IpAddr, now: Instant) -> &mut Usage {
        self.usage.entry(of).or_insert(Usage {
            used: Duration::ZERO,
            longest: Duration::ZERO,
            until: now + REMEMBERED_FOR,
        })
    }

    /// Whoever waits is never forgotten: they would go before all others.
    fn forget(&mut self, now: Instant, is_waiting: impl Fn(&IpAddr) -> bool) {
        self.usage.retain(|of, usage| usage.until > now || is_waiting(of));
    }
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
    group: Group,
    since: Instant,
    /// How long it is expected to be held.
    expected: Duration,
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
            // Nobody waits for a place that is free: it is handed out when it is given back.
            if line.taken < line.places {
                let place = line.take(sender.group());
                drop(lines);
                return Ok(self.permit(task, place));
            }
            line.push(sender)?
        };
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

    /// Gives a place back, and free ones to those whose turn it is, and who are still there.
    fn give_back(&self, task: Task, place: HeldSlot) {
        let mut returned = Some(place);
        loop {
            let mut lines = self.lock();
            let line = &mut lines[task as usize];
            if let Some(place) = returned.take() {
                line.give_back(&place);
            }
            let Some((turn, place)) = line.next() else {
                return;
            };
            drop(lines);
            // Somebody may be in line who has gone.
            returned = turn
                .send(self.permit(task, place))
                .err()
                .and_then(|mut permit| permit.place.take());
        }
    }
}

impl Line {
    fn push(&mut self, sender: Sender) -> Result<oneshot::Receiver<ReaderPermit>, Refused> {
        let (turn, waiting) = oneshot::channel();
        let group = sender.group();
        let networks = self.waiting.entry(group.subnet).or_default();
        let line = networks.entry(group.network).or_default().of(sender.organization);
        line.retain(|other| !other.is_closed());
        if line.len() >= MAX_WAITING {
            return Err(Refused::Busy);
        }
        line.push_back(turn);
        Ok(waiting)
    }

    /// Whose turn it is, if there is a place: whoever will have used least when the next body is over.
    fn next(&mut self) -> Option<(oneshot::Sender<ReaderPermit>, HeldSlot)> {
        if self.taken >= self.places {
            return None;
        }
        let each = self
            .waiting
            .iter()
            .filter_map(|(subnet, networks)| self.next_of(*subnet, networks));
        let ends_at = |group: &Group| self.subnets.ends_at(group.subnet, group.weighed(self.expected(*group)));
        let group = each.min_by_key(ends_at)?;
        let turn = self.pop(group)?;
        Some((turn, self.take(group)))
    }

    /// The same in a subnet.
    fn next_of(&self, subnet: IpAddr, networks: &BTreeMap<IpAddr, Organizations>) -> Option<Group> {
        let shares = self.networks.get(&subnet);
        let ends_at = |network: &IpAddr| shares.map(|shares| shares.ends_at(*network, shares.expected(*network)));
        let network = networks.keys().copied().min_by_key(ends_at)?;
        Some(Group { subnet, network })
    }

    fn pop(&mut self, group: Group) -> Option<oneshot::Sender<ReaderPermit>> {
        let networks = self.waiting.get_mut(&group.subnet)?;
        let organizations = networks.get_mut(&group.network)?;
        let turn = organizations.pop();
        if organizations.is_over() {
            networks.remove(&group.network);
        }
        if networks.is_empty() {
            self.waiting.remove(&group.subnet);
        }
        turn
    }

    fn expected(&self, group: Group) -> Duration {
        let shares = self.networks.get(&group.subnet);
        shares.map_or(Duration::ZERO, |shares| shares.expected(group.network))
    }

    fn take(&mut self, group: Group) -> HeldSlot {
        let (expected, since) = (self.expected(group), Instant::now());
        self.taken += 1;
        self.subnets.begin(group.subnet, group.weighed(expected), since);
        let networks = self.networks.entry(group.subnet).or_default();
        networks.begin(group.network, expected, since);
        HeldSlot { group, since, expected }
    }

    fn give_back(&mut self, place: &HeldSlot) {
        let (now, group) = (Instant::now(), place.group);
        let (expected, took) = (place.expected, now - place.since);
        self.taken -= 1;
        let subnets = &mut self.subnets;
        subnets.end(group.subnet, group.weighed(expected), group.weighed(took), now);
        let networks = self.networks.entry(group.subnet).or_default();
        networks.end(group.network, expected, took, now);
        if self.forgets_at.is_none_or(|at| at <= now) {
            self.forget(now);
            self.forgets_at = Some(now + FORGET_EVERY);
        }
    }

    fn forget(&mut self, now: Instant) {
        let waiting = &self.waiting;
        self.subnets.forget(now, |subnet| waiting.contains_key(subnet));
        for (subnet, shares) in &mut self.networks {
            let networks = waiting.get(subnet);
            shares.forget(now, |network| {
                networks.is_some_and(|networks| networks.contains_key(network))
            });
        }
        self.networks.retain(|_, shares| !shares.usage.is_empty());
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.readers.give_back(self.task, place);
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
            is_highly_compressed: false,
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
    async fn networks_of_a_subnet_share_its_time() {
        let readers = Readers::new(1);
        let [much, little] = [1, 2].map(|number| from(number, None));
        let all = [[(much, LONG); 10], [(little, SHORT); 10]].concat();
        take(&readers, much, LONG);
        take(&readers, little, SHORT);
        let order = in_turn(&readers, &all, 10);
        assert_eq!(
            of(&order, little),
            10,
            "all of them take less than one of the other's: {order:?}"
        );
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
        assert!(order[..2].contains(&neighbor), "{order:?}");
    }

    #[tokio::test]
    async fn subnets_take_turns_however_many_tokens_one_uses() {
        let of_one: Vec<Sender> = (1..10).map(|token| from(1, Some(token))).collect();
        let other = Sender {
            network: [198, 51, 100, 1].into(),
            ..from(1, Some(99))
        };
        let order = order(Task::Read, &[of_one.as_slice(), &[other]].concat()).await;
        assert!(order[..2].contains(&other), "{order:?}");
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

    fn of(order: &[Sender], sender: Sender) -> usize {
        order.iter().filter(|other| **other == sender).count()
    }

    /// Whoever always has something that takes long, where there is one place, has half of its time.
    #[tokio::test]
    async fn slow_and_quick_ones_share_the_time_of_the_only_place() {
        let readers = Readers::new(1);
        let (slow, quick) = (elsewhere(1), elsewhere(2));
        take(&readers, slow, LONG);
        take(&readers, quick, LONG);
        let all = [[(slow, LONG); 60], [(quick, SHORT); 60]].concat();
        let order = in_turn(&readers, &all, 60);
        assert!(
            (3..=6).contains(&of(&order, slow)),
            "one for every eleven or twelve quick ones: {order:?}"
        );
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
        assert!((4..=6).contains(&of(&order, old)), "they take turns: {order:?}");
    }

    /// Many could be so together, and whoever comes then would wait for all of them.
    #[tokio::test]
    async fn those_who_used_the_same_do_not_all_go_before_one_who_used_little() {
        let readers = Readers::new(1);
        let many: Vec<Sender> = (1..17).map(elsewhere).collect();
        let one = elsewhere(100);
        for _ in 0..3 {
            for sender in &many {
                take(&readers, *sender, LONG);
            }
        }
        take(&readers, one, SHORT);
        let all: Vec<_> = many
            .iter()
            .map(|sender| (*sender, LONG))
            .chain([(one, SHORT)])
            .collect();
        assert_eq!(in_turn(&readers, &all, 1), [one]);
    }

    /// Their bodies take just less than would make them slow.
    #[tokio::test]
    async fn quick_ones_share_the_time_too() {
        let readers = Readers::new(1);
        let one = (elsewhere(100), Duration::from_millis(5));
        let many: Vec<_> = (1..17).map(|number| (elsewhere(number), SHORT)).collect();
        for (sender, time) in many.iter().chain([&one]) {
            take(&readers, *sender, *time);
        }
        let all = [many.repeat(10), vec![one; 30]].concat();
        let order = in_turn(&readers, &all, 50);
        assert_eq!(of(&order, one.0), 30, "it takes less than one of the others: {order:?}");
    }

    /// A subnet costs whoever sends a few kilobytes almost nothing, so they can have many.
    #[tokio::test]
    async fn what_is_highly_compressed_shares_the_time_of_one_subnet() {
        let readers = Readers::new(1);
        let usual = (elsewhere(100), SHORT);
        let compressed: Vec<_> = (1..17)
            .map(|number| {
                let sender = Sender {
                    is_highly_compressed: true,
                    ..elsewhere(number)
                };
                (sender, 2 * SHORT)
            })
            .collect();
        for (sender, time) in compressed.iter().chain([&usual]) {
            take(&readers, *sender, *time);
        }
        let order = in_turn(&readers, &[compressed.repeat(4), vec![usual; 20]].concat(), 30);
        let usual = of(&order, usual.0);
        assert!((19..=20).contains(&usual), "two for each of the others: {order:?}");
        let of_subnets = compressed.iter().map(|(sender, _)| of(&order, *sender));
        assert!(of_subnets.max() <= Some(1), "they take turns: {order:?}");
    }

    #[tokio::test]
    async fn what_waits_is_remembered_however_long() {
        let readers = Readers::new(1);
        let (much, little) = (elsewhere(1), elsewhere(2));
        for _ in 0..5 {
            take(&readers, much, LONG);
        }
        take(&readers, little, SHORT);
        let gone = elsewhere(4);
        take(&readers, gone, SHORT);
        let held = readers.turn(Task::Read, elsewhere(3)).now_or_never().unwrap().unwrap();
        let mut first = Box::pin(readers.turn(Task::Read, much));
        let mut second = Box::pin(readers.turn(Task::Read, little));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        {
            let mut lines = readers.lock();
            let line = &mut lines[Task::Read as usize];
            let past = Instant::now().checked_sub(LONG).unwrap();
            line.forgets_at = Some(past);
            for shares in line.networks.values_mut().chain([&mut line.subnets]) {
                shares.usage.values_mut().for_each(|usage| usage.until = past);
            }
        }
        drop(held);
        assert!(first.now_or_never().is_none(), "it used more");
        assert!(second.now_or_never().is_some());
        let usage = &readers.lock()[Task::Read as usize].subnets.usage;
        assert!(
            !usage.contains_key(&subnet(gone.network)),
            "who does not wait is forgotten"
        );
    }

    /// Longer than those who are ahead are ahead, and others always have something.
    #[tokio::test]
    async fn whoever_takes_long_has_a_turn_beside_those_who_do_not() {
        let readers = Readers::new(1);
        let (one, busy) = (elsewhere(1), elsewhere(2));
        take(&readers, one, 3 * LONG);
        for _ in 0..100 {
            take(&readers, busy, SHORT);
        }
        let order = in_turn(&readers, &[vec![(busy, SHORT); 50], vec![(one, 3 * LONG)]].concat(), 50);
        assert_eq!(of(&order, one), 1, "{order:?}");
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
