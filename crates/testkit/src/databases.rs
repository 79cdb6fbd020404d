//! A fresh database for each test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use service::Store;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection, FromRow, PgConnection, SqliteConnection};

/// Where the tests find a PostgreSQL server they may make databases on.
const SERVER: &str = "TESTKIT_POSTGRES";
/// All tests of one run copy the same migrated database.
const TEMPLATE: &str = "testkit_template";
const CONNECTIONS: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
}

/// A database that nobody else uses. An SQLite file goes when it is dropped; PostgreSQL's go with the test server.
#[derive(Debug)]
pub struct Database {
    pub url: String,
    folder: Option<PathBuf>,
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
                database.open().await.migrate().await.expect("the tables are made");
                database
            }
            Backend::Postgres => {
                make_template().await;
                Self::postgres(TEMPLATE).await
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

    fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(unique_name());
        std::fs::create_dir_all(&folder).expect("a folder for the database");
        let url = format!("sqlite:{}", folder.join("hedgerow.sqlite").display());
        Self {
            url,
            folder: Some(folder),
        }
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

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // A folder that stays behind in the temporary folder hurts nobody.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Tests run in processes of their own: the first to come makes the template, under a lock.
async fn make_template() {
    let mut server = connect(&server_url()).await;
    let run = async |sql: &'static str, server: &mut PgConnection| {
        sqlx::raw_sql(sql).execute(server).await.expect("the server obeys");
    };
    run("SELECT pg_advisory_lock(4711)", &mut server).await;
    let is_there: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)")
        .bind(TEMPLATE)
        .fetch_one(&mut server)
        .await
        .expect("the server answers");
    if !is_there {
        run("CREATE DATABASE testkit_unfinished TEMPLATE template0", &mut server).await;
        let store = Store::open(&database_url("testkit_unfinished"), CONNECTIONS)
            .await
            .expect("it opens");
        store.migrate().await.expect("the tables are made");
        store.close().await;
        run(
            "ALTER DATABASE testkit_unfinished RENAME TO testkit_template",
            &mut server,
        )
        .await;
    }
    run("SELECT pg_advisory_unlock(4711)", &mut server).await;
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
