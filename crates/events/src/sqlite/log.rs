//! The write-ahead log, and how it is kept short. SQLite starts it again at its beginning only when nobody reads what is in it, so
//! scans that overlap all the time let it grow all the time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::file;
use super::pause::Pause;

const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// After it was emptied, or not: whoever writes waits for it. A backup reads for as long as it takes, so it is tried less and
/// less often.
const EMPTY_AGAIN: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// How long reads that are in progress are waited for, and other processes.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Kept by the one who writes.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: PathBuf,
    most_bytes: u64,
    pause: Pause,
    next_look: Instant,
    /// How long to wait if it cannot be emptied.
    next_pause: Duration,
}

impl WriteAheadLog {
    pub(super) fn of(file: &Path, pause: &Pause, most_bytes: u64) -> Self {
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        Self {
            file: log.into(),
            most_bytes,
            pause: pause.clone(),
            next_look: Instant::now() + LOOK_AGAIN,
            next_pause: EMPTY_AGAIN,
        }
    }

    /// Looks from time to time whether it has become too long, and cuts it to nothing then. No transaction is open.
    pub(super) fn keep_short(&mut self, connection: &Connection) {
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        let is_long = std::fs::metadata(&self.file).is_ok_and(|log| log.len() > self.most_bytes);
        if !is_long {
            self.next_look = now + LOOK_AGAIN;
            return;
        }
        let is_emptied = self.empty(connection).unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "could not empty the write-ahead log of events");
            false
        });
        if is_emptied {
            self.next_pause = EMPTY_AGAIN;
        }
        self.next_look = Instant::now() + self.next_pause;
        if !is_emptied {
            self.next_pause = MAX_PAUSE.min(self.next_pause * 2);
        }
    }

    /// False: somebody reads.
    fn empty(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let _paused = self.pause.begin();
        connection.busy_timeout(MAX_WAIT)?;
        let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get(0).map(|is_busy: bool| !is_busy)
        });
        file::wait_for_locks(connection)?;
        emptied
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::task::JoinSet;
    use tokio::time::{sleep, timeout};

    use super::super::Embedded;
    use super::super::readers::Readers;
    use super::super::writer::Writer;
    use super::*;
    use crate::{Hold, Incoming, Scan, Time};

    const TEAM: i64 = 1;

    fn events(count: usize) -> Vec<Incoming> {
        let event = |_| Incoming {
            uuid: None,
            event: "x".to_owned(),
            distinct_id: "ada".to_owned(),
            properties: serde_json::from_value(json!({ "text": "x".repeat(1_000) })).unwrap(),
            timestamp: Time::UNIX_EPOCH,
        };
        (0..count).map(event).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn scans_that_overlap_do_not_make_the_log_grow() {
        const MAX: u64 = 1 << 20;
        let folder = tempfile::TempDir::with_prefix("hedgerow-").unwrap();
        let (file, pause) = (folder.path().join("events.db"), Pause::default());
        let store = Embedded {
            writer: Writer::start(&file, WriteAheadLog::of(&file, &pause, MAX)).unwrap(),
            readers: Arc::new(Readers::of(&file, &pause)),
        };
        let now = Time::UNIX_EPOCH;
        store.append(Hold::default(), TEAM, events(2_000), now).await.unwrap();
        let scan = Scan {
            team: TEAM,
            query: hogql::parse("SELECT event FROM events WHERE properties.text LIKE '%y%z%'").unwrap(),
            start: None,
            end: Time::from_timestamp(100, 0).unwrap(),
            skip: 0,
            limit: None,
        };
        let mut scans = JoinSet::new();
        for _ in 0..3 {
            let (store, scan) = (store.clone(), scan.clone());
            scans.spawn(async move {
                loop {
                    assert_eq!(store.count(scan.clone()).await.unwrap(), 0);
                }
            });
        }
        let mut longest = 0;
        let is_emptied = timeout(Duration::from_mins(1), async {
            loop {
                store.append(Hold::default(), TEAM, events(20), now).await.unwrap();
                let bytes = std::fs::metadata(folder.path().join("events.db-wal")).unwrap().len();
                if bytes < longest {
                    break;
                }
                longest = bytes;
                sleep(Duration::from_millis(5)).await;
            }
        });
        let is_emptied = is_emptied.await.is_ok();
        assert!(longest > MAX && is_emptied, "{longest} bytes");
        scans.abort_all();
        let count = timeout(Duration::from_secs(30), store.count(scan)).await;
        assert_eq!(count.expect("nobody is held back any more").unwrap(), 0);
        store.close().await.unwrap();
    }
}
