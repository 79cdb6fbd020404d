//! Knowing, cheaply and exactly, that nothing has changed.
//!
//! A copy in memory is as good as the database while the version it was read at is still the
//! current one. The version is read anew for every request, so a removal or revocation by anybody,
//! in this process or another, holds from the very next one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sqlx::PgPool;
use tokio::sync::{mpsc, oneshot};

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
    database: PathBuf,
    index: Arc<OnceLock<File>>,
}

impl SqliteVersion {
    pub(super) fn open(database: &Path) -> Self {
        Self {
            database: database.to_owned(),
            index: Arc::default(),
        }
    }

    pub(super) fn read(&self) -> Version {
        let Some(index) = self.index() else {
            return Version::Unknown;
        };
        let mut header = [0; 48];
        match index.read_exact_at(&mut header, 0) {
            Ok(()) if header.iter().any(|&byte| byte != 0) => Version::Sqlite(header),
            _ => Version::Unknown,
        }
    }

    /// The file is there once the first connection has read; our readers keep it there.
    fn index(&self) -> Option<&File> {
        if let Some(file) = self.index.get() {
            return Some(file);
        }
        let file = File::open(with_suffix(&self.database, "-shm")).ok()?;
        Some(self.index.get_or_init(|| file))
    }

    /// Keeps other processes from migrating the same file until the lock is dropped.
    pub(super) fn lock_migrations(&self) -> std::io::Result<File> {
        let lock = File::create(with_suffix(&self.database, "-migrating"))?;
        lock.lock()?;
        Ok(lock)
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

type Asker = oneshot::Sender<Version>;

/// Asks PostgreSQL for its snapshot: one question answers all requests that wait for it.
///
/// Equal snapshots mean that no transaction has begun to write or has committed in between.
/// While one question is under way, newcomers gather for the next, so that each gets an answer
/// to a question that was asked after it came.
#[derive(Debug, Clone)]
pub struct PostgresVersion {
    askers: Option<mpsc::UnboundedSender<Asker>>,
}

impl PostgresVersion {
    pub(super) async fn start(pool: &PgPool) -> Result<Self> {
        let server: String = sqlx::query_scalar("SELECT version()").fetch_one(pool).await?;
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

async fn answer_all(pool: PgPool, mut waiting: mpsc::UnboundedReceiver<Asker>) {
    const MOST: usize = 1024;
    let mut askers = Vec::with_capacity(MOST);
    while waiting.recv_many(&mut askers, MOST).await > 0 {
        let version = snapshot(&pool).await;
        for asker in askers.drain(..) {
            // Whoever has gone away in the meantime does not mind.
            let _ = asker.send(version);
        }
    }
}

async fn snapshot(pool: &PgPool) -> Version {
    let snapshot = sqlx::query_scalar::<_, String>("SELECT pg_current_snapshot()::text")
        .fetch_one(pool)
        .await;
    match snapshot {
        Ok(text) => Version::Postgres(digest(&text)),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "could not ask for the database's snapshot"
            );
            Version::Unknown
        }
    }
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
