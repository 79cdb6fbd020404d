//! A weighted fair queue of senders: by subnet, then by organization. Expensive senders get fewer turns than cheap ones, but none
//! waits for all new ones. Team tokens are public, so fairness by organization alone is not enough: one sender could use many.

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// A sender without a turn for this long is late; late senders get every second turn, whatever they cost.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// Who takes a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueKey {
    pub(crate) source: Source,
    pub(crate) owner: Owner,
}

/// Where work comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Source {
    /// Apps, and the server on behalf of somebody.
    Inside,
    Subnet(IpAddr),
    /// What all wait for.
    Nobody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Owner {
    Organization(u128),
    /// Where nobody said which organization it belongs to.
    Team(i64),
    Nobody,
}

#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    sources: Shares<Source>,
    queues: HashMap<Source, Queues<T>>,
    round: Round,
    late_after: Duration,
}

/// What is taken together.
#[derive(Debug, Default)]
struct Round {
    /// The least that anybody who waited had cost.
    least: u64,
    first: Option<Source>,
    are_several: bool,
    /// In a round of the late: whose turn it is, and what that one had cost before.
    late: Option<(Source, u64)>,
}

/// What waits from one source.
#[derive(Debug)]
struct Queues<T> {
    owners: Shares<Owner>,
    items: HashMap<Owner, VecDeque<T>>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            sources: Shares::default(),
            queues: HashMap::new(),
            round: Round::default(),
            late_after: LATE_AFTER,
        }
    }
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Self {
            owners: Shares::default(),
            items: HashMap::new(),
        }
    }
}

impl<T> FairQueue<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(crate) fn push(&mut self, turn: QueueKey, item: T) {
        self.queue(turn).push_back(item);
    }

    /// Puts back what was taken last, before all else of those turns: whoever was next is so again.
    pub(crate) fn put_back(&mut self, items: Vec<(QueueKey, T)>) {
        for (turn, _) in &items {
            self.queue(*turn);
        }
        for (turn, item) in items.into_iter().rev() {
            self.queue(turn).push_front(item);
        }
    }

    fn queue(&mut self, QueueKey { source, owner }: QueueKey) -> &mut VecDeque<T> {
        self.sources.enter(source);
        let queues = self.queues.entry(source).or_default();
        queues.owners.enter(owner);
        queues.items.entry(owner).or_default()
    }

    /// The next of those whose turn it is, with which a round begins. What one of them sent stays in order.
    pub(crate) fn next(&mut self) -> Option<T> {
        let (least, first) = self.sources.first()?;
        let late = self.sources.every_second_late(self.late_after);
        let source = late.map_or(first, |(source, _)| source);
        self.round = Round {
            least,
            first: Some(source),
            are_several: false,
            late,
        };
        self.take(source)
    }

    /// The next one of the same round, unless it is from a source that has cost `apart` more than the least: nobody waits for that,
    /// except for those who are late.
    pub(crate) fn more(&mut self, apart: u64) -> Option<T> {
        let (cost, first) = self.sources.first()?;
        let late = self.late(apart);
        let source = late.unwrap_or(first);
        let is_other = self.round.first != Some(source);
        let is_apart = cost > self.round.least.saturating_add(apart);
        if late.is_none() && (is_other || self.round.are_several) && is_apart {
            return None;
        }
        self.round.are_several |= is_other;
        self.take(source)
    }

    /// In a round of the late: the same one until it has cost `apart`, then the next of them.
    fn late(&mut self, apart: u64) -> Option<Source> {
        let (source, before) = self.round.late?;
        let cost = self.sources.cost_of_waiting(source);
        if cost.is_some_and(|cost| cost <= before.saturating_add(apart)) {
            return Some(source);
        }
        self.round.late = self.sources.late(self.late_after);
        self.round.late.map(|(source, _)| source)
    }

    fn take(&mut self, source: Source) -> Option<T> {
        self.sources.take(source);
        let queues = self.queues.get_mut(&source)?;
        let owner = queues.owners.next(self.late_after)?;
        let queue = queues.items.get_mut(&owner)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            queues.items.remove(&owner);
            queues.owners.leave(owner);
        }
        if queues.items.is_empty() {
            self.queues.remove(&source);
            self.sources.leave(source);
        }
        if self.queues.is_empty() {
            // All are even again, also those who join this round.
            self.round.least = 0;
            self.round.late = None;
        }
        item
    }

    /// Says what the work of such a turn cost, in any unit, as long as it is the same for all.
    pub(crate) fn charge(&mut self, QueueKey { source, owner }: QueueKey, cost: u64) {
        self.sources.charge(source, cost);
        if let Some(queues) = self.queues.get_mut(&source) {
            queues.owners.charge(owner, cost);
        }
    }
}

/// Who waits, and what each has cost. Whoever has cost least is next; those who come later start with what that one has cost, so that
/// nobody saves turns up. Once nobody waits, all are even again.
#[derive(Debug)]
struct Shares<K> {
    costs: HashMap<K, Share>,
    /// Cost and number of whoever waits.
    waiting: BTreeSet<(u64, u64, K)>,
    /// Since when each has waited, with its number.
    by_wait: BTreeSet<(Instant, u64, K)>,
    /// The least that anybody who waited had cost at the last turn.
    least: u64,
    entered: u64,
    /// Whether the last turn was for somebody who was late.
    was_late: bool,
}

#[derive(Debug)]
struct Share {
    cost: u64,
    /// Those who have cost the same go by their numbers. None: not waiting.
    number: Option<u64>,
    /// When it came, or had its last turn.
    since: Instant,
}

/// Past so many those who wait for nothing are forgotten.
const REMEMBERED: usize = 1_000;

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self {
            costs: HashMap::new(),
            waiting: BTreeSet::new(),
            by_wait: BTreeSet::new(),
            least: 0,
            entered: 0,
            was_late: false,
        }
    }
}

impl<K: Copy + Ord + Hash> Shares<K> {
    fn enter(&mut self, key: K) {
        if self.costs.len() >= REMEMBERED.max(2 * self.waiting.len()) {
            self.costs.retain(|_, share| share.number.is_some());
        }
        let now = Instant::now();
        let share = self.costs.entry(key).or_insert(Share {
            cost: 0,
            number: None,
            since: now,
        });
        if share.number.is_none() {
            share.cost = share.cost.max(self.least);
            self.entered += 1;
            share.number = Some(self.entered);
            share.since = now;
            self.waiting.insert((share.cost, self.entered, key));
            self.by_wait.insert((now, self.entered, key));
        }
    }

    /// Who is next, and what they have cost.
    fn first(&self) -> Option<(u64, K)> {
        self.waiting.first().map(|&(cost, _, key)| (cost, key))
    }

    /// Who has waited longest, if that is too long, and what they have cost.
    fn late(&self, after: Duration) -> Option<(K, u64)> {
        let &(since, _, key) = self.by_wait.first()?;
        let cost = self.cost_of_waiting(key)?;
        (since.elapsed() >= after).then_some((key, cost))
    }

    /// The same, unless the last turn was for somebody like that. Those who are new start with the least, so whoever has cost
    /// more would wait as long as others come that are new.
    fn every_second_late(&mut self, after: Duration) -> Option<(K, u64)> {
        let late = self.late(after).filter(|_| !self.was_late);
        self.was_late = late.is_some();
        late
    }

    fn cost_of_waiting(&self, key: K) -> Option<u64> {
        let share = self.costs.get(&key)?;
        share.number.map(|_| share.cost)
    }

    /// Whose turn it is.
    fn next(&mut self, late_after: Duration) -> Option<K> {
        let (_, first) = self.first()?;
        let late = self.every_second_late(late_after);
        let key = late.map_or(first, |(key, _)| key);
        self.take(key);
        Some(key)
    }

    /// Gives one its turn. Every turn costs something, so that they alternate even if nothing else does.
    fn take(&mut self, key: K) {
        if let Some((least, _)) = self.first() {
            self.least = least;
        }
        self.charge(key, 1);
        let Some(share) = self.costs.get_mut(&key) else { return };
        if let Some(number) = share.number {
            self.by_wait.remove(&(share.since, number, key));
            share.since = Instant::now();
            self.by_wait.insert((share.since, number, key));
        }
    }

    fn charge(&mut self, key: K, cost: u64) {
        let Some(share) = self.costs.get_mut(&key) else { return };
        let before = share.cost;
        share.cost += cost;
        if let Some(number) = share.number {
            self.waiting.remove(&(before, number, key));
            self.waiting.insert((share.cost, number, key));
        }
    }

    fn leave(&mut self, key: K) {
        let Some(share) = self.costs.get_mut(&key) else { return };
        if let Some(number) = share.number.take() {
            self.waiting.remove(&(share.cost, number, key));
            self.by_wait.remove(&(share.since, number, key));
        }
        if self.waiting.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hold;

    fn team(team: i64) -> QueueKey {
        Hold::default().turn(team)
    }

    /// Somebody in this subnet, with the token of this organization.
    fn sender(subnet: u8, organization: u128) -> QueueKey {
        let subnet = IpAddr::from([192, 0, subnet, 0]);
        Hold::default().in_turn_of(organization).sent_from(subnet).turn(1)
    }

    #[test]
    fn everybody_takes_turns_and_each_keeps_its_order() {
        let mut queue = FairQueue::default();
        for (number, item) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (3, 'e'), (2, 'f')] {
            queue.push(team(number), item);
        }
        let first = queue.next();
        assert_eq!(first, Some('a'));
        queue.put_back(vec![(team(1), 'a')]);
        let order: String = std::iter::from_fn(|| queue.next()).collect();
        assert!(queue.is_empty());
        assert_eq!(order.len(), 6);
        assert!(order.find('d') < order.find('c'), "{order}");
        assert!(
            order.find('a') < order.find('b') && order.find('b') < order.find('c'),
            "{order}"
        );
    }

    #[test]
    fn all_teams_of_an_organization_share_one_turn() {
        let mut queue = FairQueue::default();
        for team in 1..100 {
            queue.push(Hold::default().in_turn_of(1).turn(team), "theirs");
        }
        queue.push(Hold::default().in_turn_of(2).turn(100), "mine");
        assert_eq!((queue.next(), queue.next()), (Some("theirs"), Some("mine")));
    }

    #[test]
    fn all_tokens_that_a_subnet_uses_share_one_turn() {
        let mut queue = FairQueue::default();
        for organization in 1..100 {
            queue.push(sender(1, organization), "theirs");
        }
        queue.push(sender(2, 100), "mine");
        assert_eq!((queue.next(), queue.next()), (Some("theirs"), Some("mine")));
    }

    #[test]
    fn whoever_cost_much_waits_for_those_who_cost_little() {
        let (expensive, cheap) = (sender(1, 1), sender(2, 2));
        let mut queue = FairQueue::default();
        for _ in 0..3 {
            queue.push(expensive, "expensive");
        }
        assert_eq!(queue.next(), Some("expensive"));
        queue.charge(expensive, 1_000);
        for _ in 0..10 {
            queue.push(cheap, "cheap");
            assert_eq!(queue.next(), Some("cheap"));
            queue.charge(cheap, 10);
        }
        // Also when it comes again.
        queue.push(cheap, "cheap");
        assert_eq!(queue.next(), Some("cheap"));
        queue.charge(cheap, 2_000);
        queue.push(cheap, "cheap");
        assert_eq!((queue.next(), queue.next()), (Some("expensive"), Some("expensive")));
    }

    #[test]
    fn nobody_waits_in_a_round_for_those_who_cost_much() {
        let (expensive, cheap) = (sender(1, 1), sender(2, 2));
        let mut queue = FairQueue::default();
        for _ in 0..4 {
            queue.push(expensive, "expensive");
        }
        assert_eq!(queue.next(), Some("expensive"));
        queue.charge(expensive, 1_000);
        assert_eq!(queue.more(100), Some("expensive"), "nobody else is there");
        queue.charge(expensive, 1_000);
        for _ in 0..2 {
            queue.push(cheap, "cheap");
        }
        assert_eq!(queue.next(), Some("cheap"));
        queue.charge(cheap, 10);
        assert_eq!(queue.more(100), Some("cheap"));
        queue.charge(cheap, 10);
        assert_eq!(queue.more(100), None);
        assert_eq!(queue.next(), Some("expensive"));
    }

    #[test]
    fn nor_if_they_joined_when_nobody_was_left() {
        let (known, expensive, cheap) = (sender(1, 1), sender(2, 2), sender(3, 3));
        let mut queue = FairQueue::default();
        for _ in 0..2 {
            queue.push(known, "known");
        }
        assert_eq!(queue.next(), Some("known"));
        queue.charge(known, 1_000);
        assert_eq!(queue.next(), Some("known"));
        for (turn, item) in [(expensive, "expensive"), (expensive, "expensive"), (cheap, "cheap")] {
            queue.push(turn, item);
        }
        assert_eq!(queue.more(100), Some("expensive"));
        queue.charge(expensive, 500);
        assert_eq!(queue.more(100), Some("cheap"));
        assert_eq!(queue.more(100), None, "what was before does not count");
    }

    #[test]
    fn nobody_saves_turns_up() {
        let (first, second) = (sender(1, 1), sender(2, 2));
        let mut queue = FairQueue::default();
        for _ in 0..3 {
            queue.push(first, "first");
        }
        queue.next();
        queue.charge(first, 1_000);
        queue.next();
        queue.charge(first, 1_000);
        for _ in 0..3 {
            queue.push(second, "second");
        }
        assert_eq!(queue.next(), Some("second"));
        queue.charge(second, 1_500);
        assert_eq!(queue.next(), Some("first"), "only what came since counts");
    }

    /// Everybody is late at once, so that no test waits.
    fn impatient() -> FairQueue<&'static str> {
        FairQueue {
            late_after: Duration::ZERO,
            ..FairQueue::default()
        }
    }

    #[test]
    fn nobody_waits_for_all_who_are_new() {
        let known = sender(0, 1);
        let mut queue = impatient();
        for _ in 0..2 {
            queue.push(known, "known");
        }
        assert_eq!(queue.next(), Some("known"));
        queue.charge(known, 1_000_000);
        let mut order = Vec::new();
        for subnet in 1..100 {
            let new = sender(subnet, 1);
            queue.push(new, "new");
            order.extend(queue.next());
            queue.charge(new, 1_000);
        }
        let place = order.iter().position(|item| *item == "known");
        assert_eq!(place, Some(1), "{order:?}");
    }

    #[test]
    fn nor_does_an_organization_within_a_subnet() {
        let known = sender(0, 0);
        let mut queue = impatient();
        for _ in 0..2 {
            queue.push(known, "known");
        }
        assert_eq!(queue.next(), Some("known"));
        queue.charge(known, 1_000_000);
        let mut order = Vec::new();
        for organization in 1..100 {
            queue.push(sender(0, organization), "new");
            order.extend(queue.next());
        }
        let place = order.iter().position(|item| *item == "known");
        assert_eq!(place, Some(1), "{order:?}");
    }

    #[test]
    fn a_round_of_the_late_takes_some_of_each() {
        let (known, other, new) = (sender(1, 1), sender(2, 2), sender(3, 3));
        let mut queue = impatient();
        for _ in 0..4 {
            queue.push(known, "known");
        }
        queue.push(other, "other");
        assert_eq!(queue.next(), Some("known"));
        queue.charge(known, 1_000);
        assert_eq!(queue.next(), Some("other"), "every second turn goes by what they cost");
        queue.push(new, "new");
        assert_eq!(queue.next(), Some("known"));
        queue.charge(known, 10);
        assert_eq!(queue.more(100), Some("known"));
        queue.charge(known, 200);
        assert_eq!(queue.more(100), Some("new"));
    }

    #[test]
    fn those_who_are_gone_are_forgotten() {
        let mut shares = Shares::default();
        shares.enter(0);
        for key in 1..10_000 {
            shares.enter(key);
            shares.charge(0, 10);
            assert_eq!(shares.next(Duration::MAX), Some(key));
            shares.leave(key);
        }
        assert!(shares.costs.len() <= REMEMBERED + 1, "{}", shares.costs.len());
    }
}
