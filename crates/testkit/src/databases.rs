//! A fresh database for each test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use service::Store;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection, FromRow, PgConnection, SqliteConnection};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Where the tests find a PostgreSQL server they may make databases on.
const SERVER: &str = "TESTKIT_POSTGRES";
/// All tests of one run copy the same migrated database.
const CONNECTIONS: u32 = 5;
/// The name of an SQLite file.
const FILE: &str = "hedgerow.sqlite";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
}

/// A database that nobody else uses. An SQLite file goes when it is dropped; PostgreSQL's go with the test server.
#[derive(Debug)]
pub struct Database {
    pub url: String,
    folder: Option<TempDir>,
}

/// A connection that is kept for what it has locked.
#[derive(Debug)]
pub struct Held {
    _connection: PgConnection,
}

impl Database {
    /// An empty database, as a new operator has it.
    pub async fn empty(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => Self::sqlite(),
            Backend::Postgres => Self::postgres("template0").await,
        }
    }

    /// A database with all tables and no rows.
    pub async fn migrated(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => {
                let database = Self::sqlite();
                let file = migrated_file().await;
                std::fs::write(database.file(), file).expect("a copy of the migrated file");
                database
            }
            Backend::Postgres => {
                let template = template();
                make_template(&template).await;
                Self::postgres(&template).await
            }
        }
    }

    pub async fn open(&self) -> Store {
        Store::open(&self.url, CONNECTIONS)
            .await
            .expect("a fresh database opens")
    }

    /// What one column holds, asked behind the service's back.
    pub async fn column<T>(&self, sql: &'static str) -> Vec<T>
    where
        T: Send + Unpin,
        (T,): for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow>,
    {
        let asked: sqlx::Result<Vec<(T,)>> = if self.folder.is_some() {
            let mut file = SqliteConnection::connect(&self.url).await.expect("the database opens");
            sqlx::query_as(sql).fetch_all(&mut file).await
        } else {
            sqlx::query_as(sql).fetch_all(&mut connect(&self.url).await).await
        };
        let rows = asked.expect("the database answers");
        rows.into_iter().map(|(value,)| value).collect()
    }

    /// A connection to PostgreSQL that has done this and keeps what it has locked, until it is dropped.
    pub async fn holding(&self, sql: &'static str) -> Held {
        let mut connection = connect(&self.url).await;
        sqlx::raw_sql(sql)
            .execute(&mut connection)
            .await
            .expect("the server obeys");
        Held {
            _connection: connection,
        }
    }

    /// Does something that no use case does, such as what a thief with the database would.
    pub async fn run(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.folder.is_some() {
            let mut db = SqliteConnection::connect(&self.url).await.expect("the database opens");
            sqlx::raw_sql(sql).execute(&mut db).await.expect("it obeys");
        } else {
            let mut db = connect(&self.url).await;
            sqlx::raw_sql(sql).execute(&mut db).await.expect("it obeys");
        }
    }

    /// Whether this text stands anywhere in the database, in any table.
    pub async fn holds(&self, text: &str) -> bool {
        match &self.folder {
            Some(folder) => {
                let files = std::fs::read_dir(folder).expect("the database's folder");
                let mut files = files.map(|file| std::fs::read(file.expect("a file").path()).expect("it is read"));
                files.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
            }
            None => holds(&mut connect(&self.url).await, text).await,
        }
    }

    fn sqlite() -> Self {
        let folder = TempDir::with_prefix("hedgerow-").expect("a temporary folder");
        let url = format!("sqlite:{}", folder.path().join(FILE).display());
        Self {
            url,
            folder: Some(folder),
        }
    }

    /// Of an SQLite database.
    fn file(&self) -> PathBuf {
        let folder = self.folder.as_ref().expect("PostgreSQL's have none");
        folder.path().join(FILE)
    }

    async fn postgres(template: &str) -> Self {
        let name = unique_name();
        let mut server = connect(&server_url()).await;
        let sql = format!("CREATE DATABASE {name} TEMPLATE {template}");
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut server)
            .await
            .expect("a database of its own");
        Self {
            url: database_url(&name),
            folder: None,
        }
    }
}

/// What a migrated SQLite file has in it. The first test of a process makes it.
async fn migrated_file() -> &'static [u8] {
    static MADE: OnceCell<Vec<u8>> = OnceCell::const_new();
    let make = async || {
        let database = Database::sqlite();
        let store = database.open().await;
        store.migrate().await.expect("the tables are made");
        // Part of it is in the log beside the file.
        let copy = database.file().with_extension("copy");
        database.run(&format!("VACUUM INTO '{}'", copy.display())).await;
        std::fs::read(copy).expect("the copy")
    };
    MADE.get_or_init(make).await
}

/// Looks through every row of every table, as text and as the digits that bytes are shown with.
async fn holds(db: &mut PgConnection, text: &str) -> bool {
    let digits = hex::encode(text);
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
    let tables: Vec<String> = sqlx::query_scalar(tables)
        .fetch_all(&mut *db)
        .await
        .expect("the tables");
    for table in tables {
        let sql = format!("SELECT count(*) FROM {table} t WHERE t::text LIKE $1 OR t::text LIKE $2");
        let found: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
            .bind(format!("%{text}%"))
            .bind(format!("%{digits}%"))
            .fetch_one(&mut *db)
            .await
            .expect("the table is read");
        if found > 0 {
            return true;
        }
    }
    false
}

/// The template's name, by what is in the migrations: worktrees that share a server have different tables.
fn template() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../service/migrations/postgres");
    let entries = std::fs::read_dir(folder).expect("the migrations are beside the tests");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let text: String = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("text"))
        .collect();
    let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, text.as_bytes());
    format!("testkit_template_{}", &id.simple().to_string()[..12])
}

/// Tests run in processes of their own: the first to come makes the template, under a lock.
async fn make_template(template: &str) {
    let mut server = connect(&server_url()).await;
    let run = async |sql: String, server: &mut PgConnection| {
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(server).await;
        done.expect("the server obeys");
    };
    run("SELECT pg_advisory_lock(4711)".to_owned(), &mut server).await;
    let is_there: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)")
        .bind(template)
        .fetch_one(&mut server)
        .await
        .expect("the server answers");
    if !is_there {
        let unfinished = format!("{template}_unfinished");
        run(format!("DROP DATABASE IF EXISTS {unfinished}"), &mut server).await;
        run(format!("CREATE DATABASE {unfinished} TEMPLATE template0"), &mut server).await;
        let store = Store::open(&database_url(&unfinished), CONNECTIONS)
            .await
            .expect("it opens");
        store.migrate().await.expect("the tables are made");
        store.close().await;
        run(format!("ALTER DATABASE {unfinished} RENAME TO {template}"), &mut server).await;
    }
    run("SELECT pg_advisory_unlock(4711)".to_owned(), &mut server).await;
}

/// No database, no pass.
fn server_url() -> String {
    std::env::var(SERVER).unwrap_or_else(|_| {
        panic!("{SERVER} is not set: run the tests with `cargo xtask test`, which starts a PostgreSQL server for them")
    })
}

fn database_url(name: &str) -> String {
    let server = server_url();
    let (base, _) = server
        .rsplit_once('/')
        .expect("the address ends with a database's name");
    format!("{base}/{name}")
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("the test server is running")
}

fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = uuid::Uuid::now_v7().simple().to_string();
    format!("testkit_{}_{count}_{}", std::process::id(), &random[20..])
}
