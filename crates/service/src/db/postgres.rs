//! Connections to PostgreSQL. One that does not answer is given up, and another one takes its place: a network that swallows
//! what is sent, or a lock that nobody gives back, costs some seconds and no more.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool::managed::{self, Metrics, Object, PoolError, RecycleError, RecycleResult};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection as _, PgConnection};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::availability::silence;
use super::caller;
use super::fair::{FairSemaphore, Permit, Slow};
use crate::error;

type Result<T, E = sqlx::Error> = std::result::Result<T, E>;

/// How long a new one has to be there.
const CONNECT: Duration = Duration::from_secs(10);
/// How long one waits for the answer to a statement. The server gives up earlier, unless it is out of reach.
const ANSWER: Duration = Duration::from_secs(17);
/// What has been idle for this long is asked whether it is still there.
const IDLE: Duration = Duration::from_secs(1);
/// How long it has to say so, and to undo what was left behind.
const CHECK: Duration = Duration::from_secs(3);
/// Older connections make way, so that a changed address or a failed-over server is noticed.
const LIFETIME: Duration = Duration::from_mins(30);

/// For every connection: a process that stops in the middle of a transaction keeps its locks for ten seconds, others wait for them for
/// three, and nothing runs for ever.
const SESSION: &str =
    "SET statement_timeout = '15s'; SET lock_timeout = '3s'; SET idle_in_transaction_session_timeout = '10s'";

/// How much estimated write time one user can have in progress, in all of their organizations together: creating more
/// organizations does not give them more connections. The estimate is the recent duration of their writes.
const MAX_OF_PERSON: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub struct Pool {
    connections: managed::Pool<Manager>,
    /// Tenants take turns at connections.
    turns: FairSemaphore,
    /// Writers wait for locks with a connection in their hands. Some connections are left for those who read.
    writers: FairSemaphore,
    people: FairSemaphore,
}

impl Pool {
    pub(super) fn new(options: PgConnectOptions, connections: u32) -> Self {
        let connections = usize::try_from(connections).unwrap_or(usize::MAX).max(1);
        let manager = Manager {
            options,
            distrusted: Mutex::default(),
        };
        let pool = managed::Pool::builder(manager).max_size(connections).build();
        Self {
            connections: pool.expect("a pool without time limits of its own needs no runtime"),
            turns: FairSemaphore::new("The database", connections, Slow::half_of(connections)),
            writers: FairSemaphore::new(
                "The database",
                writers(connections),
                Slow::half_of(writers(connections)),
            )
            .followed_by_waiting(),
            people: FairSemaphore::for_each("The database", writers(connections))
                .with_longest_of_one(MAX_OF_PERSON)
                .followed_by_waiting(),
        }
    }

    pub(super) async fn read(&self) -> error::Result<Lease> {
        unless_silent(self.lease(None)).await
    }

    /// A connection with a transaction, which is undone unless it is committed.
    pub(super) async fn begin(&self) -> error::Result<Lease> {
        let writing = unless_silent(self.acquire_to_write()).await?;
        let mut lease = unless_silent(self.lease(Some(writing))).await?;
        lease.state = State::InTransaction;
        lease.run("BEGIN").await?;
        Ok(lease)
    }

    /// A person whose writes were quick may wait for many. If they turn out to take long, those beyond the person's share wait
    /// again where nobody is behind them.
    async fn acquire_to_write(&self) -> error::Result<WritePermits> {
        loop {
            let person = match caller::current().user {
                Some(user) => Some(self.people.acquire_for(user).await?),
                None => None,
            };
            let writer = self.writers.acquire().await?;
            if !person.as_ref().is_some_and(Permit::is_beyond_share) {
                return Ok(WritePermits { person, writer });
            }
            // The writer's last: whoever has it next asks how many there are.
            drop((person, writer));
        }
    }

    async fn lease(&self, mut writing: Option<WritePermits>) -> error::Result<Lease> {
        let mut turn = self.turns.acquire().await?;
        // There is one for each permit, so nobody waits here unless it has to be made.
        let object = self.connections.get().await.map_err(pool_failed)?;
        turn.restart();
        writing.iter_mut().for_each(WritePermits::restart);
        Ok(Lease {
            object: Some(object),
            state: State::Settled,
            permits: Some((turn, writing)),
        })
    }

    /// A connection of its own, without time limits, for what may take long.
    pub(super) async fn connect(&self) -> Result<PgConnection> {
        self.connections.manager().options.connect().await
    }

    /// Whatever is idle now is not used any more.
    pub(super) fn distrust(&self) {
        self.connections.manager().distrust();
    }

    /// Whatever is in use ends with its use.
    pub(super) fn close(&self) {
        self.connections.close();
    }

    pub(super) fn open(&self) -> usize {
        self.connections.status().size
    }

    pub(super) fn idle(&self) -> usize {
        self.connections.status().available
    }
}

pub(super) fn pool_failed(error: PoolError<sqlx::Error>) -> sqlx::Error {
    match error {
        PoolError::Backend(error) => error,
        PoolError::Closed => sqlx::Error::PoolClosed,
        _ => sqlx::Error::PoolTimedOut,
    }
}

/// How many of the connections writers may have.
fn writers(connections: usize) -> usize {
    (connections - connections.div_ceil(4)).max(1)
}

#[derive(Debug)]
struct Manager {
    options: PgConnectOptions,
    /// When a connection was last found dead. Those that were not used since then may be dead, too.
    distrusted: Mutex<Option<Instant>>,
}

impl Manager {
    fn distrust(&self) {
        *self.distrusted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn distrusts(&self, last_used: Instant) -> bool {
        let distrusted = *self.distrusted.lock().unwrap_or_else(PoisonError::into_inner);
        distrusted.is_some_and(|since| last_used <= since)
    }
}

impl managed::Manager for Manager {
    type Type = PgConnection;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<PgConnection> {
        let connecting = async {
            let mut connection = self.options.connect().await?;
            sqlx::raw_sql(SESSION).execute(&mut connection).await?;
            Ok(connection)
        };
        timeout(CONNECT, connecting).await.unwrap_or_else(|_| Err(too_late()))
    }

    async fn recycle(&self, connection: &mut PgConnection, metrics: &Metrics) -> RecycleResult<sqlx::Error> {
        let last_used = metrics.recycled.unwrap_or(metrics.created);
        if metrics.age() > LIFETIME || self.distrusts(last_used) {
            return Err(RecycleError::message("old, or probably dead"));
        }
        if last_used.elapsed() < IDLE {
            return Ok(());
        }
        if !matches!(timeout(CHECK, connection.ping()).await, Ok(Ok(()))) {
            self.distrust();
            return Err(RecycleError::message("dead"));
        }
        Ok(())
    }
}

/// The use of one connection.
pub(crate) struct Lease {
    object: Option<Object<Manager>>,
    state: State,
    permits: Option<Permits>,
}

/// For a connection, and to write.
type Permits = (Permit, Option<WritePermits>);

/// The right to write, and a person's share of it.
struct WritePermits {
    person: Option<Permit>,
    writer: Permit,
}

impl WritePermits {
    fn restart(&mut self) {
        self.person.iter_mut().for_each(Permit::restart);
        self.writer.restart();
    }
}

/// What is known of a connection when it is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// All its answers were read.
    Settled,
    /// A statement may be in progress: whoever asked may have gone.
    Unsettled,
    InTransaction,
    Dead,
}

impl Lease {
    /// Remembers how a statement ended.
    pub(super) fn settle<T>(&mut self, outcome: &Result<T>) {
        match (outcome, self.state) {
            (Err(error), _) if ends_connection(error) => self.state = State::Dead,
            (_, State::Unsettled) => self.state = State::Settled,
            _ => {}
        }
    }

    pub(super) async fn commit(mut self) -> Result<()> {
        self.run("COMMIT").await?;
        self.state = State::Settled;
        Ok(())
    }

    pub(super) async fn rollback(mut self) -> Result<()> {
        self.run("ROLLBACK").await?;
        self.state = State::Settled;
        Ok(())
    }

    async fn run(&mut self, statement: &'static str) -> Result<()> {
        let outcome = answered(sqlx::raw_sql(statement).execute(&mut **self)).await;
        self.settle(&outcome);
        outcome.map(drop)
    }
}

impl Deref for Lease {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.object.as_ref().expect("it is taken at the end only")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut PgConnection {
        if self.state == State::Settled {
            self.state = State::Unsettled;
        }
        self.object.as_mut().expect("it is taken at the end only")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        match self.state {
            State::Settled => drop(object),
            State::Dead => give_up(object),
            state => match Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(clear(object, state, self.permits.take()))),
                Err(_) => give_up(object),
            },
        }
    }
}

/// Ends what was left behind. The permits are held until the connection is back.
async fn clear(mut object: Object<Manager>, state: State, permits: Option<Permits>) {
    let clearing = async {
        match state {
            State::InTransaction => sqlx::raw_sql("ROLLBACK").execute(&mut *object).await.map(drop),
            _ => object.ping().await,
        }
    };
    let is_clear = matches!(timeout(CHECK, clearing).await, Ok(Ok(())));
    if is_clear {
        drop(object);
    } else {
        give_up(object);
    }
    drop(permits);
}

/// Whether there is nobody at the other end any more.
fn ends_connection(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => true,
        // It is shut down, or a transaction was idle for too long.
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| code.starts_with("57P") || code == "25P03"),
        _ => false,
    }
}

/// Closes a connection without a word: whoever is at the other end may not be listening.
fn give_up(object: Object<Manager>) {
    if let Some(pool) = Object::pool(&object) {
        pool.manager().distrust();
    }
    drop(Object::take(object));
}

/// Waits for the answer to a statement, but not for ever.
pub(crate) fn answered<'a, T: 'a>(
    statement: impl Future<Output = Result<T>> + Send + 'a,
) -> impl Future<Output = Result<T>> + Send + 'a {
    let answer = timeout(ANSWER, unless_silent(statement));
    async { answer.await.unwrap_or_else(|_| Err(too_late())) }
}

/// Waits for something that needs the database, and no longer when nothing is heard of that. Boxed, as the futures of all use cases
/// hold one.
fn unless_silent<'a, T: 'a, E: From<sqlx::Error> + 'a>(
    work: impl Future<Output = Result<T, E>> + Send + 'a,
) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>> {
    Box::pin(async {
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = silence() => Err(too_late().into()),
        }
    })
}

fn too_late() -> sqlx::Error {
    let why = "the database timed out";
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, why))
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;
    use tokio::time::sleep;
    use uuid::Uuid;

    use super::super::caller::{Caller, Tenant, on_behalf_of_caller};
    use super::*;
    use crate::id::{OrganizationId, UserId};

    fn member(user: i64, organization: u128) -> Caller {
        Caller {
            tenant: Tenant::Organization(OrganizationId(Uuid::from_u128(organization))),
            user: Some(UserId(user)),
            credential: None,
            grant: None,
        }
    }

    #[tokio::test]
    async fn a_person_with_many_organizations_has_not_all_writers() {
        let pool = Pool::new(PgConnectOptions::new_without_pgpass(), 16);
        let mut busy = JoinSet::new();
        for organization in 0..60 {
            let pool = pool.clone();
            busy.spawn(on_behalf_of_caller(member(1, organization), async move {
                loop {
                    let mut writing = pool.acquire_to_write().await.unwrap();
                    writing.restart();
                    sleep(Duration::from_millis(100)).await;
                }
            }));
        }
        // Until then nobody knows how long theirs take.
        sleep(Duration::from_millis(500)).await;
        for _ in 0..10 {
            assert!((1..=4).contains(&pool.people.held()), "{}", pool.people.held());
            let since = Instant::now();
            let other = on_behalf_of_caller(member(2, 100), pool.acquire_to_write());
            drop(other.await.unwrap());
            assert!(since.elapsed() < Duration::from_millis(50), "{:?}", since.elapsed());
            sleep(Duration::from_millis(20)).await;
        }
    }

    #[test]
    fn some_connections_are_left_for_readers() {
        let of = [1, 2, 3, 4, 10, 20].map(|connections| (connections, writers(connections)));
        assert_eq!(of, [(1, 1), (2, 1), (3, 2), (4, 3), (10, 7), (20, 15)]);
    }
}
