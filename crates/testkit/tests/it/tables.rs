//! Both databases have the same tables and columns.

use std::collections::BTreeSet;

use sqlx::{Connection, PgConnection, SqliteConnection};
use testkit::databases::{Backend, Database};

type Column = (String, String);

fn ours(columns: Vec<Column>) -> BTreeSet<Column> {
    columns
        .into_iter()
        .filter(|(table, _)| !table.starts_with("_sqlx") && !table.starts_with("sqlite_"))
        .collect()
}

#[tokio::test]
async fn both_databases_have_the_same_columns() {
    let (lite, post) = (
        Database::migrated(Backend::Sqlite).await,
        Database::migrated(Backend::Postgres).await,
    );
    let mut sqlite = SqliteConnection::connect(&lite.url).await.unwrap();
    let mut postgres = PgConnection::connect(&post.url).await.unwrap();
    let in_sqlite: Vec<Column> = sqlx::query_as(
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'",
    )
    .fetch_all(&mut sqlite)
    .await
    .unwrap();
    let in_postgres: Vec<Column> = sqlx::query_as(
        "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public'",
    )
    .fetch_all(&mut postgres)
    .await
    .unwrap();
    assert_eq!(ours(in_sqlite), ours(in_postgres));
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let database = Database::migrated(backend).await;
        let store = database.open().await;
        store.migrate().await.unwrap();
        store.ping().await.unwrap();
    }
}

#[tokio::test]
async fn several_replicas_can_migrate_an_empty_database_at_once() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let database = Database::empty(backend).await;
        let stores = [database.open().await, database.open().await, database.open().await];
        let [one, two, three] = &stores;
        let (one, two, three) = tokio::join!(one.migrate(), two.migrate(), three.migrate());
        one.and(two).and(three).unwrap();
    }
}
