//! Which ids of events were stored lately, for each team on its own: however many ids one team sends, it does not make
//! another's forgotten.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use hashbrown::HashMap;
use uuid::Uuid;

/// How many ids are remembered in all, in 45 MB at most. A team alone has all of them.
const MAX: usize = 1_000_000;
/// How many are forgotten at a time, so that the team with the most is not looked for too often, and which part of its
/// ids that is at most.
const AT_A_TIME: usize = 1_000;
const PART: usize = 8;

#[derive(Debug)]
pub(crate) struct Remembered {
    /// Senders cannot make two ids that look the same here, because the key is random.
    key: RandomState,
    teams: HashMap<i64, OfTeam>,
    /// How many ids all ended batches have.
    total: usize,
    most: usize,
}

#[derive(Debug, Default)]
struct OfTeam {
    known: HashSet<u64, BuildHasherDefault<Itself>>,
    /// The same, oldest first.
    order: VecDeque<u64>,
    /// The number of each batch, and how many ids it has.
    batches: VecDeque<(i64, u32)>,
    /// How many ids these have together.
    in_batches: usize,
}

impl Default for Remembered {
    fn default() -> Self {
        Self::with_room_for(MAX)
    }
}

impl Remembered {
    pub(crate) fn with_room_for(most: usize) -> Self {
        Self {
            key: RandomState::new(),
            teams: HashMap::new(),
            total: 0,
            most,
        }
    }

    pub(crate) fn contains(&self, team: i64, uuid: Uuid) -> bool {
        let fingerprint = self.key.hash_one(uuid);
        self.teams
            .get(&team)
            .is_some_and(|ids| ids.known.contains(&fingerprint))
    }

    /// Remembers an id. False: it was remembered already.
    pub(crate) fn insert(&mut self, team: i64, uuid: Uuid) -> bool {
        let fingerprint = self.key.hash_one(uuid);
        let ids = self.teams.entry(team).or_default();
        let is_new = ids.known.insert(fingerprint);
        if is_new {
            ids.order.push_back(fingerprint);
        }
        is_new
    }

    /// Gives the ids that a team got since its last batch a number. Gives the numbers of batches that were forgotten for
    /// it: the oldest ones of whoever has most.
    pub(crate) fn end_batch(&mut self, team: i64, number: i64) -> Vec<i64> {
        if let Some(ids) = self.teams.get_mut(&team) {
            let count = ids.order.len() - ids.in_batches;
            ids.batches
                .push_back((number, u32::try_from(count).unwrap_or(u32::MAX)));
            ids.in_batches += count;
            self.total += count;
        }
        let mut forgotten = Vec::new();
        while self.total > self.most {
            let Some((&team, ids)) = self.teams.iter_mut().max_by_key(|(_, ids)| ids.in_batches) else {
                break;
            };
            let least = (ids.in_batches / PART).clamp(1, AT_A_TIME);
            self.total -= ids.forget(least, &mut forgotten);
            if ids.order.is_empty() {
                self.teams.remove(&team);
            }
        }
        forgotten
    }

    /// Forgets at least so many of the oldest ids of a team, and gives the numbers of their batches.
    pub(crate) fn forget_some(&mut self, team: i64, least: usize) -> Vec<i64> {
        let mut forgotten = Vec::new();
        if let Some(ids) = self.teams.get_mut(&team) {
            self.total -= ids.forget(least, &mut forgotten);
            if ids.order.is_empty() {
                self.teams.remove(&team);
            }
        }
        forgotten
    }
}

impl OfTeam {
    /// Forgets at least so many of the oldest ids, in whole batches, and says how many.
    fn forget(&mut self, least: usize, numbers: &mut Vec<i64>) -> usize {
        let mut forgotten = 0;
        while forgotten < least
            && let Some((number, count)) = self.batches.pop_front()
        {
            for fingerprint in self.order.drain(..count as usize) {
                self.known.remove(&fingerprint);
            }
            numbers.push(number);
            forgotten += count as usize;
        }
        self.in_batches -= forgotten;
        // Who had many and has few must not keep the room.
        if self.order.len() < self.known.capacity() / 8 {
            self.known.shrink_to_fit();
            self.order.shrink_to_fit();
            self.batches.shrink_to_fit();
        }
        forgotten
    }
}

/// A fingerprint is a hash already.
#[derive(Debug, Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only fingerprints are hashed")
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(ids: &mut Remembered, team: i64, uuids: std::ops::Range<u128>) -> usize {
        let new = uuids.filter(|&uuid| ids.insert(team, Uuid::from_u128(uuid))).count();
        ids.end_batch(team, 0);
        new
    }

    #[test]
    fn an_id_of_one_team_is_new_to_another() {
        let mut ids = Remembered::with_room_for(10);
        let id = Uuid::from_u128(7);
        assert!(ids.insert(1, id) && ids.insert(2, id) && !ids.insert(1, id));
        assert!(ids.contains(1, id) && !ids.contains(3, id));
    }

    #[test]
    fn a_team_that_sends_much_does_not_make_the_ids_of_another_forgotten() {
        let mut ids = Remembered::with_room_for(10_000);
        assert_eq!(sent(&mut ids, 1, 0..3_000), 3_000);
        for start in (0..100_000).step_by(500) {
            assert_eq!(sent(&mut ids, 2, start..start + 500), 500);
        }
        assert_eq!(sent(&mut ids, 1, 0..3_000), 0, "a repeat is still known");
        assert_eq!(sent(&mut ids, 2, 95_000..100_000), 0, "and what was sent lately");
        assert!(ids.total <= 10_000);
        let held: usize = ids.teams.values().map(|ids| ids.known.len()).sum();
        assert_eq!((held, ids.total), (held, held));
    }

    #[test]
    fn one_batch_of_more_than_there_is_room_for_is_forgotten_as_a_whole() {
        let mut ids = Remembered::with_room_for(10);
        assert!((0..50).all(|uuid| ids.insert(1, Uuid::from_u128(uuid))));
        assert_eq!(ids.end_batch(1, 8), [8]);
        assert!(ids.teams.is_empty() && ids.total == 0);
    }
}
