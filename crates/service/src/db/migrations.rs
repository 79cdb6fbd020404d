//! Bringing the tables up to date.

use std::time::Duration;

use sqlx::SqliteConnection;
use sqlx::migrate::{MigrateError, Migrator};

use super::postgres::Pool;
use crate::error::{Error, Result};

/// For two minutes, about.
const ATTEMPTS: usize = 30;
const AGAIN: Duration = Duration::from_secs(1);

// While replicas are replaced one by one, the older ones meet tables of a newer version: steps they do not know
// are none of their business, for steps only ever add until nobody needs the old way.
static POSTGRES: Migrator = Migrator {
    ignore_missing: true,
    ..sqlx::migrate!("migrations/postgres")
};
static SQLITE: Migrator = Migrator {
    ignore_missing: true,
    ..sqlx::migrate!("migrations/sqlite")
};

/// A change that waits for a table keeps everybody waiting who comes after it: it gives up soon, and is tried again. One
/// connection for each attempt: sqlx holds an advisory lock on it, and gives it back only if all goes well.
pub(super) async fn migrate_postgres(pool: &Pool) -> Result<()> {
    for _ in 1..ATTEMPTS {
        match try_to_migrate(pool).await {
            Err(error) if is_locked(&error) => tokio::time::sleep(AGAIN).await,
            outcome => return Ok(outcome?),
        }
    }
    Ok(try_to_migrate(pool).await?)
}

async fn try_to_migrate(pool: &Pool) -> Result<(), MigrateError> {
    let mut connection = pool.connect().await?;
    let limit = "SET lock_timeout = '3s'";
    sqlx::raw_sql(limit).execute(&mut connection).await?;
    POSTGRES.run(&mut connection).await
}

fn is_locked(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "55P03")
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
