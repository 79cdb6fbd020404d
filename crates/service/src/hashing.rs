//! Hashing passwords is hard work: it is done beside the requests, not too much of it at once, and in a fair order. Whoever
//! sends many wrong passwords waits longer than everybody else.

mod line;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use self::line::{Limits, Line, Parties, Party};
use crate::error::{Error, Result};
use crate::network::subnet;
use crate::text::Email;

/// Each takes 19 MiB and a processor for a while; more at once would only be slower.
const SLOTS: usize = 2;
/// Those that suspects may have of them: the rest is free when somebody honest comes.
const SLOTS_OF_SUSPECTS: usize = 1;
/// Whose turn it is, one slot after the other, if they wait. Whoever has been here before may have many accounts, so those who
/// come for the first time have every second one, and those who guess cannot use them all up.
const SHARES: [Rank; 8] = [
    Rank::Known,
    Rank::Stranger,
    Rank::Known,
    Rank::Stranger,
    Rank::Known,
    Rank::Stranger,
    Rank::Suspect,
    Rank::Stranger,
];
/// A network with this many wrong passwords is a suspect until time has forgiven them.
const SUSPICIOUS: u32 = 4;
const FORGIVEN_AFTER: Duration = Duration::from_secs(30);
/// Past this many networks those that have been forgiven are forgotten, so that memory stays bounded.
const REMEMBERED: usize = 10_000;
/// When to come back if there is no room.
const BUSY: Duration = Duration::from_secs(5);

/// The queue of one process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HashQueue(Arc<Mutex<State>>);

impl Default for HashQueue {
    fn default() -> Self {
        Self::with_slots(SLOTS)
    }
}

impl fmt::Debug for HashQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashQueue").finish_non_exhaustive()
    }
}

struct State {
    slots: usize,
    /// By [`Rank`].
    lines: [Line<Slot>; 3],
    /// Which of the [`SHARES`] comes next.
    next_share: usize,
    failures: HashMap<IpAddr, Failures>,
    /// How many were begun, for tests.
    begun: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// The account was signed in to from there before.
    Known,
    Stranger,
    /// Wrong passwords came from there lately.
    Suspect,
}

impl Rank {
    fn limits(self) -> Limits {
        match self {
            Self::Known => Limits {
                total: 256,
                of_subnet: 64,
                // Scripts sign in many times at once; their account still has one turn.
                of_account: 16,
            },
            // Whoever has many networks shall not make a long line.
            Self::Stranger => Limits {
                total: 128,
                of_subnet: 128 / 8,
                of_account: 4,
            },
            Self::Suspect => Limits {
                total: 40,
                of_subnet: 4,
                of_account: 4,
            },
        }
    }
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn left(self, now: Instant) -> u32 {
        let forgiven = now.duration_since(self.last).as_secs() / FORGIVEN_AFTER.as_secs();
        self.count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

/// A place in the queue, taken before anything is done for the request.
pub(crate) struct QueueTicket {
    queue: HashQueue,
    rank: Rank,
    parties: Parties,
}

/// The right to hash, for as long as it is held.
struct Slot {
    queue: HashQueue,
    rank: Rank,
    is_free: bool,
}

impl HashQueue {
    /// At most so many at once.
    pub(crate) fn with_slots(slots: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            slots,
            lines: Default::default(),
            next_share: 0,
            failures: HashMap::new(),
            begun: 0,
        })))
    }

    /// Takes a place, or refuses immediately where there are too many of the same kind. `None` is the command line. `known_as`:
    /// the account that was signed in to from there before, or is signed in.
    pub(crate) fn enter(&self, from: Option<IpAddr>, known_as: Option<&Email>) -> Result<QueueTicket> {
        let network = from.map_or(IpAddr::from([0, 0, 0, 0]), subnet);
        let account = known_as.map(|email| Party::Account(email.key().into()));
        let parties: Parties = [Party::Subnet(network)].into_iter().chain(account).collect();
        let mut state = self.state();
        let rank = match from {
            None => Rank::Known,
            Some(_) if known_as.is_some() => Rank::Known,
            Some(_) if state.is_suspect(network) => Rank::Suspect,
            Some(_) => Rank::Stranger,
        };
        if !state.line(rank).enter(&parties, rank.limits()) {
            return Err(Error::Throttled(BUSY));
        }
        Ok(QueueTicket {
            queue: self.clone(),
            rank,
            parties,
        })
    }

    /// Remembers that a wrong password came from there.
    pub(crate) fn note_failure(&self, from: Option<IpAddr>) {
        let Some(network) = from.map(subnet) else { return };
        let now = Instant::now();
        let mut state = self.state();
        if state.failures.len() > REMEMBERED {
            state.failures.retain(|_, failures| failures.left(now) > 0);
        }
        let before = state.failures.get(&network).map_or(0, |failures| failures.left(now));
        let failures = Failures {
            // Forgiven within minutes, however many there were.
            count: (before + 1).min(SUSPICIOUS * 4),
            last: now,
        };
        state.failures.insert(network, failures);
    }

    /// How many hashes were computed so far.
    pub(crate) fn begun(&self) -> u64 {
        self.state().begun
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands free slots to those whose turn it is, and who are still there.
    fn hand_out(&self) {
        while let Some((waiting, slot)) = self.next_turn() {
            if let Err(slot) = waiting.send(slot) {
                slot.give_back();
            }
        }
    }

    fn next_turn(&self) -> Option<(oneshot::Sender<Slot>, Slot)> {
        let mut state = self.state();
        let running: usize = state.lines.iter().map(|line| line.running).sum();
        if running >= state.slots {
            return None;
        }
        let (rank, waiting) = state.next()?;
        state.line(rank).running += 1;
        let slot = Slot {
            queue: self.clone(),
            rank,
            is_free: false,
        };
        Some((waiting, slot))
    }
}

impl State {
    fn is_suspect(&self, network: IpAddr) -> bool {
        let failures = self.failures.get(&network);
        failures.is_some_and(|failures| failures.left(Instant::now()) >= SUSPICIOUS)
    }

    fn line(&mut self, rank: Rank) -> &mut Line<Slot> {
        &mut self.lines[rank as usize]
    }

    fn next(&mut self) -> Option<(Rank, oneshot::Sender<Slot>)> {
        let first = SHARES[self.next_share];
        for rank in [first, Rank::Known, Rank::Stranger, Rank::Suspect] {
            if rank == Rank::Suspect && self.line(rank).running >= SLOTS_OF_SUSPECTS {
                continue;
            }
            if let Some(turn) = self.line(rank).next() {
                self.next_share = (self.next_share + 1) % SHARES.len();
                return Some((rank, turn));
            }
        }
        None
    }
}

impl QueueTicket {
    /// Waits for its turn and works. What was begun is finished, even if nobody waits for it any more. Fails if there was no
    /// room left for whoever has many places.
    pub(crate) async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let turn = self.queue.state().line(self.rank).wait(&self.parties);
        self.queue.hand_out();
        let slot = turn.await.map_err(|_| Error::Throttled(BUSY))?;
        self.queue.state().begun += 1;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop((slot, self));
            result
        });
        Ok(done
            .await
            .expect("hashing does not panic, and the server waits for it to end"))
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        self.queue.state().line(self.rank).leave(&self.parties);
    }
}

impl Slot {
    fn free(&mut self) {
        self.queue.state().line(self.rank).running -= 1;
        self.is_free = true;
    }

    /// Nobody took it; whoever hands out goes on.
    fn give_back(mut self) {
        self.free();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_free {
            self.free();
            self.queue.hand_out();
        }
    }
}
