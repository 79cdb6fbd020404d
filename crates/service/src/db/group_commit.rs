//! SQLite has one writer at a time, and each commit waits for the disk. So use cases take turns on one
//! connection, and those that queue up behind each other share one commit.
//!
//! Nobody is answered before the shared commit is done. A turn that fails or is abandoned undoes what it did
//! and nothing else.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::caller;
use super::fair::{FairSemaphore, Permit, Slow};
use super::write_ahead_log::WriteAheadLog;
use crate::error::Result;

/// So many wait for the lock; others wait for them, and tenants take turns at that. Those who wait share one commit.
const AT_THE_LOCK: usize = 64;
/// They wait one behind the other, so one of those whose turns take long is among them.
const SLOW: Slow = Slow {
    after: Duration::from_millis(20),
    permits: 1,
};

/// How much estimated write time one user can have in progress, in all of their organizations together: creating more
/// organizations does not give them more turns.
const MAX_OF_PERSON: Duration = Duration::from_millis(50);

/// The connection that writes. Whoever holds the lock has the turn; the lock is handed on in order of asking.
#[derive(Debug, Clone)]
pub struct Writer {
    state: Arc<Mutex<State>>,
    places: FairSemaphore,
    people: FairSemaphore,
    log: Arc<WriteAheadLog>,
}

#[derive(Debug)]
struct State {
    connection: SqliteConnection,
    /// The transaction that is open, if its first turn went well.
    open: Option<Arc<Shared>>,
    /// Which of the savepoints the turn has, or the last one had.
    savepoint: usize,
    /// Whether that is still there although its turn went well.
    is_kept: bool,
}

/// Where a turn begins that is not the first of its transaction. That of a turn that went well is released when the next one
/// begins, with one statement for both: each is a round trip to the thread that writes.
#[derive(Debug)]
struct Savepoint {
    begin: &'static str,
    begin_after_other: &'static str,
    undo: &'static str,
    release: &'static str,
}

/// Two names: a turn that was abandoned before it began does not undo the one before it.
const SAVEPOINTS: [Savepoint; 2] = [
    Savepoint {
        begin: "SAVEPOINT even",
        begin_after_other: "RELEASE odd; SAVEPOINT even",
        undo: "ROLLBACK TO even; RELEASE even",
        release: "RELEASE even",
    },
    Savepoint {
        begin: "SAVEPOINT odd",
        begin_after_other: "RELEASE even; SAVEPOINT odd",
        undo: "ROLLBACK TO odd; RELEASE odd",
        release: "RELEASE odd",
    },
];

/// A transaction of several turns, and whether it was committed in the end.
#[derive(Debug, Default)]
struct Shared(OnceLock<bool>);

impl Writer {
    pub(super) async fn open(options: &SqliteConnectOptions, log: WriteAheadLog) -> Result<Self> {
        let connection = options.connect().await?;
        Ok(Self {
            state: Arc::new(Mutex::new(State {
                connection,
                open: None,
                savepoint: 0,
                is_kept: false,
            })),
            places: FairSemaphore::new("The database", AT_THE_LOCK, SLOW).followed_by_waiting(),
            people: FairSemaphore::for_each("The database", AT_THE_LOCK)
                .with_longest_of_one(MAX_OF_PERSON)
                .followed_by_waiting(),
            log: Arc::new(log),
        })
    }

    /// Waits for the turn and begins it.
    pub(super) async fn turn(&self) -> Result<WriteGuard> {
        let (mut own, mut place, state) = self.acquire().await?;
        own.iter_mut().for_each(Permit::restart);
        place.restart();
        let writer = self.clone();
        let places = (place, own);
        // From here on, whatever happens is undone unless it is committed: also a beginning that is abandoned.
        let mut turn = WriteGuard(Some(Held { writer, places, state }));
        if let Some(held) = &mut turn.0 {
            begin(&mut held.state).await?;
        }
        Ok(turn)
    }

    /// A person whose turns were quick may have many at the lock. If they turn out to take long, those beyond the person's share
    /// wait again where nobody is behind them.
    async fn acquire(&self) -> Result<(Option<Permit>, Permit, OwnedMutexGuard<State>)> {
        loop {
            let own = match caller::current().user {
                Some(user) => Some(self.people.acquire_for(user).await?),
                None => None,
            };
            let (place, state) = self.lock().await?;
            if !own.as_ref().is_some_and(Permit::is_beyond_share) {
                return Ok((own, place, state));
            }
            // The lock last: whoever has it next asks how many there are.
            drop((own, place, state));
        }
    }

    /// A tenant that turns out to be slow while several of its writes are already at the lock queues them with the slow ones.
    async fn lock(&self) -> Result<(Permit, OwnedMutexGuard<State>)> {
        loop {
            let place = self.places.acquire().await?;
            let state = self.state.clone().lock_owned().await;
            if !place.is_outdated() {
                return Ok((place, state));
            }
        }
    }

    pub(super) async fn close(&self) {
        let mut state = self.state.lock().await;
        if let Err(error) = commit(&mut state).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "could not commit the last writes"
            );
        }
    }

    /// Commits the transaction, unless another of its turns has come first.
    async fn commit(self, shared: Arc<Shared>) -> Result<()> {
        let mut state = self.state.lock().await;
        let committed = match shared.0.get() {
            Some(true) => Ok(()),
            Some(false) => Err(sqlx::Error::WorkerCrashed.into()),
            None => commit(&mut state).await,
        };
        drop(state);
        if self.log.is_due() {
            // Nobody's answer waits for it.
            tokio::spawn(self.empty_log());
        }
        committed
    }

    async fn empty_log(self) {
        let mut state = self.state.lock().await;
        // All turns of the open transaction have ended, or one of them would have the lock.
        let emptied = match commit(&mut state).await {
            Ok(()) => self.log.empty().await,
            Err(error) => Err(error),
        };
        if let Err(error) = emptied {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not empty the write-ahead log"
            );
        }
    }
}

/// The right to write, from when it is one's turn until it is committed or dropped.
#[derive(Debug)]
pub(crate) struct WriteGuard(Option<Held>);

#[derive(Debug)]
struct Held {
    writer: Writer,
    /// Among all who write, and among what a person has in progress. They go before the lock does: whoever has it next must
    /// know how long this turn took.
    places: (Permit, Option<Permit>),
    state: OwnedMutexGuard<State>,
}

impl WriteGuard {
    /// Ends the turn, and returns when what it did is on the disk.
    pub(super) async fn commit(mut self) -> Result<()> {
        let Some(held) = self.0.take() else { return Ok(()) };
        // On a task of its own, for a turn must be ended even if nobody waits for the answer any more.
        let committed = tokio::spawn(held.commit()).await;
        committed.map_err(|_| sqlx::Error::WorkerCrashed)?
    }

    /// Ends the turn as if it had never been.
    pub(super) async fn undo(mut self) -> Result<()> {
        let Some(held) = self.0.take() else { return Ok(()) };
        let undone = tokio::spawn(held.undo()).await;
        undone.map_err(|_| sqlx::Error::WorkerCrashed)?
    }
}

impl Held {
    async fn commit(mut self) -> Result<()> {
        let shared = keep(&mut self.state);
        drop((self.places, self.state));
        // Asking for the lock again lets everybody who waits have a turn first, and they share this commit.
        self.writer.commit(shared).await
    }

    async fn undo(mut self) -> Result<()> {
        undo(&mut self.state).await
    }
}

/// Abandoned: the next turn begins where this one did.
impl Drop for WriteGuard {
    fn drop(&mut self) {
        let Some(held) = self.0.take() else { return };
        tokio::spawn(async move {
            // There may be nothing to undo, if it did not even begin.
            if let Err(error) = held.undo().await {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "an abandoned write had not started"
                );
            }
        });
    }
}

impl Deref for WriteGuard {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.0.as_ref().expect("a turn is held until it ends").state.connection
    }
}

impl DerefMut for WriteGuard {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.0.as_mut().expect("a turn is held until it ends").state.connection
    }
}

async fn begin(state: &mut State) -> Result<()> {
    if state.open.is_none() {
        // It is undone by undoing the whole.
        return run(state, "BEGIN IMMEDIATE").await;
    }
    state.savepoint = 1 - state.savepoint;
    let savepoint = &SAVEPOINTS[state.savepoint];
    let begin = if std::mem::take(&mut state.is_kept) {
        savepoint.begin_after_other
    } else {
        savepoint.begin
    };
    run(state, begin).await
}

/// The turn went well, and is committed with the others.
fn keep(state: &mut State) -> Arc<Shared> {
    state.is_kept = state.open.is_some();
    state.open.get_or_insert_default().clone()
}

async fn commit(state: &mut State) -> Result<()> {
    // The savepoint goes with the transaction.
    state.is_kept = false;
    let Some(shared) = state.open.take() else { return Ok(()) };
    let result = run(state, "COMMIT").await;
    // The lock is held, so nobody has set it before.
    let _ = shared.0.set(result.is_ok());
    if result.is_err() {
        // A full disk leaves the transaction open; the next one must find none.
        give_up(state).await;
    }
    result
}

async fn undo(state: &mut State) -> Result<()> {
    if state.open.is_none() {
        return run(state, "ROLLBACK").await;
    }
    let savepoint = &SAVEPOINTS[state.savepoint];
    let undone = run(state, savepoint.undo).await;
    if undone.is_err() {
        // A full disk makes SQLite roll back all turns together: then there is no transaction, and another can be begun. If
        // the savepoint is there, what the turn did cannot be told from what others did.
        if run(state, "BEGIN").await.is_ok() || run(state, savepoint.release).await.is_ok() {
            give_up(state).await;
        } else {
            // The turn had not begun. No savepoint of an earlier one is left for a later one to go back to.
            commit(state).await?;
        }
    }
    undone
}

/// Nothing of the open transaction is kept, and everybody who waits for it is told.
async fn give_up(state: &mut State) {
    if let Some(shared) = state.open.take() {
        // The lock is held, so nobody has set it before.
        let _ = shared.0.set(false);
    }
    // It may be gone already.
    let _ = run(state, "ROLLBACK").await;
}

async fn run(state: &mut State, statement: &'static str) -> Result<()> {
    sqlx::query(statement).execute(&mut state.connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sqlx::sqlite::SqliteJournalMode;
    use tokio::task::JoinSet;
    use tokio::time::{sleep, timeout};

    use super::super::readers::Readers;
    use super::caller::{Caller, Tenant, on_behalf_of_caller};
    use super::*;
    use crate::id::{OrganizationId, UserId};

    fn member(user: i64, organization: u128) -> Caller {
        Caller {
            tenant: Tenant::Organization(OrganizationId(uuid::Uuid::from_u128(organization))),
            user: Some(UserId(user)),
            credential: None,
            grant: None,
        }
    }

    /// Never so long that it counts as slow.
    async fn write(writer: &Writer) {
        let turn = writer.turn().await.unwrap();
        sleep(Duration::from_millis(15)).await;
        turn.undo().await.unwrap();
    }

    async fn begin_with(state: &mut State, value: i64) {
        begin(state).await.unwrap();
        let insert = sqlx::query("INSERT INTO written VALUES ($1)").bind(value);
        insert.execute(&mut state.connection).await.unwrap();
    }

    /// A turn that is about to begin: the savepoint of the one before it is still there.
    async fn abandon(state: &mut State) {
        state.savepoint = 1 - state.savepoint;
        state.is_kept = false;
        assert!(undo(state).await.is_err());
    }

    #[tokio::test]
    async fn a_turn_undoes_what_it_did_and_nothing_else() {
        let options = SqliteConnectOptions::new().in_memory(true);
        let log = WriteAheadLog::new(&options, &Readers::new(options.clone()), 0);
        let writer = Writer::open(&options, log).await.unwrap();
        execute(&writer, "CREATE TABLE written (value INTEGER)").await;
        let mut state = writer.state.lock().await;
        for (value, is_kept) in [(1, true), (2, true), (3, false), (4, true), (5, true)] {
            begin_with(&mut state, value).await;
            if is_kept {
                keep(&mut state);
            } else {
                undo(&mut state).await.unwrap();
            }
        }
        abandon(&mut state).await;
        begin_with(&mut state, 6).await;
        undo(&mut state).await.unwrap();
        for value in [7, 8] {
            begin_with(&mut state, value).await;
            keep(&mut state);
        }
        abandon(&mut state).await;
        commit(&mut state).await.unwrap();
        let values = sqlx::query_scalar("SELECT value FROM written ORDER BY value");
        let values: Vec<i64> = values.fetch_all(&mut state.connection).await.unwrap();
        assert_eq!(values, [1, 2, 4, 5, 7, 8]);
    }

    #[tokio::test]
    async fn a_person_with_many_organizations_has_not_many_turns() {
        let options = SqliteConnectOptions::new().in_memory(true);
        let log = WriteAheadLog::new(&options, &Readers::new(options.clone()), 0);
        let writer = Writer::open(&options, log).await.unwrap();
        let mut busy = JoinSet::new();
        for organization in 0..60 {
            let writer = writer.clone();
            busy.spawn(on_behalf_of_caller(member(1, organization), async move {
                loop {
                    write(&writer).await;
                }
            }));
        }
        for _ in 0..20 {
            sleep(Duration::from_millis(20)).await;
            // Ten while nobody knows how long theirs take, fewer then.
            assert!((1..=10).contains(&writer.people.held()), "{}", writer.people.held());
        }
        on_behalf_of_caller(member(2, 100), write(&writer)).await;
    }

    #[tokio::test]
    async fn a_person_whose_turns_were_quick_has_not_many_slow_ones() {
        let options = SqliteConnectOptions::new().in_memory(true);
        let log = WriteAheadLog::new(&options, &Readers::new(options.clone()), 0);
        let writer = Writer::open(&options, log).await.unwrap();
        for _ in 0..40 {
            let quick = async {
                let turn = writer.turn().await.unwrap();
                turn.undo().await.unwrap();
            };
            on_behalf_of_caller(member(1, 0), quick).await;
        }
        // All of them come to the lock before the first is found out.
        let before = on_behalf_of_caller(member(2, 100), writer.turn()).await.unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let mut slow = JoinSet::new();
        for organization in 1..=20 {
            let (writer, ended) = (writer.clone(), ended.clone());
            slow.spawn(on_behalf_of_caller(member(1, organization), async move {
                let turn = writer.turn().await.unwrap();
                sleep(Duration::from_millis(100)).await;
                ended.fetch_add(1, Ordering::Relaxed);
                turn.undo().await.unwrap();
            }));
        }
        sleep(Duration::from_millis(50)).await;
        let other = tokio::spawn({
            let writer = writer.clone();
            on_behalf_of_caller(member(3, 101), async move {
                write(&writer).await;
            })
        });
        sleep(Duration::from_millis(50)).await;
        before.undo().await.unwrap();
        other.await.unwrap();
        let ended = ended.load(Ordering::Relaxed);
        assert!(ended <= 8, "another one waited for {ended} of 20");
    }

    async fn execute(writer: &Writer, statement: &'static str) {
        let mut turn = writer.turn().await.unwrap();
        sqlx::query(statement).execute(&mut *turn).await.unwrap();
        turn.commit().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reads_that_overlap_do_not_make_the_log_grow() {
        const MAX: u64 = 1 << 20;
        // Takes a while, and has its transaction open all the time.
        const LONG: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) \
                            SELECT (SELECT count(*) FROM written), count(*) FROM n";
        let folder = std::env::temp_dir().join(format!("hedgerow-log-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&folder).unwrap();
        let options = SqliteConnectOptions::new()
            .filename(folder.join("file.sqlite"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let readers = Readers::new(options.clone());
        let log = WriteAheadLog::new(&options, &readers, MAX);
        let writer = Writer::open(&options, log).await.unwrap();
        execute(&writer, "CREATE TABLE written (bytes BLOB)").await;
        let mut reads = JoinSet::new();
        for _ in 0..3 {
            let readers = readers.clone();
            reads.spawn(async move {
                loop {
                    let mut reader = readers.acquire().await.unwrap();
                    sqlx::query(LONG).execute(&mut *reader).await.unwrap();
                    reader.settle();
                }
            });
        }
        let mut longest = 0;
        let is_emptied = timeout(Duration::from_mins(1), async {
            loop {
                execute(&writer, "INSERT INTO written VALUES (randomblob(50000))").await;
                let bytes = std::fs::metadata(folder.join("file.sqlite-wal")).unwrap().len();
                if bytes < longest {
                    break;
                }
                longest = bytes;
                sleep(Duration::from_millis(5)).await;
            }
        });
        let is_emptied = is_emptied.await.is_ok();
        assert!(longest > MAX && is_emptied, "{longest} bytes");
        let reader = timeout(Duration::from_secs(30), readers.acquire()).await;
        assert!(
            reader.is_ok_and(|reader| reader.is_ok()),
            "nobody is held back any more"
        );
        reads.abort_all();
        std::fs::remove_dir_all(folder).unwrap();
    }
}
