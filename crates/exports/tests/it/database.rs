//! What the tests of destinations that speak PostgreSQL's protocol share: where the database is, and a reader of it.

use std::collections::BTreeMap;

use exports::{Deliver, ExportsDeps};
use outbound::{Dialer, Http, Policy, Roots};
use serde_json::{Value, json};
use service::batch_exports::destination::{Kind, read};
use testkit::databases::{Backend, Database};
use testkit::external::{POSTGRES_PASSWORD, PostgresServer};
use tokio_postgres::{Client, NoTls};
use url::Url;

/// Ways out that lead to this machine, which trusts these authorities too.
pub(crate) fn deps(roots: Roots) -> ExportsDeps {
    let dialer = Dialer::new(Policy::new(vec!["127.0.0.0/8".parse().unwrap()]));
    ExportsDeps {
        http: Http::new(dialer.clone(), &roots).unwrap(),
        dialer,
        roots,
        export_root: None,
    }
}

/// The destination that a configuration describes, read as users give it.
pub(crate) fn destination(kind: Kind, config: &Value, roots: Roots) -> Box<dyn Deliver> {
    let destination = read(kind, config.as_object().unwrap()).unwrap();
    exports::destinations::open(&destination, &deps(roots)).unwrap()
}

/// A database of a test's own.
pub(crate) struct Home {
    pub(crate) port: u16,
    pub(crate) name: String,
    _database: Option<Database>,
}

impl Home {
    /// On the server that all tests share, which asks for no password.
    pub(crate) async fn shared() -> Self {
        let database = Database::empty(Backend::Postgres).await;
        let url = Url::parse(&database.url).unwrap();
        Self {
            port: url.port().unwrap(),
            name: url.path().trim_start_matches('/').to_owned(),
            _database: Some(database),
        }
    }

    /// The database that a server of its own begins with.
    pub(crate) fn of(server: &PostgresServer) -> Self {
        Self {
            port: server.port(),
            name: "postgres".to_owned(),
            _database: None,
        }
    }

    pub(crate) fn config(&self, over: &Value) -> Value {
        let mut config = json!({
            "host": "127.0.0.1", "port": self.port, "database": self.name,
            "user": "postgres", "password": POSTGRES_PASSWORD, "schema": "product",
        });
        config
            .as_object_mut()
            .unwrap()
            .extend(over.as_object().unwrap().clone());
        config
    }

    /// A reader that has nothing to do with what wrote.
    pub(crate) async fn reader(&self) -> Client {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(self.port).dbname(&self.name);
        config.user("postgres").password(POSTGRES_PASSWORD);
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.reader().await.batch_execute(sql).await.unwrap();
    }

    /// The first column of every row, as text.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.reader().await.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn exists(&self, table: &str) -> bool {
        let sql = format!("SELECT to_regclass('{table}')::text");
        let rows = self.reader().await.query(&sql, &[]).await.unwrap();
        rows[0].get::<_, Option<String>>(0).is_some()
    }

    /// The ids in the table, unless there is none yet.
    pub(crate) async fn uuids(&self, table: &str) -> Vec<String> {
        if !self.exists(table).await {
            return Vec::new();
        }
        self.texts(&format!("SELECT uuid::text FROM {table}")).await
    }

    pub(crate) async fn versions(&self, table: &str) -> BTreeMap<String, i64> {
        let sql = format!("SELECT distinct_id, person_version FROM {table}");
        let rows = self.reader().await.query(&sql, &[]).await.unwrap();
        let versions: Vec<_> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let each = versions.iter().cloned().collect();
        assert_eq!(BTreeMap::len(&each), versions.len(), "a person is there twice");
        each
    }
}
