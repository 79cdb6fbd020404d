//! The one thread that writes. Whatever waits for it goes into one transaction, and so into one wait for the disk. Organizations
//! take turns, and a transaction has its limits: so nobody waits for all that another one sent.

use std::path::Path;
use std::thread;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::file;
use super::store::{self, Memory, Store, Work};
use crate::persons::Budgets;
use crate::turns::{Turn, Turns};
use crate::{Error, Result};

/// How many callers wait before the next is held back.
const WAITING: usize = 1024;

/// A transaction takes no more callers when it has this many events.
const FULL_AT: usize = 20_000;

/// It ends early when it has written so many bytes: how much that is, only writing tells.
const FULL_AT_BYTES: usize = 32 << 20;

/// Where callers leave work.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

#[derive(Debug)]
enum Job {
    Do(Work, Done),
    Close(Done),
}

type Done = oneshot::Sender<Result<()>>;

impl Writer {
    /// Opens the file and starts the thread. It ends when the last [`Writer`] is dropped.
    pub(super) fn start(path: &Path) -> Result<Self> {
        let connection = file::open_to_write(path)?;
        let (jobs, taken) = mpsc::channel(WAITING);
        let desk = Desk {
            connection,
            memory: Memory::default(),
            budgets: Budgets::default(),
        };
        thread::Builder::new()
            .name("events-writer".to_owned())
            .spawn(move || desk.run(taken))?;
        Ok(Self { jobs })
    }

    /// Comes back when the work is on disk.
    pub(super) async fn run(&self, work: Work) -> Result<()> {
        self.ask(|done| Job::Do(work, done)).await
    }

    /// Lets the thread finish what waits, and stops it.
    pub(super) async fn close(&self) -> Result<()> {
        self.ask(Job::Close).await
    }

    async fn ask(&self, job: impl FnOnce(Done) -> Job) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.jobs.send(job(done)).await.map_err(|_| Error::Stopped)?;
        answer.await.map_err(|_| Error::Stopped)?
    }
}

/// The thread's own.
struct Desk {
    connection: Connection,
    memory: Memory,
    budgets: Budgets,
}

type Waiting = Turns<(Work, Done)>;

impl Desk {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut closing = None;
        let mut waiting = Waiting::default();
        loop {
            let first = if waiting.is_empty() {
                let Some(first) = jobs.blocking_recv() else { break };
                Some(first)
            } else {
                None
            };
            let rest = std::iter::from_fn(|| jobs.try_recv().ok());
            let mut is_closing = false;
            for job in first.into_iter().chain(rest) {
                match job {
                    Job::Do(work, done) => waiting.push(turn_of(&work), (work, done)),
                    Job::Close(done) => {
                        closing = Some(done);
                        is_closing = true;
                    }
                }
            }
            if is_closing {
                jobs.close();
            }
            let group = group(&mut waiting);
            self.finish(group, &mut waiting);
        }
        let stopped = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Some(done) = closing {
            // Nobody may be left to hear it.
            let _ = done.send(stopped.map_err(Error::from));
        }
    }

    /// Stores a group. What does not go into its transaction waits for the next.
    fn finish(&mut self, mut group: Vec<(Work, Done)>, waiting: &mut Waiting) {
        let mut stored = 0;
        if group.len() > 1
            && let Ok(count) = self.commit(group.iter().map(|(work, _)| work))
        {
            stored = count;
            for (work, done) in group.split_off(count).into_iter().rev() {
                waiting.put_back(turn_of(&work), (work, done));
            }
        }
        for (work, done) in group {
            // If they failed together, each for itself: nobody fails for another's sake.
            let result = if stored > 0 {
                Ok(())
            } else {
                self.commit(std::iter::once(&work)).map(drop)
            };
            if let Err(error) = &result {
                tracing::error!(error = error as &dyn std::error::Error, "events could not be stored");
            }
            // The caller may have gone.
            let _ = done.send(result.map_err(Error::from));
        }
    }

    /// Says how many of the group, from its first on, are stored: at least one.
    fn commit<'a>(&mut self, group: impl ExactSizeIterator<Item = &'a Work> + Clone) -> rusqlite::Result<usize> {
        if self.is_settled(group.clone())? {
            return Ok(group.len());
        }
        let outcome = self.try_commit(group);
        if outcome.is_err() {
            self.memory = Memory::default();
        }
        outcome
    }

    fn try_commit<'a>(&mut self, group: impl Iterator<Item = &'a Work>) -> rusqlite::Result<usize> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut store = Store::open(&transaction, &mut self.memory, &mut self.budgets)?;
        let mut count = 0;
        for work in group {
            store.apply(work)?;
            count += 1;
            if store.bytes >= FULL_AT_BYTES {
                break;
            }
        }
        transaction.commit()?;
        Ok(count)
    }

    /// Whether there is nothing to do but to draw lines that are drawn already. A writer elsewhere that has not yet
    /// committed began after such a line was, so it keeps to it.
    fn is_settled<'a>(&self, mut group: impl Iterator<Item = &'a Work>) -> rusqlite::Result<bool> {
        let latest = group.try_fold(i64::MIN, |latest, work| match work {
            Work::Settle { until } => Some(latest.max(*until)),
            _ => None,
        });
        match latest {
            Some(latest) => Ok(store::floor(&self.connection)? >= latest),
            None => Ok(false),
        }
    }
}

fn events_in(work: &Work) -> usize {
    match work {
        Work::Append { events, .. } => events.len(),
        Work::Settle { .. } | Work::Forget { .. } => 1,
    }
}

/// The next ones of each organization in turn.
fn group(waiting: &mut Waiting) -> Vec<(Work, Done)> {
    let mut group = Vec::new();
    let mut weight = 0;
    while weight < FULL_AT
        && let Some((work, done)) = waiting.next()
    {
        weight += events_in(&work);
        group.push((work, done));
    }
    group
}

/// Whose turn work takes. Lines are drawn for all, and have turns of their own.
fn turn_of(work: &Work) -> Turn {
    match work {
        Work::Append { team, hold, .. } => hold.turn(*team),
        Work::Forget { team, .. } => Turn::Team(*team),
        Work::Settle { .. } => Turn::Own,
    }
}
