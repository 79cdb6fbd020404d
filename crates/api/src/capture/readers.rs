//! Whose turn it is to have a body unpacked and read: that is hard work for what takes little to send, so not too much of it
//! is done at once, and in a fair order. Whoever has shown no token never stands in the way of those who have.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use service::OrganizationId;
use service::round::{Queue, Round};
use service::sign_in::subnet;
use tokio::sync::oneshot;

use super::answers::Refused;

/// How many of one network may wait in a line.
const MOST_WAITING: usize = 64;

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
    /// Subnets take turns, as tokens are public; in each the organizations that it sends for, and in these its networks. Those
    /// without a token are one organization here.
    waiting: Round<IpAddr, Round<Option<OrganizationId>, Networks>>,
}

type Networks = Round<IpAddr, VecDeque<oneshot::Sender<ReaderPermit>>>;

/// The right to work, for as long as it is held: by the thread that works, as whoever asked may have gone.
#[derive(Debug)]
pub(super) struct ReaderPermit {
    readers: Readers,
    task: Task,
    is_free: bool,
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
            if line.taken < line.places && line.waiting.is_over() {
                line.taken += 1;
                drop(lines);
                return Ok(self.taken(task));
            }
            line.push(sender)?
        };
        // Somebody may be in line who has gone.
        self.hand_out(task);
        waiting.await.map_err(|_| Refused::Failed)
    }

    fn taken(&self, task: Task) -> ReaderPermit {
        ReaderPermit {
            readers: self.clone(),
            task,
            is_free: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Line; 3]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free places to those whose turn it is, and who are still there.
    fn hand_out(&self, task: Task) {
        loop {
            let mut lines = self.lock();
            let line = &mut lines[task as usize];
            if line.taken >= line.places {
                return;
            }
            let Some(next) = line.waiting.pop() else { return };
            line.taken += 1;
            drop(lines);
            if let Err(turn) = next.send(self.taken(task)) {
                turn.give_back();
            }
        }
    }
}

impl Line {
    fn push(&mut self, sender: Sender) -> Result<oneshot::Receiver<ReaderPermit>, Refused> {
        let (turn, waiting) = oneshot::channel();
        let organizations = self.waiting.of(subnet(sender.network));
        let networks = organizations.of(sender.organization);
        let line = networks.of(sender.network);
        line.retain(|other| !other.is_closed());
        if line.len() >= MOST_WAITING {
            return Err(Refused::Busy);
        }
        line.push_back(turn);
        Ok(waiting)
    }
}

impl ReaderPermit {
    fn free(&mut self) {
        self.readers.lock()[self.task as usize].taken -= 1;
        self.is_free = true;
    }

    /// Nobody took it; whoever hands out goes on.
    fn give_back(mut self) {
        self.free();
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        if !self.is_free {
            self.free();
            self.readers.hand_out(self.task);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    async fn organizations_take_turns_however_many_networks_send_for_one() {
        let of_one: Vec<Sender> = (1..10).map(|number| from(number, Some(1))).collect();
        let other = from(99, Some(2));
        let order = order(Task::Read, &[of_one.as_slice(), &[other]].concat()).await;
        assert_eq!(order[1], other, "{order:?}");
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
        let mut waiting: Vec<_> = (0..MOST_WAITING)
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
