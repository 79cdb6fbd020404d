//! The only file that names a database driver: pools, sessions, and the macros that run one text on both.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection as _, PgConnection, Postgres, Sqlite, SqliteConnection, Transaction};

use crate::access::Who;
use crate::activity::{self, Entry};
use crate::clock::{Chance, Time};
use crate::error::{Error, Result};
use crate::idempotency;

mod log;
mod turns;
mod version;

pub(crate) use log::log_page;
use turns::{Turn, Writer};
pub(crate) use version::Version;
use version::{PostgresVersion, SqliteVersion, lock_set_up};

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const SQLITE_READERS: u32 = 4;

// While replicas are replaced one by one, the older ones meet tables of a newer version: steps they do not know
// are none of their business, for steps only ever add until nobody needs the old way.
static MIGRATIONS_POSTGRES: Migrator = Migrator {
    ignore_missing: true,
    ..sqlx::migrate!("migrations/postgres")
};
static MIGRATIONS_SQLITE: Migrator = Migrator {
    ignore_missing: true,
    ..sqlx::migrate!("migrations/sqlite")
};

/// Runs a query on whichever database the session is open on.
macro_rules! on {
    ($session:expr, $conn:ident => $query:expr) => {
        match $session.connection() {
            $crate::db::Connection::Sqlite($conn) => $query.await,
            $crate::db::Connection::Postgres($conn) => $query.await,
        }
    };
}
pub(crate) use on;

/// Runs a statement and tells how many rows it changed.
macro_rules! changed {
    ($session:expr, $query:expr) => {
        match $session.connection() {
            $crate::db::Connection::Sqlite(conn) => $query.execute(conn).await.map(|done| done.rows_affected()),
            $crate::db::Connection::Postgres(conn) => $query.execute(conn).await.map(|done| done.rows_affected()),
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
        readers: SqlitePool,
        writer: Writer,
        version: SqliteVersion,
    },
    Postgres {
        pool: PgPool,
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
        // Pinging before each use costs a third of the speed; the price is one failed request when a connection died.
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .connect_with(options)
            .await?;
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
            .disable_statement_logging();
        // Turning a new file into one with a write-ahead log does not wait for others who do the same.
        let lock = lock_set_up(path).await?;
        let writer = Writer::open(&options).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(SQLITE_READERS)
            .min_connections(1)
            .acquire_timeout(BUSY_TIMEOUT)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options)
            .await?;
        // The first read is what makes the index that tells versions apart.
        sqlx::query("SELECT count(*) FROM sqlite_master")
            .execute(&readers)
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
            // sqlx holds an advisory lock for as long as this takes.
            Self::Postgres { pool, .. } => MIGRATIONS_POSTGRES.run(pool).await?,
            Self::Sqlite { file, readers, .. } => {
                let lock = lock_set_up(file).await?;
                MIGRATIONS_SQLITE.run(readers).await?;
                drop(lock);
            }
        }
        Ok(())
    }

    /// A connection for reading: no transaction, each statement stands alone.
    pub(crate) async fn read(&self) -> Result<Session> {
        Ok(match self {
            Self::Sqlite { readers, .. } => Session::SqliteRead(readers.acquire().await?),
            Self::Postgres { pool, .. } => Session::PostgresRead(pool.acquire().await?),
        })
    }

    /// A transaction for one use case. Dropped without [`Writing::commit`], it leaves no trace.
    pub(crate) async fn write(&self, now: Time, chance: &Chance) -> Result<Writing> {
        let session = match self {
            Self::Sqlite { writer, .. } => Session::SqliteWrite(writer.turn().await?),
            Self::Postgres { pool, .. } => Session::PostgresWrite(pool.begin().await?),
        };
        Ok(Writing {
            session,
            now,
            chance: chance.clone(),
            made: AtomicU16::new(0),
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

    pub fn pool_use(&self) -> PoolUse {
        match self {
            Self::Sqlite { readers, .. } => PoolUse {
                open: readers.size(),
                idle: readers.num_idle(),
            },
            Self::Postgres { pool, .. } => PoolUse {
                open: pool.size(),
                idle: pool.num_idle(),
            },
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
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres { pool, .. } => pool.close().await,
        }
    }
}

/// One use of one database connection.
pub(crate) enum Session {
    SqliteRead(PoolConnection<Sqlite>),
    SqliteWrite(Turn),
    PostgresRead(PoolConnection<Postgres>),
    PostgresWrite(Transaction<'static, Postgres>),
}

/// What a statement runs on.
pub(crate) enum Connection<'a> {
    Sqlite(&'a mut SqliteConnection),
    Postgres(&'a mut PgConnection),
}

impl Session {
    pub(crate) fn connection(&mut self) -> Connection<'_> {
        match self {
            Self::SqliteRead(conn) => Connection::Sqlite(conn),
            Self::SqliteWrite(turn) => Connection::Sqlite(turn),
            Self::PostgresRead(conn) => Connection::Postgres(conn),
            Self::PostgresWrite(tx) => Connection::Postgres(tx),
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

/// A transaction of a use case, with the one moment it happens at.
pub(crate) struct Writing {
    session: Session,
    pub(crate) now: Time,
    pub(crate) chance: Chance,
    made: AtomicU16,
}

impl std::ops::Deref for Writing {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl std::ops::DerefMut for Writing {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl Writing {
    pub(crate) fn uuid(&self) -> uuid::Uuid {
        // What is made in one transaction, at one moment, sorts in the order it was made in.
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        crate::clock::time_ordered_uuid(self.now, number, self.chance.bytes())
    }

    /// Ends the use case: its activity entries and idempotency claim are written with it or not at all.
    ///
    /// Bookkeeping aside there is no other way to commit, so no deed goes unrecorded. A dry run goes through all of
    /// it and is then undone.
    pub(crate) async fn commit(mut self, who: &Who, entries: &[Entry]) -> Result<()> {
        activity::record(&mut self, who, entries).await?;
        if let Some(claim) = &who.request.claim {
            idempotency::settle(&mut self, claim).await?;
        }
        match (self.session, who.request.is_dry_run) {
            (Session::SqliteWrite(turn), false) => turn.commit().await?,
            (Session::PostgresWrite(tx), false) => tx.commit().await?,
            (Session::SqliteWrite(turn), true) => turn.undo().await?,
            (Session::PostgresWrite(tx), true) => tx.rollback().await?,
            (Session::SqliteRead(_) | Session::PostgresRead(_), _) => {
                unreachable!("a writing session holds a transaction")
            }
        }
        Ok(())
    }

    /// Commits bookkeeping that is nobody's deed: leases, time stamps of use, clearing away.
    pub(crate) async fn commit_unrecorded(self) -> Result<()> {
        self.commit(&Who::system(), &[]).await
    }
}

/// As a text, `,1,2,`: one statement for any number of ids, on both databases.
pub(crate) fn listed(ids: &[impl std::fmt::Display]) -> String {
    ids.iter().fold(",".to_owned(), |list, id| format!("{list}{id},"))
}

/// Below the organization `$1`, of the teams that the caller may see: `$2`, [`listed`]; of all if there are none.
macro_rules! within_reach {
    ($table:literal) => {
        concat!(
            $table,
            ".organization_id = $1 AND ($2 = ',' OR $2 LIKE '%,' || CAST(",
            $table,
            ".team_id AS TEXT) || ',%') "
        )
    };
}
pub(crate) use within_reach;

/// For `LIKE … ESCAPE '\'`: finds the text itself, whatever is in it.
pub(crate) fn containing(search: &str) -> String {
    let mut pattern = "%".to_owned();
    for c in search.to_lowercase().chars() {
        if ['%', '_', '\\'].contains(&c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + "%"
}

impl From<std::io::Error> for Error {
    fn from(cause: std::io::Error) -> Self {
        Self::Database(sqlx::Error::Io(cause))
    }
}
