//! Bringing the tables up to date.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use super::postgres::Pool;
use crate::error::{Error, Result};

/// For two minutes, about.
const ATTEMPTS: usize = 120;
const AGAIN: Duration = Duration::from_secs(1);
/// The advisory lock of whoever migrates a database.
const LOCK: i64 = i64::from_be_bytes(*b"hedgerow");

// While replicas are replaced one by one, the older ones meet tables of a newer version: steps they do not know
// are none of their business, for steps only ever add until nobody needs the old way.
static POSTGRES: Migrator = Migrator {
    ignore_missing: true,
    // To wait for sqlx's lock is a statement that a concurrent index build waits for, and so a deadlock.
    locking: false,
    ..sqlx::migrate!("migrations/postgres")
};
static SQLITE: Migrator = Migrator {
    ignore_missing: true,
    ..sqlx::migrate!("migrations/sqlite")
};

/// A change that waits for a table keeps everybody waiting who comes after it: it gives up soon, and is tried again.
pub(super) async fn migrate_postgres(pool: &Pool) -> Result<()> {
    for _ in 0..ATTEMPTS {
        match try_to_migrate(pool).await {
            Ok(true) => return Ok(()),
            Err(error) if !is_retryable(&error) => return Err(error.into()),
            _ => tokio::time::sleep(AGAIN).await,
        }
    }
    let detail = "the database cannot be migrated: another process migrates it, or uses its tables for long";
    Err(Error::refused("migration_blocked", detail))
}

/// Says whether it is done. One connection for each attempt, with which the advisory lock ends.
async fn try_to_migrate(pool: &Pool) -> Result<bool, MigrateError> {
    let mut connection = pool.connect().await?;
    let limit = "SET lock_timeout = '3s'";
    sqlx::raw_sql(limit).execute(&mut connection).await?;
    let is_alone = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(LOCK);
    if !is_alone.fetch_one(&mut connection).await? {
        return Ok(false);
    }
    let outcome = POSTGRES.run(&mut connection).await;
    let has_dropped = outcome.is_err() && drop_invalid_indexes(&mut connection).await?;
    connection.close().await?;
    match outcome {
        Err(_) if has_dropped => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

/// Drops what a concurrent index build left that gave up or was killed: nobody uses it, and its name is taken. Says whether there was any.
async fn drop_invalid_indexes(connection: &mut PgConnection) -> Result<bool, MigrateError> {
    let invalid = "SELECT format('%I.%I', nspname, relname) FROM pg_index
        JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE NOT indisvalid AND nspname = current_schema()";
    let names: Vec<String> = sqlx::query_scalar(invalid).fetch_all(&mut *connection).await?;
    for name in &names {
        let drop = AssertSqlSafe(format!("DROP INDEX {name}"));
        sqlx::raw_sql(drop).execute(&mut *connection).await?;
    }
    Ok(!names.is_empty())
}

fn is_retryable(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| ["55P03", "40P01"].contains(&&*code))
}

pub(super) async fn migrate_sqlite(connection: &mut SqliteConnection) -> Result<()> {
    SQLITE.run(&mut *connection).await?;
    check_schema(connection).await
}

/// Refuses tables that a newer version of this program made. Replicas on PostgreSQL are replaced one by one, and old ones may
/// meet new tables there; a file has one server.
async fn check_schema(connection: &mut SqliteConnection) -> Result<()> {
    let newest = SQLITE.iter().map(|migration| migration.version).max();
    let found: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(connection)
        .await?;
    if found > newest {
        let detail = "a newer version of Hedgerow has migrated this database: use that version, or restore a backup";
        return Err(Error::refused("newer_schema", detail));
    }
    Ok(())
}
