//! The one thread that writes. Whatever waits for it goes into one transaction, and so into one wait for the disk.

use std::path::Path;
use std::thread;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::file;
use super::store::{self, Memory, Store, Work};
use crate::{Error, Result};

/// How many callers wait before the next is held back.
const WAITING: usize = 1024;

/// A transaction takes no more callers when it has this many events.
const FULL_AT: usize = 20_000;

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
}

impl Desk {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut closing = None;
        while let Some(first) = jobs.blocking_recv() {
            let mut group = Vec::new();
            let mut weight = 0;
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Do(work, done) => {
                        weight += events_in(&work);
                        group.push((work, done));
                    }
                    Job::Close(done) => {
                        jobs.close();
                        closing = Some(done);
                    }
                }
                next = if weight < FULL_AT { jobs.try_recv().ok() } else { None };
            }
            self.finish(group);
        }
        let stopped = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Some(done) = closing {
            // Nobody may be left to hear it.
            let _ = done.send(stopped.map_err(Error::from));
        }
    }

    fn finish(&mut self, group: Vec<(Work, Done)>) {
        let is_stored = group.len() > 1 && self.commit(group.iter().map(|(work, _)| work)).is_ok();
        for (work, done) in group {
            // If they failed together, each for itself: nobody fails for another's sake.
            let result = if is_stored {
                Ok(())
            } else {
                self.commit(std::iter::once(&work))
            };
            if let Err(error) = &result {
                tracing::error!(error = error as &dyn std::error::Error, "events could not be stored");
            }
            // The caller may have gone.
            let _ = done.send(result.map_err(Error::from));
        }
    }

    fn commit<'a>(&mut self, group: impl Iterator<Item = &'a Work> + Clone) -> rusqlite::Result<()> {
        if self.is_settled(group.clone())? {
            return Ok(());
        }
        let outcome = self.try_commit(group);
        if outcome.is_err() {
            self.memory = Memory::default();
        }
        outcome
    }

    fn try_commit<'a>(&mut self, group: impl Iterator<Item = &'a Work>) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut store = Store::open(&transaction, &mut self.memory)?;
        for work in group {
            store.apply(work)?;
        }
        transaction.commit()
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
