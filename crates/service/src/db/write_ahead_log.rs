//! SQLite's write-ahead log, and how it is kept short. SQLite starts it again at its beginning only when nobody reads what is in
//! it, so reads that overlap all the time let it grow all the time.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection as _};
use tokio::time::timeout;

use super::readers::Readers;
use crate::error::Result;

/// What SQLite cuts the log to when it starts it again. A longer one could not be started again.
pub(super) const LOG_BYTES: u64 = 64 << 20;
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// After it was emptied, or not: writers wait for it. A backup reads for as long as it takes, so it is tried less and less often.
const EMPTY_AGAIN: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// How long reads that are in progress are waited for, and other processes. Others wait for that in turn.
const MAX_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: PathBuf,
    most_bytes: u64,
    options: SqliteConnectOptions,
    readers: Readers,
    next: Mutex<Next>,
}

#[derive(Debug)]
struct Next {
    look: Instant,
    /// How long to wait if it cannot be emptied.
    pause: Duration,
}

impl WriteAheadLog {
    pub(super) fn new(options: &SqliteConnectOptions, readers: &Readers, most_bytes: u64) -> Self {
        let mut file = options.get_filename().as_os_str().to_owned();
        file.push("-wal");
        Self {
            file: file.into(),
            most_bytes,
            options: options.clone().create_if_missing(false),
            readers: readers.clone(),
            next: Mutex::new(Next {
                look: Instant::now() + LOOK_AGAIN,
                pause: EMPTY_AGAIN,
            }),
        }
    }

    /// Whether it has become too long. Looks from time to time, and says so once.
    pub(super) fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut next = self.lock();
        if now < next.look {
            return false;
        }
        let is_long = std::fs::metadata(&self.file).is_ok_and(|log| log.len() > self.most_bytes);
        next.look = now + if is_long { EMPTY_AGAIN } else { LOOK_AGAIN };
        is_long
    }

    /// Writes it into the file and cuts it to nothing, unless somebody reads for too long. The caller has no transaction open,
    /// and keeps others from beginning one.
    pub(super) async fn empty(&self) -> Result<()> {
        // Without it, whoever begins to read now would be waited for, too.
        let nobody_reads = timeout(MAX_WAIT, self.readers.hold_back()).await.ok();
        // Whoever still reads was waited for.
        let wait = nobody_reads.as_ref().map_or(Duration::ZERO, |_| MAX_WAIT);
        let mut connection = self.options.clone().busy_timeout(wait).connect().await?;
        let is_busy: bool = sqlx::query_scalar("PRAGMA wal_checkpoint(TRUNCATE)")
            .fetch_one(&mut connection)
            .await?;
        drop(nobody_reads);
        self.note(is_busy);
        Ok(connection.close().await?)
    }

    fn note(&self, is_busy: bool) {
        let mut next = self.lock();
        if is_busy {
            next.look = Instant::now() + next.pause;
            next.pause = MAX_PAUSE.min(next.pause * 2);
        } else {
            next.pause = EMPTY_AGAIN;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
