//! Knowing, cheaply and exactly, that nothing has changed.
//!
//! A copy in memory is as good as the database while the version it was read at is still the
//! current one. The version is read again for every request, so a removal or revocation by anybody,
//! in this process or another, holds from the very next one.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::postgres::Pool;
use crate::error::Result;

/// A state of the data. Unknown states equal nothing, not even each other.
#[derive(Debug, Clone, Copy, Eq)]
pub(crate) enum Version {
    Unknown,
    Sqlite([u8; 48]),
    /// `pg_current_snapshot()`: oldest running, next and running transaction ids, hashed.
    Postgres(u128),
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sqlite(one), Self::Sqlite(two)) => one == two,
            (Self::Postgres(one), Self::Postgres(two)) => one == two,
            _ => false,
        }
    }
}

/// The first copy of the header of SQLite's WAL index, the `-shm` file.
///
/// Every commit of any connection in any process rewrites these 48 bytes; comparing them is how
/// SQLite itself finds out that it must read again (<https://sqlite.org/walformat.html>).
#[derive(Debug, Clone)]
pub struct SqliteVersion {
    index: &'static File,
}

impl SqliteVersion {
    /// The database is open already, and stays so: that is what keeps the index where it is.
    pub(super) fn open(database: &Path) -> std::io::Result<Self> {
        let index = opened_for_good(&with_suffix(database, "-shm"))?;
        Ok(Self { index })
    }

    pub(super) fn read(&self) -> Version {
        let mut header = [0; 48];
        match self.index.read_exact_at(&mut header, 0) {
            Ok(()) if header.iter().any(|&byte| byte != 0) => Version::Sqlite(header),
            _ => Version::Unknown,
        }
    }
}

/// Keeps other processes from setting up the same file until the lock is dropped.
pub(super) async fn lock_set_up(database: &Path) -> std::io::Result<File> {
    let path = with_suffix(database, "-setup");
    let waiting = tokio::task::spawn_blocking(move || {
        let lock = File::create(path)?;
        lock.lock()?;
        Ok(lock)
    });
    waiting.await.map_err(std::io::Error::other)?
}

/// Opens a file that this process must never close again.
///
/// Closing any handle of a file drops all POSIX locks the process holds on it, SQLite's among them. So each
/// index is opened once and kept to the end; one that was made again in the meantime is another file.
fn opened_for_good(path: &Path) -> std::io::Result<&'static File> {
    static OPENED: Mutex<Vec<(u64, u64, &'static File)>> = Mutex::new(Vec::new());
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let is = std::fs::metadata(path)?;
    if let Some((_, _, file)) = opened
        .iter()
        .find(|(device, inode, _)| (*device, *inode) == (is.dev(), is.ino()))
    {
        return Ok(file);
    }
    let file: &'static File = Box::leak(Box::new(File::open(path)?));
    opened.push((is.dev(), is.ino(), file));
    Ok(file)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whoever gets no answer within this asks the database itself.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

type Asker = oneshot::Sender<Version>;

/// Asks PostgreSQL for its snapshot: one question answers all requests that wait for it.
///
/// Equal snapshots mean that no transaction has begun to write or has committed in between.
/// While one question is in progress, requests that come gather for the next, so that each gets an answer
/// to a question that was asked after it came.
#[derive(Debug, Clone)]
pub struct PostgresVersion {
    askers: Option<mpsc::UnboundedSender<Asker>>,
}

impl PostgresVersion {
    pub(super) async fn start(pool: &Pool) -> Result<Self> {
        let mut connection = pool.read().await?;
        let server: String = sqlx::query_scalar("SELECT version()")
            .fetch_one(&mut *connection)
            .await?;
        // Databases that only speak PostgreSQL's protocol need not keep its transaction ids.
        let is_genuine = server.starts_with("PostgreSQL ") && !server.contains("-YB-");
        if !is_genuine {
            return Ok(Self { askers: None });
        }
        let (askers, waiting) = mpsc::unbounded_channel();
        tokio::spawn(answer_all(pool.clone(), waiting));
        Ok(Self { askers: Some(askers) })
    }

    pub(super) async fn read(&self) -> Version {
        let (asker, answer) = oneshot::channel();
        match &self.askers {
            Some(askers) if askers.send(asker).is_ok() => answer.await.unwrap_or(Version::Unknown),
            _ => Version::Unknown,
        }
    }
}

async fn answer_all(pool: Pool, mut waiting: mpsc::UnboundedReceiver<Asker>) {
    const MAX: usize = 1024;
    let mut askers = Vec::with_capacity(MAX);
    while waiting.recv_many(&mut askers, MAX).await > 0 {
        let version = snapshot(&pool).await;
        for asker in askers.drain(..) {
            // Whoever has gone away in the meantime does not mind.
            let _ = asker.send(version);
        }
    }
}

async fn snapshot(pool: &Pool) -> Version {
    match timeout(ANSWER_TIMEOUT, ask(pool))
        .await
        .unwrap_or(Err(sqlx::Error::PoolTimedOut.into()))
    {
        Ok(text) => Version::Postgres(digest(&text)),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not read the database's snapshot"
            );
            Version::Unknown
        }
    }
}

async fn ask(pool: &Pool) -> Result<String> {
    let mut connection = pool.read().await?;
    let snapshot = sqlx::query_scalar("SELECT pg_current_snapshot()::text")
        .fetch_one(&mut *connection)
        .await;
    connection.settle(&snapshot);
    Ok(snapshot?)
}

/// 128 bits of SHA-256: the list of running transactions has no bound, and equality is all we need.
fn digest(text: &str) -> u128 {
    let hash = auth::key::hash(text);
    u128::from_be_bytes(hash[..16].try_into().expect("sixteen of thirty-two bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_versions_equal_nothing() {
        assert_ne!(Version::Unknown, Version::Unknown);
        assert_ne!(Version::Unknown, Version::Postgres(1));
        assert_eq!(Version::Postgres(1), Version::Postgres(1));
    }
}
