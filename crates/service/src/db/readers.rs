//! Connections that read SQLite's file. What nobody waits for any more is interrupted, and the connection goes to the next one,
//! together with the permit for it, when it has ended.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool::managed::{self, Metrics, Object, RecycleResult};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection as _, SqliteConnection};
use tokio::runtime::Handle;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::fair::{FairSemaphore, Permit, Slow};
use super::postgres::pool_failed;
use crate::error::Result;

const CONNECTIONS: usize = 4;
/// After how many steps of SQLite's machine somebody looks whether the answer is still wanted.
const STEPS: i32 = 1_000;

#[derive(Debug, Clone)]
pub struct Readers {
    connections: managed::Pool<Manager>,
    /// Tenants take turns at connections.
    turns: FairSemaphore,
    /// Shared by all who read, so that they can be held back.
    gate: Arc<RwLock<()>>,
}

impl Readers {
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        let pool = managed::Pool::builder(Manager { options })
            .max_size(CONNECTIONS)
            .build();
        Self {
            connections: pool.expect("a pool without time limits of its own needs no runtime"),
            turns: FairSemaphore::new("The database", CONNECTIONS, Slow::half_of(CONNECTIONS)).followed_by_waiting(),
            gate: Arc::default(),
        }
    }

    pub(super) async fn acquire(&self) -> Result<Reader> {
        let mut permit = self.turns.acquire().await?;
        // There is one for each permit, so nobody waits here unless it has to be made.
        let object = self.connections.get().await.map_err(pool_failed)?;
        let gate = self.gate.clone().read_owned().await;
        permit.restart();
        Ok(Reader {
            object: Some(object),
            is_settled: true,
            permit: Some((permit, gate)),
        })
    }

    /// Waits until nobody reads. Nobody begins to until what this returns is dropped, nor while it waits.
    pub(super) async fn hold_back(&self) -> OwnedRwLockWriteGuard<()> {
        self.gate.clone().write_owned().await
    }

    /// A connection of its own, which nobody interrupts.
    pub(super) async fn connect(&self) -> Result<SqliteConnection> {
        Ok(self.connections.manager().options.connect().await?)
    }

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

#[derive(Debug)]
struct Manager {
    options: SqliteConnectOptions,
}

#[derive(Debug)]
struct Interruptible {
    connection: SqliteConnection,
    is_abandoned: Arc<AtomicBool>,
}

impl managed::Manager for Manager {
    type Type = Interruptible;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<Interruptible, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let seen = is_abandoned.clone();
        let mut handle = connection.lock_handle().await?;
        handle.set_progress_handler(STEPS, move || !seen.load(Ordering::Relaxed));
        drop(handle);
        Ok(Interruptible {
            connection,
            is_abandoned,
        })
    }

    async fn recycle(&self, _: &mut Interruptible, _: &Metrics) -> RecycleResult<sqlx::Error> {
        Ok(())
    }
}

/// The permit, and the right to read at this moment.
type Held = (Permit, OwnedRwLockReadGuard<()>);

/// The use of one connection.
pub(crate) struct Reader {
    object: Option<Object<Manager>>,
    /// Whether all that it was asked was answered. If not, whoever asked may have gone.
    is_settled: bool,
    permit: Option<Held>,
}

impl Reader {
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
    }
}

impl Deref for Reader {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.object.as_ref().expect("it is taken at the end only").connection
    }
}

impl DerefMut for Reader {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.is_settled = false;
        &mut self.object.as_mut().expect("it is taken at the end only").connection
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        if self.is_settled {
            return;
        }
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(interrupt(object, self.permit.take()))),
            Err(_) => drop(Object::take(object)),
        }
    }
}

/// Ends what was left behind. The permit is held until the connection is back.
async fn interrupt(mut object: Object<Manager>, permit: Option<Held>) {
    object.is_abandoned.store(true, Ordering::Relaxed);
    // It is answered after the statement before it.
    let is_clear = object.connection.ping().await.is_ok();
    object.is_abandoned.store(false, Ordering::Relaxed);
    if is_clear {
        drop(object);
    } else {
        drop(Object::take(object));
    }
    drop(permit);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_abandoned_ends_and_gives_its_connection_back() {
        let readers = Readers::new(SqliteConnectOptions::new().in_memory(true));
        for _ in 0..3 {
            let mut abandoned = tokio::task::JoinSet::new();
            for _ in 0..CONNECTIONS {
                let mut reader = readers.acquire().await.unwrap();
                abandoned.spawn(async move { sqlx::query(ENDLESS).execute(&mut *reader).await.map(drop) });
            }
            // They hold all permits, and keep them until the statements have ended.
            let next = tokio::spawn({
                let readers = readers.clone();
                async move {
                    let mut reader = readers.acquire().await?;
                    sqlx::query("SELECT 1").execute(&mut *reader).await?;
                    reader.settle();
                    Ok::<_, crate::Error>(())
                }
            });
            tokio::time::sleep(Duration::from_millis(50)).await;
            abandoned.abort_all();
            let next = timeout(Duration::from_secs(30), next).await.expect("they are ended");
            next.unwrap().unwrap();
        }
        // All of them are back.
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            let reader = timeout(Duration::from_secs(30), readers.acquire()).await;
            held.push(reader.expect("a permit").unwrap());
        }
        assert_eq!((readers.open(), readers.idle()), (CONNECTIONS, 0));
    }
    /// As `.cargo/config.toml` says. Without it, SQLite takes longer to plan most lists than to read them.
    #[tokio::test]
    async fn statements_are_planned_once_whatever_their_limit() {
        let readers = Readers::new(SqliteConnectOptions::new().in_memory(true));
        let mut reader = readers.acquire().await.unwrap();
        let options: Vec<String> = sqlx::query_scalar("PRAGMA compile_options")
            .fetch_all(&mut *reader)
            .await
            .unwrap();
        assert!(options.iter().any(|option| option == "ENABLE_QPSG"), "{options:?}");
    }
}
