//! Whether PostgreSQL answers at all. A network that swallows everything leaves each statement waiting; a connection of its own that is
//! asked all the time tells within two seconds, and nobody waits longer than that.

use std::sync::LazyLock;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Store;
use super::postgres::Pool;
use crate::Service;

const EVERY: Duration = Duration::from_millis(250);
/// Without an answer for this long, a new connection is tried.
const SUSPICIOUS: Duration = Duration::from_secs(1);
/// Without any answer for this long, the database is out of reach.
const SILENCE: Duration = Duration::from_secs(2);
/// How long statements under way may still take when the connection that is listened to was lost, and perhaps theirs.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    is_silent: bool,
    /// How often the connection was lost while new ones worked.
    losses: u64,
}

/// For the whole process, which has one database. Nothing is ever missed where nobody listens, as in commands.
static HEARD: LazyLock<watch::Sender<Heard>> = LazyLock::new(watch::Sender::default);

/// Comes back as soon as there is no use in waiting for an answer any longer.
pub(super) async fn silence() {
    let mut heard = HEARD.subscribe();
    let losses = heard.borrow().losses;
    // The sender is never dropped.
    let heard = heard.wait_for(|heard| heard.is_silent || heard.losses != losses).await;
    let is_silent = heard.is_ok_and(|heard| heard.is_silent);
    if !is_silent {
        sleep(GRACE).await;
    }
}

impl Service {
    /// Listens for as long as the process lives. Ends at once on SQLite, which is in this process.
    pub async fn listen_to_database(&self) {
        let Store::Postgres { pool, .. } = &self.core.store else {
            return;
        };
        let mut connection = None;
        loop {
            let heard = timeout(SILENCE, beat(pool, connection.take())).await;
            // Whoever refuses a connection is there.
            let is_silent = !matches!(heard, Ok(Ok(_) | Err(sqlx::Error::Database(_))));
            connection = heard.ok().and_then(Result::ok);
            let tells = |heard: &mut Heard| std::mem::replace(&mut heard.is_silent, is_silent) != is_silent;
            if HEARD.send_if_modified(tells) {
                tell(is_silent);
            }
            sleep(EVERY).await;
        }
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
    HEARD.send_modify(|heard| heard.losses += 1);
    Ok(new)
}
