//! A copy of the whole database as it is at one moment, made while others read and write it.

use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use boxed::boxed;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection as _, SqliteConnection};

use super::Store;
use crate::error::{Error, Result};

/// What looking through a file may take at a start. Beyond it, a file counts as sound.
const MAX_CHECK: Duration = Duration::from_secs(3);
/// After how many steps of SQLite's machine the time is looked at.
const STEPS: i32 = 10_000;

impl Store {
    /// Writes a copy to a file that is not there yet. Only SQLite: PostgreSQL has programs of its own for it.
    #[boxed]
    pub async fn copy_into(&self, file: &Path) -> Result<()> {
        let Self::Sqlite { readers, .. } = self else {
            return Err(Error::invalid(
                "database_url",
                "invalid_input",
                "pg_dump copies PostgreSQL",
            ));
        };
        let mut connection = readers.connect().await?;
        let copy = sqlx::query("VACUUM INTO $1").bind(file.to_string_lossy());
        copy.execute(&mut connection).await?;
        Ok(())
    }

    /// Looks for damage, for as long as a start may take. PostgreSQL looks after itself.
    #[boxed]
    pub async fn check(&self) -> Result<()> {
        match self {
            Self::Sqlite { readers, .. } => check_quickly(&mut readers.connect().await?).await,
            Self::Postgres { .. } => Ok(()),
        }
    }
}

/// Looks through all of a SQLite file.
#[boxed]
pub async fn check_file(file: &Path) -> Result<()> {
    let url = format!("sqlite:{}", file.display());
    let mut connection = SqliteConnectOptions::from_str(&url)?.read_only(true).connect().await?;
    let found: Result<String, _> = sqlx::query_scalar("PRAGMA integrity_check(1)")
        .fetch_one(&mut connection)
        .await;
    connection.close().await?;
    said_ok(&found?)
}

async fn check_quickly(connection: &mut SqliteConnection) -> Result<()> {
    let began = Instant::now();
    connection
        .lock_handle()
        .await?
        .set_progress_handler(STEPS, move || began.elapsed() < MAX_CHECK);
    let found: Result<String, _> = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(&mut *connection)
        .await;
    connection.lock_handle().await?.remove_progress_handler();
    match found {
        // Interrupted: so far nothing was found.
        Err(sqlx::Error::Database(error)) if error.code().is_some_and(|code| code == "9") => Ok(()),
        found => said_ok(&found?),
    }
}

fn said_ok(found: &str) -> Result<()> {
    if found == "ok" {
        return Ok(());
    }
    let detail = format!(
        "the database file is corrupt, restore a backup: {}",
        found.replace('\n', " ")
    );
    Err(Error::refused("damaged", detail))
}
