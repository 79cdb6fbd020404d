//! The database, whichever of the two it is: pools, sessions, and the macros that run one text on both. Knows nothing of use cases.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection as _, PgConnection, SqliteConnection};

use crate::error::{Error, Result};

mod availability;
pub mod backup;
pub mod caller;
pub(crate) mod columns;
mod fair;
mod group_commit;
mod heartbeat;
mod log;
mod migrations;
mod postgres;
mod readers;
mod time;
mod version;
mod write_ahead_log;

pub use fair::{FairSemaphore, Permit, Slow};
use group_commit::{WriteGuard, Writer};
pub(crate) use log::log_page;
use migrations::{migrate_postgres, migrate_sqlite};
pub(crate) use postgres::answered;
use postgres::{Lease, Pool};
pub(crate) use readers::Reader;
use readers::Readers;
pub(crate) use version::Version;
use version::{PostgresVersion, SqliteVersion, lock_set_up};
use write_ahead_log::{LOG_BYTES, WriteAheadLog};

const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a query on whichever database the session is open on.
macro_rules! on {
    ($session:expr, $conn:ident => $query:expr) => {
        match $session.connection() {
            $crate::db::Connection::Sqlite($conn) => {
                let outcome = $query.await;
                $session.settle(&outcome);
                outcome
            }
            $crate::db::Connection::Postgres($conn) => {
                let outcome = $crate::db::answered($query).await;
                $session.settle(&outcome);
                outcome
            }
        }
    };
}
pub(crate) use on;

/// Runs a statement and tells how many rows it changed.
macro_rules! changed {
    ($session:expr, $query:expr) => {
        match $session.connection() {
            $crate::db::Connection::Sqlite(conn) => {
                let outcome = $query.execute(conn).await;
                $session.settle(&outcome);
                outcome.map(|done| done.rows_affected())
            }
            $crate::db::Connection::Postgres(conn) => {
                let outcome = $crate::db::answered($query.execute(conn)).await;
                $session.settle(&outcome);
                outcome.map(|done| done.rows_affected())
            }
        }
    };
}
pub(crate) use changed;

/// The database, whichever it is.
#[derive(Debug, Clone)]
pub enum Store {
    /// Writers take turns; readers never wait for them.
    Sqlite {
        file: PathBuf,
        readers: Readers,
        writer: Writer,
        version: SqliteVersion,
    },
    Postgres {
        pool: Pool,
        version: PostgresVersion,
    },
}

/// How busy the database is, for the metrics page.
#[derive(Debug, Clone, Copy)]
pub struct PoolUse {
    pub open: u32,
    pub idle: usize,
}

impl Store {
    /// Opens a database by its address: `sqlite:FILE` or `postgres://…`. Makes the file if there is none.
    pub async fn open(url: &str, connections: u32) -> Result<Self> {
        match url.split_once(':') {
            Some(("postgres" | "postgresql", _)) => Self::open_postgres(url, connections).await,
            Some(("sqlite", file)) if !matches!(file.trim_start_matches('/'), "" | ":memory:") => {
                // `sqlite://relative` is how other programs write it.
                Self::open_sqlite(Path::new(file.strip_prefix("//").unwrap_or(file))).await
            }
            _ => {
                let detail = "use postgres://user:password@host/name or sqlite:FILE";
                Err(Error::invalid("database_url", "invalid_input", detail))
            }
        }
    }

    async fn open_postgres(url: &str, connections: u32) -> Result<Self> {
        let options = PgConnectOptions::from_str(url)?
            .application_name("hedgerow")
            .disable_statement_logging();
        // The pool would try again and again and then only say that it took too long.
        options.connect().await?.close().await?;
        let pool = Pool::new(options, connections);
        let version = PostgresVersion::start(&pool).await?;
        Ok(Self::Postgres { pool, version })
    }

    async fn open_sqlite(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // What was acknowledged survives a power cut, too.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            .pragma("journal_size_limit", LOG_BYTES.to_string())
            .disable_statement_logging();
        // Turning a new file into one with a write-ahead log does not wait for others who do the same.
        let lock = lock_set_up(path).await?;
        let readers = Readers::new(options.clone());
        let log = WriteAheadLog::new(&options, &readers, LOG_BYTES);
        let writer = Writer::open(&options, log).await?;
        // The first read is what makes the index that tells versions apart.
        sqlx::query("SELECT count(*) FROM sqlite_master")
            .execute(&mut *readers.acquire().await?)
            .await?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        drop(lock);
        let file = path.to_owned();
        let version = SqliteVersion::open(path)?;
        Ok(Self::Sqlite {
            file,
            readers,
            writer,
            version,
        })
    }

    /// Brings the tables up to date. Safe to call from several processes at once.
    pub async fn migrate(&self) -> Result<()> {
        match self {
            Self::Postgres { pool, .. } => migrate_postgres(pool).await?,
            Self::Sqlite { file, readers, .. } => {
                let lock = lock_set_up(file).await?;
                let mut reader = readers.acquire().await?;
                migrate_sqlite(&mut reader).await?;
                drop(lock);
            }
        }
        Ok(())
    }

    /// A connection for reading: no transaction, each statement stands alone.
    pub(crate) async fn read(&self) -> Result<Session> {
        Ok(match self {
            Self::Sqlite { readers, .. } => Session::SqliteRead(readers.acquire().await?),
            Self::Postgres { pool, .. } => Session::PostgresRead(pool.read().await?),
        })
    }

    /// A connection with a transaction, which is undone unless it is committed. Use cases begin theirs with `Service::write`.
    pub(crate) async fn begin(&self) -> Result<Session> {
        Ok(match self {
            Self::Sqlite { writer, .. } => Session::SqliteWrite(writer.turn().await?),
            Self::Postgres { pool, .. } => Session::PostgresWrite(pool.begin().await?),
        })
    }

    /// What state the data is in, cheaply. While it stays equal, nothing has changed.
    ///
    /// A request that is about to write gains nothing by asking PostgreSQL: each write makes a new version.
    pub(crate) async fn version(&self, is_write: bool) -> Version {
        match self {
            Self::Sqlite { version, .. } => version.read(),
            Self::Postgres { .. } if is_write => Version::Unknown,
            Self::Postgres { version, .. } => version.read().await,
        }
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        let mut db = self.read().await?;
        changed!(db, sqlx::query("SELECT 1"))?;
        Ok(())
    }

    /// Listens whether the database answers, for as long as the process lives. Ends immediately on SQLite, which is in this process.
    pub(crate) async fn listen(&self) {
        if let Self::Postgres { pool, .. } = self {
            heartbeat::listen(pool).await;
        }
    }

    pub fn pool_use(&self) -> PoolUse {
        let (open, idle) = match self {
            Self::Sqlite { readers, .. } => (readers.open(), readers.idle()),
            Self::Postgres { pool, .. } => (pool.open(), pool.idle()),
        };
        PoolUse {
            open: u32::try_from(open).unwrap_or(u32::MAX),
            idle,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite { .. } => "sqlite",
            Self::Postgres { .. } => "postgres",
        }
    }

    pub async fn close(&self) {
        match self {
            Self::Sqlite { readers, writer, .. } => {
                readers.close();
                writer.close().await;
            }
            Self::Postgres { pool, .. } => pool.close(),
        }
    }
}

/// One use of one database connection.
pub(crate) enum Session {
    SqliteRead(Reader),
    SqliteWrite(WriteGuard),
    PostgresRead(Lease),
    PostgresWrite(Lease),
}

/// What a statement runs on.
pub(crate) enum Connection<'a> {
    Sqlite(&'a mut SqliteConnection),
    Postgres(&'a mut PgConnection),
}

impl Session {
    pub(crate) fn connection(&mut self) -> Connection<'_> {
        match self {
            Self::SqliteRead(reader) => Connection::Sqlite(&mut *reader),
            Self::SqliteWrite(turn) => Connection::Sqlite(turn),
            Self::PostgresRead(lease) | Self::PostgresWrite(lease) => Connection::Postgres(&mut *lease),
        }
    }

    /// Remembers how a statement ended: what did not answer is not used again.
    pub(crate) fn settle<T>(&mut self, outcome: &Result<T, sqlx::Error>) {
        match self {
            Self::SqliteRead(reader) => reader.settle(),
            Self::SqliteWrite(_) => {}
            Self::PostgresRead(lease) | Self::PostgresWrite(lease) => lease.settle(outcome),
        }
    }

    pub(crate) async fn commit(self) -> Result<()> {
        match self {
            Self::SqliteWrite(turn) => turn.commit().await,
            Self::PostgresWrite(tx) => Ok(tx.commit().await?),
            Self::SqliteRead(_) | Self::PostgresRead(_) => unreachable!("a writing session holds a transaction"),
        }
    }

    pub(crate) async fn undo(self) -> Result<()> {
        match self {
            Self::SqliteWrite(turn) => turn.undo().await,
            Self::PostgresWrite(tx) => Ok(tx.rollback().await?),
            Self::SqliteRead(_) | Self::PostgresRead(_) => unreachable!("a writing session holds a transaction"),
        }
    }

    /// The text for this database, where one text cannot serve both.
    pub(crate) fn pick(&self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        match self {
            Self::SqliteRead(_) | Self::SqliteWrite(_) => sqlite,
            Self::PostgresRead(_) | Self::PostgresWrite(_) => postgres,
        }
    }
}

/// Below the organization `$1`, of the teams that the caller may see: `$2`, a JSON array; of all if it is empty. Two texts
/// for [`Session::pick`].
macro_rules! within_reach {
    (sqlite, $table:literal) => {
        concat!(
            $table,
            ".organization_id = $1 AND (json_array_length($2) = 0 OR ",
            $table,
            ".team_id IN (SELECT value FROM json_each($2))) "
        )
    };
    (postgres, $table:literal) => {
        concat!(
            $table,
            ".organization_id = $1 AND (jsonb_array_length($2) = 0 OR ",
            $table,
            ".team_id IN (SELECT CAST(jsonb_array_elements_text($2) AS BIGINT))) "
        )
    };
}
pub(crate) use within_reach;
