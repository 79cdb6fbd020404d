//! The one thread that writes. Whatever waits for it goes into one transaction, and so into one wait for the disk. Those who
//! send take turns, large batches come in parts, and a transaction has its limits: so nobody waits for all that another one sent.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::file;
use super::log::WriteAheadLog;
use super::store::{self, Memory, Store, Work};
use crate::fair_queue::{FairQueue, Owner, QueueKey, Source};
use crate::persons::Budgets;
use crate::{Error, Result};

/// How many callers wait before the next is held back.
const WAITING: usize = 1024;

/// Work joins a transaction only if its sender recently cost at most this many nanoseconds more than those already in it.
const APART: u64 = 10_000_000;

/// An append whose sender has disconnected is dropped if it has waited longer than this.
const UNHEARD: Duration = Duration::from_secs(2);

/// Where callers leave work.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

#[derive(Debug)]
enum Job {
    Do(Vec<Waiter>),
    Close(Done),
}

type Done = oneshot::Sender<Result<()>>;

impl Writer {
    /// Opens the file and starts the thread. It ends when the last [`Writer`] is dropped.
    pub(super) fn start(path: &Path, log: WriteAheadLog) -> Result<Self> {
        let (jobs, taken) = mpsc::channel(WAITING);
        let writer = WriterThread::open(path, taken, log)?;
        thread::Builder::new()
            .name("events-writer".to_owned())
            .spawn(move || writer.run())?;
        Ok(Self { jobs })
    }

    /// Comes back when all of it is on disk. Others may come between its parts, each of which is there as a whole or not at all.
    ///
    /// If some parts are not stored, whoever sent them is told that it failed, or nothing, and sends all again. What is there
    /// already does no harm: events are known by the ids that their senders gave them (see [`super::seen`]), and those
    /// without one may come twice after any failure. Each part gets its ingestion times when it is stored, so none is ever
    /// below a line that was drawn since the first.
    pub(super) async fn run(&self, parts: Vec<Work>) -> Result<()> {
        let (parts, answers): (Vec<_>, Vec<_>) = parts.into_iter().map(answered).unzip();
        self.leave(Job::Do(parts)).await?;
        for answer in answers {
            answer.await.map_err(|_| Error::Stopped)??;
        }
        Ok(())
    }

    /// Lets the thread finish what waits, and stops it.
    pub(super) async fn close(&self) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.leave(Job::Close(done)).await?;
        answer.await.map_err(|_| Error::Stopped)?
    }

    async fn leave(&self, job: Job) -> Result<()> {
        self.jobs.send(job).await.map_err(|_| Error::Stopped)
    }
}

fn answered(work: Work) -> (Waiter, oneshot::Receiver<Result<()>>) {
    let (done, answer) = oneshot::channel();
    ((work, done), answer)
}

/// What callers have left for the thread.
struct Arrivals {
    jobs: mpsc::Receiver<Job>,
    /// Who waits for the thread to end.
    closing: Option<Done>,
}

impl Arrivals {
    /// Waits for the next one. False: no more will come.
    fn wait(&mut self, waiting: &mut Waiting) -> bool {
        let Some(job) = self.jobs.blocking_recv() else {
            return false;
        };
        self.put(job, waiting);
        true
    }

    /// Takes all that have come.
    fn take(&mut self, waiting: &mut Waiting) {
        while let Ok(job) = self.jobs.try_recv() {
            self.put(job, waiting);
        }
    }

    fn put(&mut self, job: Job, waiting: &mut Waiting) {
        match job {
            Job::Do(parts) => parts.into_iter().for_each(|part| waiting.push(turn_of(&part.0), part)),
            Job::Close(done) => {
                self.closing = Some(done);
                self.jobs.close();
            }
        }
    }
}

/// What the thread that writes has for itself alone.
struct WriterThread {
    arrivals: Arrivals,
    connection: Connection,
    log: WriteAheadLog,
    memory: Memory,
    budgets: Budgets,
}

type Waiter = (Work, Done);
type Waiting = FairQueue<Waiter>;

impl WriterThread {
    fn open(path: &Path, jobs: mpsc::Receiver<Job>, log: WriteAheadLog) -> Result<Self> {
        Ok(Self {
            arrivals: Arrivals { jobs, closing: None },
            connection: file::open_to_write(path)?,
            log,
            memory: Memory::default(),
            budgets: Budgets::default(),
        })
    }

    fn run(mut self) {
        let mut waiting = Waiting::default();
        while !waiting.is_empty() || self.arrivals.wait(&mut waiting) {
            self.arrivals.take(&mut waiting);
            self.step(&mut waiting);
            // All are answered.
            self.log.keep_short(&self.connection);
        }
        let stopped = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Some(done) = self.arrivals.closing {
            // Nobody may be left to hear it.
            let _ = done.send(stopped.map_err(Error::from));
        }
    }

    /// Stores the next ones of everybody in turn: as many as go into one transaction.
    fn step(&mut self, waiting: &mut Waiting) {
        let mut group = Vec::from_iter(waiting.next());
        let outcome = self.commit(&mut group, Some(waiting));
        if outcome.is_ok() || group.len() == 1 {
            return answer(group, outcome);
        }
        // If they failed together, each for itself: nobody fails for another's sake.
        for alone in group {
            let mut alone = vec![alone];
            let outcome = self.commit(&mut alone, None);
            answer(alone, outcome);
        }
    }

    /// Stores a group, and adds those who wait to it while there is room.
    fn commit(&mut self, group: &mut Vec<Waiter>, waiting: Option<&mut Waiting>) -> rusqlite::Result<()> {
        if group.iter().all(|(work, _)| self.is_settled(work)) {
            return Ok(());
        }
        let outcome = self.try_commit(group, waiting);
        if outcome.is_err() {
            self.memory = Memory::default();
        }
        outcome
    }

    fn try_commit(&mut self, group: &mut Vec<Waiter>, mut waiting: Option<&mut Waiting>) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut store = Store::open(&transaction, &mut self.memory, &mut self.budgets)?;
        let (mut count, mut are_several) = (0, false);
        while let Some(waiter @ (work, _)) = group.get(count) {
            let (turn, began) = (turn_of(work), Instant::now());
            if !is_abandoned(waiter) {
                store.apply(work)?;
            }
            count += 1;
            are_several |= turn != turn_of(&group[0].0);
            let Some(waiting) = &mut waiting else { continue };
            waiting.charge(turn, nanoseconds_since(began));
            if count == group.len() && !store.is_full(are_several || !self.arrivals.jobs.is_empty()) {
                if waiting.is_empty() && store.can_join() {
                    self.arrivals.take(waiting);
                }
                group.extend(waiting.more(APART));
            }
        }
        store.finish()?;
        transaction.commit()
    }

    /// Whether there is nothing to do but to draw a line that is drawn already. A writer elsewhere that has not yet
    /// committed began after such a line was, so it keeps to it.
    fn is_settled(&self, work: &Work) -> bool {
        match work {
            Work::Settle { until } => store::floor(&self.connection).is_ok_and(|floor| floor >= *until),
            _ => false,
        }
    }
}

/// Tells everybody. A failure is that of one alone.
fn answer(group: Vec<Waiter>, outcome: rusqlite::Result<()>) {
    let mut failure = outcome.err();
    if let Some(error) = &failure {
        tracing::error!(error = error as &dyn std::error::Error, "events could not be stored");
    }
    for (_, done) in group {
        let result = failure.take().map_or(Ok(()), |error| Err(error.into()));
        // The caller may have gone.
        let _ = done.send(result);
    }
}

fn nanoseconds_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Whether whoever sent this has gone, after a while: they were told nothing, and send it again. Otherwise what nobody waits for any
/// more would keep its memory, and its place before others, for as long as it takes to write all of it.
fn is_abandoned((work, done): &Waiter) -> bool {
    matches!(work, Work::Append { since, .. } if since.elapsed() > UNHEARD && done.is_closed())
}

/// Whose turn work takes. Lines are drawn for all, and have turns of their own.
fn turn_of(work: &Work) -> QueueKey {
    match work {
        Work::Append { team, hold, .. } => hold.turn(*team),
        Work::Forget { team, .. } => QueueKey {
            source: Source::Inside,
            owner: Owner::Team(*team),
        },
        Work::Settle { .. } => QueueKey {
            source: Source::Nobody,
            owner: Owner::Nobody,
        },
    }
}
