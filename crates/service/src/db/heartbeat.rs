//! Whether PostgreSQL answers at all. A network that swallows everything leaves each statement waiting; a connection of its own that is
//! asked all the time tells within two seconds, and nobody waits longer than that.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::time::{sleep, timeout};

use super::availability::{note, note_loss};
use super::postgres::Pool;

const EVERY: Duration = Duration::from_millis(250);
/// Without an answer for this long, a new connection is tried.
const SUSPICIOUS: Duration = Duration::from_secs(1);
/// Without any answer for this long, the database is out of reach.
const SILENCE: Duration = Duration::from_secs(2);

/// Listens for as long as the process lives.
pub(super) async fn listen(pool: &Pool) {
    let mut connection = None;
    loop {
        let heard = timeout(SILENCE, beat(pool, connection.take())).await;
        // Whoever refuses a connection is there.
        let is_silent = !matches!(heard, Ok(Ok(_) | Err(sqlx::Error::Database(_))));
        connection = heard.ok().and_then(Result::ok);
        if note(is_silent) {
            tell(is_silent);
        }
        sleep(EVERY).await;
    }
}

fn tell(is_silent: bool) {
    if is_silent {
        tracing::error!("the database is unavailable; requests are refused until it responds");
    } else {
        tracing::info!("the database is available again");
    }
}

/// Gives the connection that answered: the one there was, or a new one.
async fn beat(pool: &Pool, connection: Option<PgConnection>) -> sqlx::Result<PgConnection> {
    let Some(mut connection) = connection else {
        return pool.connect().await;
    };
    if matches!(timeout(SUSPICIOUS, connection.ping()).await, Ok(Ok(()))) {
        return Ok(connection);
    }
    let new = pool.connect().await?;
    // New ones work and this one does not: the others that were there may be as dead.
    pool.distrust();
    note_loss();
    Ok(new)
}
