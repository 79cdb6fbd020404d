//! Who is next: those who send take turns by neighborhood, and within one by organization. Whoever's work took much gets fewer turns
//! than those whose work took little. Tokens of teams are public, so organizations alone would not do: one sender could use many.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;

/// Who takes a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) source: Source,
    pub(crate) owner: Owner,
}

/// Where work comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Source {
    /// Apps, and the server on behalf of somebody.
    Inside,
    Neighborhood(IpAddr),
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
pub(crate) struct Turns<T> {
    sources: Shares<Source>,
    queues: HashMap<Source, Queues<T>>,
    round: Round,
}

/// What is taken together.
#[derive(Debug, Default)]
struct Round {
    /// What the first had cost.
    least: u64,
    first: Option<Source>,
    are_several: bool,
}

/// What waits from one source.
#[derive(Debug)]
struct Queues<T> {
    owners: Shares<Owner>,
    items: HashMap<Owner, VecDeque<T>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            sources: Shares::default(),
            queues: HashMap::new(),
            round: Round::default(),
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

impl<T> Turns<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(crate) fn push(&mut self, turn: Turn, item: T) {
        self.queue(turn).push_back(item);
    }

    /// Puts back what was taken last, before all else of that turn.
    pub(crate) fn put_back(&mut self, turn: Turn, item: T) {
        self.queue(turn).push_front(item);
    }

    fn queue(&mut self, Turn { source, owner }: Turn) -> &mut VecDeque<T> {
        self.sources.enter(source);
        let queues = self.queues.entry(source).or_default();
        queues.owners.enter(owner);
        queues.items.entry(owner).or_default()
    }

    /// The next of those whose turn it is, with which a round begins. What one of them sent stays in order.
    pub(crate) fn next(&mut self) -> Option<T> {
        let (least, source) = self.sources.first()?;
        self.round = Round {
            least,
            first: Some(source),
            are_several: false,
        };
        self.take(source)
    }

    /// The next one of the same round, unless it is from a source that has cost `apart` more than the first: nobody waits for that.
    pub(crate) fn more(&mut self, apart: u64) -> Option<T> {
        let (cost, source) = self.sources.first()?;
        let is_other = self.round.first != Some(source);
        if (is_other || self.round.are_several) && cost > self.round.least.saturating_add(apart) {
            return None;
        }
        self.round.are_several |= is_other;
        self.take(source)
    }

    fn take(&mut self, source: Source) -> Option<T> {
        self.sources.next()?;
        let queues = self.queues.get_mut(&source)?;
        let owner = queues.owners.next()?;
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
        item
    }

    /// Says what the work of such a turn cost, in any unit, as long as it is the same for all.
    pub(crate) fn charge(&mut self, Turn { source, owner }: Turn, cost: u64) {
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
    /// What whoever was next last had cost.
    least: u64,
    entered: u64,
}

#[derive(Debug)]
struct Share {
    cost: u64,
    /// Those who have cost the same go by their numbers. None: not waiting.
    number: Option<u64>,
}

/// Past so many those who wait for nothing are forgotten.
const REMEMBERED: usize = 1_000;

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self {
            costs: HashMap::new(),
            waiting: BTreeSet::new(),
            least: 0,
            entered: 0,
        }
    }
}

impl<K: Copy + Ord + Hash> Shares<K> {
    fn enter(&mut self, key: K) {
        if self.costs.len() >= REMEMBERED.max(2 * self.waiting.len()) {
            self.costs.retain(|_, share| share.number.is_some());
        }
        let share = self.costs.entry(key).or_insert(Share { cost: 0, number: None });
        if share.number.is_none() {
            share.cost = share.cost.max(self.least);
            self.entered += 1;
            share.number = Some(self.entered);
            self.waiting.insert((share.cost, self.entered, key));
        }
    }

    /// Who is next, and what they have cost.
    fn first(&self) -> Option<(u64, K)> {
        self.waiting.first().map(|&(cost, _, key)| (cost, key))
    }

    /// Whose turn it is. Every turn costs something, so that they alternate even if nothing else does.
    fn next(&mut self) -> Option<K> {
        let &(cost, _, key) = self.waiting.first()?;
        self.least = cost;
        self.charge(key, 1);
        Some(key)
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

    fn team(team: i64) -> Turn {
        Hold::default().turn(team)
    }

    /// Somebody in this neighborhood, with the token of this organization.
    fn sender(neighborhood: u8, organization: u128) -> Turn {
        let neighborhood = IpAddr::from([192, 0, neighborhood, 0]);
        Hold::default().in_turn_of(organization).sent_from(neighborhood).turn(1)
    }

    #[test]
    fn everybody_takes_turns_and_each_keeps_its_order() {
        let mut turns = Turns::default();
        for (number, item) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (3, 'e'), (2, 'f')] {
            turns.push(team(number), item);
        }
        let first = turns.next();
        assert_eq!(first, Some('a'));
        turns.put_back(team(1), 'a');
        let order: String = std::iter::from_fn(|| turns.next()).collect();
        assert!(turns.is_empty());
        assert_eq!(order.len(), 6);
        assert!(order.find('d') < order.find('c'), "{order}");
        assert!(
            order.find('a') < order.find('b') && order.find('b') < order.find('c'),
            "{order}"
        );
    }

    #[test]
    fn all_teams_of_an_organization_share_one_turn() {
        let mut turns = Turns::default();
        for team in 1..100 {
            turns.push(Hold::default().in_turn_of(1).turn(team), "theirs");
        }
        turns.push(Hold::default().in_turn_of(2).turn(100), "mine");
        assert_eq!((turns.next(), turns.next()), (Some("theirs"), Some("mine")));
    }

    #[test]
    fn all_tokens_that_a_neighborhood_uses_share_one_turn() {
        let mut turns = Turns::default();
        for organization in 1..100 {
            turns.push(sender(1, organization), "theirs");
        }
        turns.push(sender(2, 100), "mine");
        assert_eq!((turns.next(), turns.next()), (Some("theirs"), Some("mine")));
    }

    #[test]
    fn whoever_cost_much_waits_for_those_who_cost_little() {
        let (dear, cheap) = (sender(1, 1), sender(2, 2));
        let mut turns = Turns::default();
        for _ in 0..3 {
            turns.push(dear, "dear");
        }
        assert_eq!(turns.next(), Some("dear"));
        turns.charge(dear, 1_000);
        for _ in 0..10 {
            turns.push(cheap, "cheap");
            assert_eq!(turns.next(), Some("cheap"));
            turns.charge(cheap, 10);
        }
        // Also when it comes again.
        turns.push(cheap, "cheap");
        assert_eq!(turns.next(), Some("cheap"));
        turns.charge(cheap, 2_000);
        turns.push(cheap, "cheap");
        assert_eq!((turns.next(), turns.next()), (Some("dear"), Some("dear")));
    }

    #[test]
    fn nobody_waits_in_a_round_for_those_who_cost_much() {
        let (dear, cheap) = (sender(1, 1), sender(2, 2));
        let mut turns = Turns::default();
        for _ in 0..4 {
            turns.push(dear, "dear");
        }
        assert_eq!(turns.next(), Some("dear"));
        turns.charge(dear, 1_000);
        assert_eq!(turns.more(100), Some("dear"), "nobody else is there");
        turns.charge(dear, 1_000);
        for _ in 0..2 {
            turns.push(cheap, "cheap");
        }
        assert_eq!(turns.next(), Some("cheap"));
        turns.charge(cheap, 10);
        assert_eq!(turns.more(100), Some("cheap"));
        turns.charge(cheap, 10);
        assert_eq!(turns.more(100), None);
        assert_eq!(turns.next(), Some("dear"));
    }

    #[test]
    fn nobody_saves_turns_up() {
        let (first, second) = (sender(1, 1), sender(2, 2));
        let mut turns = Turns::default();
        for _ in 0..3 {
            turns.push(first, "first");
        }
        turns.next();
        turns.charge(first, 1_000);
        turns.next();
        turns.charge(first, 1_000);
        for _ in 0..3 {
            turns.push(second, "second");
        }
        assert_eq!(turns.next(), Some("second"));
        turns.charge(second, 1_500);
        assert_eq!(turns.next(), Some("first"), "only what came since counts");
    }

    #[test]
    fn those_who_are_gone_are_forgotten() {
        let mut shares = Shares::default();
        shares.enter(0);
        for key in 1..10_000 {
            shares.enter(key);
            shares.charge(0, 10);
            assert_eq!(shares.next(), Some(key));
            shares.leave(key);
        }
        assert!(shares.costs.len() <= REMEMBERED + 1, "{}", shares.costs.len());
    }
}
