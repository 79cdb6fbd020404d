//! Hashing passwords is hard work: it is done beside the requests, not too much of it at once, and in a fair order. Whoever
//! sends many wrong passwords waits behind everybody else.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::sign_in::network;

/// Each takes 19 MiB and a processor for a while; more at once would only be slower.
const SLOTS: usize = 2;
/// Those that suspects may have of them: the rest is free when somebody honest comes.
const SLOTS_OF_SUSPECTS: usize = 1;
/// Hashes that a network may have under way or waiting.
const MOST_OF_NETWORK: usize = 64;
/// The same of all networks that nobody has signed in from before: whoever has many networks shall not make a long line.
const MOST_OF_STRANGERS: usize = 128;
const MOST_OF_SUSPECT: usize = 4;
/// The same of all suspects together.
const MOST_OF_SUSPECTS: usize = 40;
/// A network with this many wrong passwords is a suspect until time has forgiven them.
const SUSPICIOUS: u32 = 4;
const FORGIVEN_AFTER: Duration = Duration::from_secs(30);
/// Past this many networks those that have been forgiven are forgotten, so that memory stays bounded.
const REMEMBERED: usize = 10_000;
/// When to come back if there is no room.
const BUSY: Duration = Duration::from_secs(5);

/// The queue of one process. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct HashQueue(Arc<Mutex<State>>);

impl fmt::Debug for HashQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashQueue").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// By [`Rank`], the first ones first.
    lines: [Line; 3],
    /// By network: what is under way or waits.
    present: HashMap<IpAddr, usize>,
    failures: HashMap<IpAddr, Failures>,
    /// How many were begun, for tests.
    begun: u64,
}

/// Whose turn comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// The account was signed in to from there before.
    Known,
    Stranger,
    /// Wrong passwords came from there lately.
    Suspect,
}

/// Those who wait, by network, and the networks in the order of their turns.
#[derive(Default)]
struct Line {
    /// How many are under way or wait.
    present: usize,
    running: usize,
    networks: VecDeque<IpAddr>,
    waiting: HashMap<IpAddr, VecDeque<oneshot::Sender<Slot>>>,
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
pub(crate) struct Place {
    queue: HashQueue,
    network: IpAddr,
    rank: Rank,
}

/// The right to hash, for as long as it is held.
struct Slot {
    queue: HashQueue,
    rank: Rank,
    is_free: bool,
}

impl HashQueue {
    /// Takes a place, or refuses at once where there are too many of the same kind. `None` is the command line. `is_known`:
    /// whoever it is about has signed in from there before, or is signed in.
    pub(crate) fn enter(&self, from: Option<IpAddr>, is_known: bool) -> Result<Place> {
        let network = from.map_or(IpAddr::from([0, 0, 0, 0]), neighborhood);
        let mut state = self.state();
        let rank = match from {
            Some(_) if is_known => Rank::Known,
            Some(_) if state.is_suspect(network) => Rank::Suspect,
            Some(_) => Rank::Stranger,
            None => Rank::Known,
        };
        let (most_of_network, most) = match rank {
            Rank::Known => (MOST_OF_NETWORK, usize::MAX),
            Rank::Stranger => (MOST_OF_NETWORK, MOST_OF_STRANGERS),
            Rank::Suspect => (MOST_OF_SUSPECT, MOST_OF_SUSPECTS),
        };
        let present = state.present.get(&network).copied().unwrap_or_default();
        if present >= most_of_network || state.line(rank).present >= most {
            return Err(Error::Throttled(BUSY));
        }
        *state.present.entry(network).or_default() += 1;
        state.line(rank).present += 1;
        Ok(Place {
            queue: self.clone(),
            network,
            rank,
        })
    }

    /// Remembers that a wrong password came from there.
    pub(crate) fn note_failure(&self, from: Option<IpAddr>) {
        let Some(network) = from.map(neighborhood) else { return };
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
        if running >= SLOTS {
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

    fn line(&mut self, rank: Rank) -> &mut Line {
        &mut self.lines[rank as usize]
    }

    fn next(&mut self) -> Option<(Rank, oneshot::Sender<Slot>)> {
        for rank in [Rank::Known, Rank::Stranger, Rank::Suspect] {
            if rank == Rank::Suspect && self.line(rank).running >= SLOTS_OF_SUSPECTS {
                return None;
            }
            if let Some(waiting) = self.line(rank).next() {
                return Some((rank, waiting));
            }
        }
        None
    }
}

impl Line {
    fn push(&mut self, network: IpAddr) -> oneshot::Receiver<Slot> {
        let (sender, receiver) = oneshot::channel();
        let waiting = self.waiting.entry(network).or_default();
        if waiting.is_empty() {
            self.networks.push_back(network);
        }
        waiting.retain(|other| !other.is_closed());
        waiting.push_back(sender);
        receiver
    }

    /// One of each network in turn.
    fn next(&mut self) -> Option<oneshot::Sender<Slot>> {
        let network = self.networks.pop_front()?;
        let waiting = self.waiting.get_mut(&network)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&network);
        } else {
            self.networks.push_back(network);
        }
        next
    }
}

impl Place {
    /// Waits for its turn and works. What was begun is finished, even if nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = self.queue.state().line(self.rank).push(self.network);
        self.queue.hand_out();
        let slot = turn
            .await
            .expect("the queue keeps whoever waits until it is their turn");
        self.queue.state().begun += 1;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop((slot, self));
            result
        });
        done.await
            .expect("hashing does not panic, and the server waits for it to end")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.line(self.rank).present -= 1;
        if let Some(present) = state.present.get_mut(&self.network) {
            *present -= 1;
            if *present == 0 {
                state.present.remove(&self.network);
            }
        }
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

/// Who counts as one: a /48 of IPv6, and a /24 of IPv4, as those who rent addresses rent neighbors.
fn neighborhood(address: IpAddr) -> IpAddr {
    match network(address) {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & !0xff)),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    fn make_suspect(queue: &HashQueue, from: &str) {
        for _ in 0..SUSPICIOUS {
            queue.note_failure(address(from));
        }
    }

    /// Somebody who waits, and tells when it is their turn.
    fn waiting(queue: &HashQueue, from: &str, told: &mpsc::Sender<String>) -> tokio::task::JoinHandle<()> {
        let (place, told, name) = (
            queue.enter(address(from), false).expect("there is room"),
            told.clone(),
            from.to_owned(),
        );
        tokio::spawn(place.run(move || told.send(name).expect("somebody listens")))
    }

    /// Fills the slots until told to let go.
    async fn occupy(queue: &HashQueue, slots: usize) -> Vec<mpsc::Sender<()>> {
        let mut held = Vec::new();
        for _ in 0..slots {
            let (release, released) = mpsc::channel::<()>();
            let (begun, begins) = oneshot::channel();
            let place = queue.enter(None, true).expect("there is room");
            tokio::spawn(place.run(move || {
                begun.send(()).expect("somebody listens");
                let _ = released.recv();
            }));
            begins.await.expect("it begins");
            held.push(release);
        }
        held
    }

    #[tokio::test]
    async fn the_honest_do_not_wait_behind_those_who_guess() {
        let (queue, (told, turns)) = (HashQueue::default(), mpsc::channel());
        let held = occupy(&queue, SLOTS).await;
        let guessers: Vec<String> = (1..=9).map(|n| format!("192.0.{n}.1")).collect();
        let mut tasks = Vec::new();
        for guesser in &guessers {
            make_suspect(&queue, guesser);
            tasks.push(waiting(&queue, guesser, &told));
        }
        tokio::task::yield_now().await;
        tasks.push(waiting(&queue, "198.51.100.7", &told));
        tokio::task::yield_now().await;
        drop(held);
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(turns.recv().expect("a turn"), "198.51.100.7");
        assert_eq!(queue.begun(), 10 + SLOTS as u64);
    }

    /// Whoever has many networks, each of them new, makes a line that is short, and behind those who were here before.
    #[tokio::test]
    async fn people_who_were_here_before_do_not_wait_behind_strangers() {
        let (queue, (told, turns)) = (HashQueue::default(), mpsc::channel());
        let held = occupy(&queue, SLOTS).await;
        let mut tasks = Vec::new();
        for n in 0..MOST_OF_STRANGERS {
            tasks.push(waiting(&queue, &format!("2001:db8:{n:x}::1"), &told));
        }
        assert!(matches!(
            queue.enter(address("192.0.2.1"), false),
            Err(Error::Throttled(_))
        ));
        let (place, told) = (
            queue.enter(address("192.0.2.1"), true).expect("there is room"),
            told.clone(),
        );
        tasks.push(tokio::spawn(
            place.run(move || told.send("known".to_owned()).expect("somebody listens")),
        ));
        let waiting = || queue.state().lines.iter().map(|line| line.waiting.len()).sum::<usize>();
        while waiting() <= MOST_OF_STRANGERS {
            tokio::task::yield_now().await;
        }
        drop(held);
        for task in tasks {
            task.await.expect("it ends");
        }
        let place = turns.try_iter().position(|turn| turn == "known").expect("a turn");
        assert!(place < SLOTS, "it was number {place}");
    }

    #[tokio::test]
    async fn networks_take_turns() {
        let (queue, (told, turns)) = (HashQueue::default(), mpsc::channel());
        let held = occupy(&queue, SLOTS).await;
        // One slot stays taken, so that there is an order to see.
        let mut tasks = Vec::new();
        for from in ["192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.1", "2001:db8::1"] {
            tasks.push(waiting(&queue, from, &told));
            tokio::task::yield_now().await;
        }
        let mut held = held.into_iter();
        drop(held.next());
        for task in tasks {
            task.await.expect("it ends");
        }
        let order: Vec<String> = turns.try_iter().collect();
        assert_eq!(
            order,
            ["192.0.2.1", "198.51.100.1", "2001:db8::1", "192.0.2.2", "192.0.2.3"]
        );
    }

    #[tokio::test]
    async fn a_suspect_is_refused_before_anything_is_hashed() {
        let queue = HashQueue::default();
        make_suspect(&queue, "192.0.2.1");
        let places: Vec<Place> = (0..MOST_OF_SUSPECT)
            .map(|n| {
                queue
                    .enter(address(&format!("192.0.2.{n}")), false)
                    .expect("a few are heard")
            })
            .collect();
        assert!(matches!(
            queue.enter(address("192.0.2.99"), false),
            Err(Error::Throttled(_))
        ));
        queue
            .enter(address("192.0.3.1"), false)
            .expect("others are not affected");
        drop(places);
        queue.enter(address("192.0.2.99"), false).expect("there is room again");
        assert_eq!(queue.begun(), 0);
    }

    #[tokio::test]
    async fn whoever_goes_away_gives_their_turn_back() {
        let (queue, (told, turns)) = (HashQueue::default(), mpsc::channel());
        let held = occupy(&queue, SLOTS).await;
        let gone = waiting(&queue, "192.0.2.1", &told);
        let stays = waiting(&queue, "192.0.2.2", &told);
        tokio::task::yield_now().await;
        gone.abort();
        let _ = gone.await;
        drop(held);
        stays.await.expect("it is their turn");
        assert_eq!(turns.try_iter().collect::<Vec<_>>(), ["192.0.2.2"]);
        // Those who held the slots end in their own time.
        let emptied = async {
            while !queue.state().present.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), emptied)
            .await
            .expect("nobody is left");
    }

    #[test]
    fn failures_are_forgiven_in_time() {
        let now = Instant::now();
        let failures = Failures { count: 5, last: now };
        assert_eq!(failures.left(now + FORGIVEN_AFTER * 2), 3);
        assert_eq!(failures.left(now + FORGIVEN_AFTER * 100), 0);
    }
}
