//! The one thread that writes. Whatever waits for it goes into one transaction, and so into one wait for the disk. Those who
//! send take turns, large batches come in parts, and a transaction has its limits: so nobody waits for all that another one sent.

use std::path::Path;
use std::thread;
use std::time::Instant;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::file;
use super::store::{self, Memory, Store, Work};
use crate::persons::Budgets;
use crate::turns::{Owner, Source, Turn, Turns};
use crate::{Error, Result};

/// How many callers wait before the next is held back.
const WAITING: usize = 1024;

/// Nobody who is in a transaction waits for another whose work took so many nanoseconds more lately.
const APART: u64 = 10_000_000;

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
    pub(super) fn start(path: &Path) -> Result<Self> {
        let (jobs, taken) = mpsc::channel(WAITING);
        let desk = Desk::open(path, taken)?;
        thread::Builder::new()
            .name("events-writer".to_owned())
            .spawn(move || desk.run())?;
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

/// The thread's own.
struct Desk {
    jobs: mpsc::Receiver<Job>,
    connection: Connection,
    memory: Memory,
    budgets: Budgets,
}

type Waiter = (Work, Done);
type Waiting = Turns<Waiter>;

impl Desk {
    fn open(path: &Path, jobs: mpsc::Receiver<Job>) -> Result<Self> {
        Ok(Self {
            jobs,
            connection: file::open_to_write(path)?,
            memory: Memory::default(),
            budgets: Budgets::default(),
        })
    }

    fn run(mut self) {
        let mut closing = None;
        let mut waiting = Waiting::default();
        loop {
            let first = if waiting.is_empty() {
                let Some(first) = self.jobs.blocking_recv() else { break };
                Some(first)
            } else {
                None
            };
            let rest = std::iter::from_fn(|| self.jobs.try_recv().ok());
            let mut is_closing = false;
            for job in first.into_iter().chain(rest) {
                match job {
                    Job::Do(parts) => parts.into_iter().for_each(|part| waiting.push(turn_of(&part.0), part)),
                    Job::Close(done) => {
                        closing = Some(done);
                        is_closing = true;
                    }
                }
            }
            if is_closing {
                self.jobs.close();
            }
            self.step(&mut waiting);
        }
        let stopped = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Some(done) = closing {
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
        while let Some((work, _)) = group.get(count) {
            let (turn, began) = (turn_of(work), Instant::now());
            store.apply(work)?;
            count += 1;
            are_several |= turn != turn_of(&group[0].0);
            let Some(waiting) = &mut waiting else { continue };
            waiting.charge(turn, nanoseconds_since(began));
            if count == group.len() && !store.is_full(are_several || !self.jobs.is_empty()) {
                group.extend(waiting.more(APART));
            }
        }
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

/// Whose turn work takes. Lines are drawn for all, and have turns of their own.
fn turn_of(work: &Work) -> Turn {
    match work {
        Work::Append { team, hold, .. } => hold.turn(*team),
        Work::Forget { team, .. } => Turn {
            source: Source::Inside,
            owner: Owner::Team(*team),
        },
        Work::Settle { .. } => Turn {
            source: Source::Nobody,
            owner: Owner::Nobody,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use chrono::DateTime;
    use serde_json::{Map, Value, json};
    use uuid::Uuid;

    use super::super::store::{PART, Ready};
    use super::*;
    use crate::{Hold, Incoming};

    /// A file that goes with this.
    struct File(std::path::PathBuf);

    impl File {
        fn new() -> Self {
            Self(std::env::temp_dir().join(format!("hedgerow-writer-{}.db", Uuid::now_v7())))
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
            }
        }
    }

    fn desk(file: &File) -> Desk {
        Desk::open(&file.0, mpsc::channel(1).1).unwrap()
    }

    /// Of new persons.
    fn batch(count: usize) -> Vec<Incoming> {
        let event = |number: usize| Incoming {
            uuid: Some(Uuid::from_u128(number as u128)),
            event: "seen".to_owned(),
            distinct_id: number.to_string(),
            properties: Map::default(),
            timestamp: DateTime::UNIX_EPOCH,
        };
        (0..count).map(event).collect()
    }

    fn parts(team: i64, events: Vec<Incoming>) -> Vec<Waiter> {
        let hold = Arc::new(Hold::default());
        let part = |events| Work::Append {
            team,
            events,
            now: 10,
            hold: hold.clone(),
        };
        let parts = Ready::in_parts(events).unwrap().into_iter().map(part);
        parts.map(|work| answered(work).0).collect()
    }

    /// Stores these, and whatever else there is room for.
    fn store(desk: &mut Desk, works: impl IntoIterator<Item = Waiter>) {
        let mut waiting = Waiting::default();
        for work in works {
            waiting.push(turn_of(&work.0), work);
        }
        while !waiting.is_empty() {
            desk.step(&mut waiting);
        }
    }

    fn numbers(desk: &Desk, sql: &str) -> Vec<i64> {
        let mut statement = desk.connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn others_come_between_the_parts_of_a_large_batch() {
        let file = File::new();
        let mut desk = desk(&file);
        let large = parts(1, batch(4 * PART));
        store(&mut desk, large.into_iter().chain(parts(2, batch(1))));
        // The log of what was stored has the order.
        let teams = numbers(&desk, "SELECT team_id FROM seen ORDER BY seq");
        assert_eq!(teams, [1, 2, 1, 1, 1]);
    }

    #[test]
    fn no_part_is_stored_below_a_line_that_was_drawn_after_the_first() {
        let file = File::new();
        let mut desk = desk(&file);
        let mut parts = parts(1, batch(PART + 1));
        let last = parts.pop();
        store(&mut desk, parts);
        store(&mut desk, [answered(Work::Settle { until: 20 }).0]);
        store(&mut desk, last);
        let times = numbers(&desk, "SELECT inserted_at FROM event_1 ORDER BY seq");
        let (first, last) = times.split_at(PART);
        assert!(first.iter().all(|&time| time == 10));
        assert_eq!(last, [20]);
        assert!(
            numbers(&desk, "SELECT changed_at FROM person")
                .iter()
                .all(|time| [10, 20].contains(time))
        );
    }

    #[test]
    fn a_batch_that_was_stored_in_part_is_whole_when_it_is_sent_again() {
        let file = File::new();
        let mut before = desk(&file);
        store(&mut before, parts(1, batch(2 * PART)).into_iter().take(1));
        drop(before);
        let mut after = desk(&file);
        store(&mut after, parts(1, batch(2 * PART)));
        let ids = numbers(&after, "SELECT CAST(distinct_id AS INTEGER) FROM event_1");
        assert_eq!(ids.len(), 2 * PART);
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 2 * PART);
        assert_eq!(
            numbers(&after, "SELECT count(*) FROM person"),
            [i64::try_from(2 * PART).unwrap()]
        );
    }

    /// Parsing small values takes far longer than their text, and others wait for a part.
    #[test]
    fn a_part_parses_few_persons_with_many_values_whatever_its_last_event() {
        for shape in ["[1]", r#"{"":1}"#] {
            let file = File::new();
            let mut desk = desk(&file);
            let many: Vec<Value> = vec![serde_json::from_str(shape).unwrap(); 4_900];
            store(&mut desk, parts(1, sets([json!({ "many": many })])));
            let mut sent = sets((0..PART - 1).map(|number| json!({ "number": number })));
            let mut last = batch(1);
            last[0]
                .properties
                .insert("text".to_owned(), "x".repeat(1_000_000).into());
            sent.extend(last);
            let parts = parts(1, sent);
            assert_eq!(parts.len(), 1);
            store(&mut desk, parts);
            let changed = numbers(&desk, "SELECT count(*) FROM person_properties")[0] - 1;
            assert!((5..=25).contains(&changed), "{changed} changes");
            let stored = numbers(&desk, "SELECT count(*) FROM event_1")[0];
            assert_eq!(stored, 1 + i64::try_from(PART).unwrap(), "every event is there");
        }
    }

    /// Events of one person that set these.
    fn sets(properties: impl IntoIterator<Item = Value>) -> Vec<Incoming> {
        let event = |set: Value| Incoming {
            uuid: None,
            event: "set".to_owned(),
            distinct_id: "ada".to_owned(),
            properties: Map::from_iter([("$set".to_owned(), set)]),
            timestamp: DateTime::UNIX_EPOCH,
        };
        properties.into_iter().map(event).collect()
    }

    #[test]
    fn the_log_of_other_teams_is_not_read_to_forget_one() {
        let file = File::new();
        let mut before = desk(&file);
        store(&mut before, parts(1, batch(1)));
        let others = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 50000) \
                      INSERT INTO seen (team_id, uuids) SELECT 2, randomblob(16) FROM number";
        before.connection.execute(others, []).unwrap();
        drop(before);
        let mut desk = desk(&file);
        store(&mut desk, parts(1, batch(2)));
        let looks = Arc::new(AtomicUsize::new(0));
        let look = looks.clone();
        let count = move || {
            look.fetch_add(1, Ordering::Relaxed);
            false
        };
        desk.connection.progress_handler(1_000, Some(count)).unwrap();
        let is_done = Arc::new(AtomicBool::new(false));
        let forget = Work::Forget {
            team: 1,
            is_done: is_done.clone(),
        };
        store(&mut desk, [answered(forget).0]);
        assert!(is_done.load(Ordering::Relaxed));
        let looks = looks.load(Ordering::Relaxed);
        assert!(looks < 50, "{looks} thousand steps");
        let lengths = numbers(&desk, "SELECT length(uuids) FROM seen WHERE team_id = 1");
        assert_eq!(lengths, [0], "only the number of the newest is left");
        store(&mut desk, parts(1, batch(2)));
        assert_eq!(
            numbers(&desk, "SELECT count(*) FROM event_1"),
            [2],
            "and nothing is remembered"
        );
    }

    #[test]
    fn a_part_has_so_many_events_or_bytes() {
        let lengths = |events| -> Vec<usize> { Ready::in_parts(events).unwrap().iter().map(Vec::len).collect() };
        assert_eq!(lengths(batch(PART)), [PART]);
        assert_eq!(lengths(batch(2 * PART + 1)), [PART, PART, 1]);
        let mut long = batch(5);
        for event in &mut long {
            event.properties.insert("text".to_owned(), "x".repeat(200_000).into());
        }
        assert_eq!(lengths(long), [2, 2, 1]);
    }
}
