//! The order in which those who wait are served: accounts take turns, and so do subnets.
//!
//! A party that is served waits for the next round, and whoever comes belongs to the round in progress. A request belongs to an
//! account and a subnet, and waits for both of them: neither one account from many networks nor many accounts from one
//! network have more than one turn before somebody else.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::oneshot;

/// Who counts as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Party {
    Subnet(IpAddr),
    /// By the key of its address. Only an account that was signed in to from there: anybody can name one that is not theirs.
    Account(Arc<str>),
}

/// A subnet, then the account if it is known.
pub(super) type Parties = Vec<Party>;

/// How many requests may be served or wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) total: usize,
    pub(super) of_subnet: usize,
    pub(super) of_account: usize,
}

impl Limits {
    fn of(self, party: &Party) -> usize {
        match party {
            Party::Subnet(_) => self.of_subnet,
            Party::Account(_) => self.of_account,
        }
    }
}

/// A fair queue. `T` wakes a waiter when its turn comes.
pub(super) struct Line<T> {
    /// Requests that are served, that wait, or that are about to.
    present: usize,
    present_of: HashMap<Party, usize>,
    /// In the order in which they came.
    waiting: Vec<Waiting<T>>,
    pub(super) running: usize,
    round: u64,
    /// How many are served before the next round begins: requests that keep coming do not make a round last forever.
    left_in_round: usize,
    /// The next round of parties that were served in this one.
    next_round: HashMap<Party, u64>,
}

struct Waiting<T> {
    parties: Parties,
    /// The round in which it came.
    since: u64,
    turn: oneshot::Sender<T>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            present: 0,
            present_of: HashMap::new(),
            waiting: Vec::new(),
            running: 0,
            round: 0,
            left_in_round: 0,
            next_round: HashMap::new(),
        }
    }
}

impl<T> Line<T> {
    /// Enters the queue. If it is full, the request that would be served last is dropped for one that would be served earlier.
    /// Returns whether there was room.
    pub(super) fn enter(&mut self, parties: &Parties, limits: Limits) -> bool {
        let is_within = |party: &Party| self.present_of.get(party).is_none_or(|count| *count < limits.of(party));
        if !parties.iter().all(is_within) {
            return false;
        }
        if self.present >= limits.total && !self.turn_last_away(parties) {
            return false;
        }
        self.present += 1;
        for party in parties {
            *self.present_of.entry(party.clone()).or_default() += 1;
        }
        true
    }

    pub(super) fn leave(&mut self, parties: &Parties) {
        self.present -= 1;
        for party in parties {
            if let Some(count) = self.present_of.get_mut(party) {
                *count -= 1;
                if *count == 0 {
                    self.present_of.remove(party);
                }
            }
        }
    }

    /// Waits for a turn. An error is that somebody else got the place.
    pub(super) fn wait(&mut self, parties: &Parties) -> oneshot::Receiver<T> {
        let (turn, receiver) = oneshot::channel();
        self.waiting.push(Waiting {
            parties: parties.clone(),
            since: self.round,
            turn,
        });
        receiver
    }

    /// Whose turn it is, of those who are still there.
    pub(super) fn next(&mut self) -> Option<oneshot::Sender<T>> {
        self.waiting.retain(|waiting| !waiting.turn.is_closed());
        let order = |waiting: &Waiting<T>| {
            let round = self.round_of(&waiting.parties, waiting.since, |_| 0);
            let accounts = waiting.parties.get(1..).unwrap_or_default();
            // Neighbors take turns by account.
            (round, self.round_of(accounts, waiting.since, |_| 0))
        };
        let (position, (round, _)) = self
            .waiting
            .iter()
            .map(order)
            .enumerate()
            .min_by_key(|(position, order)| (*order, *position))?;
        let next = self.waiting.remove(position);
        self.count_turn(&next.parties, round);
        Some(next.turn)
    }

    fn count_turn(&mut self, parties: &[Party], round: u64) {
        for party in parties {
            self.next_round.insert(party.clone(), self.round.max(round) + 1);
        }
        self.left_in_round = self.left_in_round.saturating_sub(1);
        if self.left_in_round > 0 && round <= self.round {
            return;
        }
        self.round = round.max(self.round + 1);
        self.left_in_round = self.waiting.len();
        let (present, round) = (&self.present_of, self.round);
        // A party without a request here is treated like one that was never served when it comes back.
        self.next_round
            .retain(|party, next| *next > round || present.contains_key(party));
    }

    /// In which round a request is served that has been here since a round, with so many of each party before it.
    fn round_of(&self, parties: &[Party], since: u64, before: impl Fn(&Party) -> u64) -> u64 {
        let of_party =
            |party: &Party| self.next_round.get(party).map_or(since, |next| since.max(*next)) + before(party);
        parties.iter().map(of_party).max().unwrap_or(since)
    }

    /// Tells whether there was somebody who would be served later than a new request of these parties.
    fn turn_last_away(&mut self, parties: &[Party]) -> bool {
        let mut before: HashMap<&Party, u64> = HashMap::new();
        let mut last = None;
        for (position, waiting) in self.waiting.iter().enumerate() {
            let round = self.round_of(&waiting.parties, waiting.since, |party| {
                before.get(party).copied().unwrap_or_default()
            });
            last = last.max(Some((round, position)));
            for party in &waiting.parties {
                *before.entry(party).or_default() += 1;
            }
        }
        let own = self.round_of(parties, self.round, |party| {
            before.get(party).copied().unwrap_or_default()
        });
        match last {
            Some((round, position)) if round > own => {
                self.waiting.remove(position);
                true
            }
            _ => false,
        }
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.present == 0 && self.present_of.is_empty()
    }
}
