//! The only file that names a database driver: pools, sessions, and the macros that run one text on both.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection as _, PgConnection, SqliteConnection};

use crate::access::Actor;
use crate::activity::{self, Entry};
use crate::clock::{RandomSource, Time};
use crate::error::{Error, Result};
use crate::idempotency;

pub mod backup;
pub mod caller;
mod fair;
mod heartbeat;
mod log;
mod postgres;
mod readers;
mod team_numbers;
mod time;
mod turns;
mod version;

pub use fair::{FairSemaphore, Permit, Slow};
pub(crate) use log::log_page;
pub(crate) use postgres::answered;
use postgres::{Lease, Pool};
pub(crate) use readers::Reader;
use readers::Readers;
use turns::{WriteGuard, Writer};
pub(crate) use version::Version;
use version::{PostgresVersion, SqliteVersion, lock_set_up};

const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// For two minutes, about.
const MIGRATION_ATTEMPTS: usize = 30;
const MIGRATE_AGAIN: Duration = Duration::from_secs(1);

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

/// A change that waits for a table keeps everybody waiting who comes after it: it gives up soon, and is tried again. One
/// connection for each attempt: sqlx holds an advisory lock on it, and gives it back only if all goes well.
async fn migrate_postgres(pool: &Pool) -> Result<()> {
    for _ in 1..MIGRATION_ATTEMPTS {
        match try_to_migrate(pool).await {
            Err(error) if is_locked(&error) => tokio::time::sleep(MIGRATE_AGAIN).await,
            outcome => return Ok(outcome?),
        }
    }
    Ok(try_to_migrate(pool).await?)
}

async fn try_to_migrate(pool: &Pool) -> Result<(), MigrateError> {
    let mut connection = pool.connect().await?;
    let limit = "SET lock_timeout = '3s'";
    sqlx::raw_sql(limit).execute(&mut connection).await?;
    MIGRATIONS_POSTGRES.run(&mut connection).await
}

fn is_locked(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "55P03")
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
            .disable_statement_logging();
        // Turning a new file into one with a write-ahead log does not wait for others who do the same.
        let lock = lock_set_up(path).await?;
        let writer = Writer::open(&options).await?;
        let readers = Readers::new(options);
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
                MIGRATIONS_SQLITE.run(&mut *reader).await?;
                backup::check_schema(&mut reader).await?;
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

    /// A transaction for one use case. Dropped without [`WriteTx::commit`], it leaves no trace.
    pub(crate) async fn write(&self, now: Time, random: &RandomSource, budget: activity::Budget) -> Result<WriteTx> {
        let session = match self {
            Self::Sqlite { writer, .. } => Session::SqliteWrite(writer.turn().await?),
            Self::Postgres { pool, .. } => Session::PostgresWrite(pool.begin().await?),
        };
        Ok(WriteTx {
            session,
            now,
            random: random.clone(),
            budget,
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

    /// The text for this database, where one text cannot serve both.
    pub(crate) fn pick(&self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        match self {
            Self::SqliteRead(_) | Self::SqliteWrite(_) => sqlite,
            Self::PostgresRead(_) | Self::PostgresWrite(_) => postgres,
        }
    }
}

/// A transaction of a use case, with the one moment it happens at.
pub(crate) struct WriteTx {
    session: Session,
    pub(crate) now: Time,
    pub(crate) random: RandomSource,
    pub(crate) budget: activity::Budget,
    made: AtomicU16,
}

impl std::ops::Deref for WriteTx {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl std::ops::DerefMut for WriteTx {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl WriteTx {
    pub(crate) fn uuid(&self) -> uuid::Uuid {
        // What is made in one transaction, at one moment, sorts in the order it was made in.
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        crate::clock::time_ordered_uuid(self.now, number, self.random.bytes())
    }

    /// Ends the use case: its activity entries and idempotency claim are written with it or not at all.
    ///
    /// Bookkeeping aside there is no other way to commit, so no deed goes unrecorded. A dry run goes through all of
    /// it and is then undone.
    pub(crate) async fn commit(mut self, actor: &Actor, entries: &[Entry]) -> Result<()> {
        activity::record(&mut self, actor, entries).await?;
        if let Some(claim) = &actor.request.claim {
            idempotency::settle(&mut self, claim).await?;
        }
        match (self.session, actor.request.is_dry_run) {
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
        self.commit(&Actor::system(), &[]).await
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
        Self::from(sqlx::Error::Io(cause))
    }
}

/// Whether it is the database's state that is to blame, and not what it was asked for.
pub(crate) fn is_outage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| is_outage_code(&code)),
        _ => false,
    }
}

/// Two transactions waited for each other, or could not be put in order, and PostgreSQL ended this one.
pub(crate) fn is_deadlock(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| ["40001", "40P01"].contains(&&*code))
}

/// SQLite says that the file is damaged, or none of its own: <https://sqlite.org/rescode.html>.
pub(crate) fn is_damage(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else {
        return false;
    };
    let code = error.code().filter(|code| code.len() < 5);
    let kind = code.and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff);
    matches!(kind, Some(11 | 26))
}

fn is_outage_code(code: &str) -> bool {
    // SQLite's are numbers, of which the lowest byte is the kind: busy, read-only, input or output failed, disk full, cannot
    // open. https://sqlite.org/rescode.html
    if code.len() < 5 || !code.is_ascii() {
        return code
            .parse::<u32>()
            .is_ok_and(|code| [5, 8, 10, 13, 14].contains(&(code & 0xff)));
    }
    // PostgreSQL's have five characters: connection lost, resources exhausted, shutting down; a lock or an answer that did not
    // come in time, a deadlock, a server that only reads. https://www.postgresql.org/docs/current/errcodes-appendix.html
    ["08", "53", "57P"].iter().any(|class| code.starts_with(class))
        || ["25006", "25P03", "40001", "40P01", "55P03", "57014"].contains(&code)
}
