//! The embedded store: a SQLite file of its own.
//!
//! One thread writes, and many callers share its waits for the disk. Whoever reads has a connection of their own.
//! Other processes may read and write the same file at the same time.

mod batch;
mod carried;
mod checksum;
mod file;
pub(crate) mod interrupt;
mod log;
mod pace;
mod pause;
mod people;
mod person_scan;
mod place;
mod readers;
mod recent;
mod scan;
mod seen;
mod select;
mod store;
mod whole;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use chrono::DateTime;
use hogql::Model;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::rows::Portion;
use crate::{Error, Hold, Incoming, Result, Rows, Scan, Time, schema, size};
use log::WriteAheadLog;
use pause::Pause;
use readers::{Reader, Readers};
use store::{Ready, Work};
pub use whole::{check, copy};
use writer::Writer;

/// A batch of more events than this, or of more bytes, is made ready on a thread of its own.
const MANY: usize = 500;
const MUCH: usize = 256 * 1024;

#[derive(Debug, Clone)]
pub struct Embedded {
    writer: Writer,
    readers: Arc<Readers>,
}

impl Embedded {
    /// Opens the file, or makes it.
    pub fn open(file: &Path) -> Result<Self> {
        let pause = Pause::default();
        let log = WriteAheadLog::of(file, &pause, file::LOG_BYTES);
        Ok(Self {
            writer: Writer::start(file, log)?,
            readers: Arc::new(Readers::of(file, &pause)),
        })
    }

    /// Finishes writing what was begun and ends reading that is in progress. Every later append is refused.
    pub async fn close(&self) -> Result<()> {
        self.readers.stop_all();
        self.writer.close().await
    }

    pub(crate) async fn append(&self, hold: Hold, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let (is_much, now, since) = (is_much(&events), now.timestamp_micros(), Instant::now());
        let make_ready = move || -> Result<Vec<Work>> {
            let ready = Ready::in_parts(events)?;
            let mut hold = hold;
            hold.shrink_to(ready.iter().flatten().map(Ready::memory).sum());
            let hold = Arc::new(hold);
            let part = |events| Work::Append {
                team,
                events,
                now,
                since,
                hold: hold.clone(),
            };
            Ok(ready.into_iter().map(part).collect())
        };
        let parts = if is_much {
            spawn_blocking(make_ready).await.map_err(|_| Error::Stopped)?
        } else {
            make_ready()
        };
        self.writer.run(parts?).await
    }

    pub(crate) async fn settle(&self, until: Time) -> Result<()> {
        let until = until.timestamp_micros();
        self.writer.run(vec![Work::Settle { until }]).await
    }

    pub(crate) async fn forget_team(&self, team: i64) -> Result<()> {
        let is_done = Arc::<AtomicBool>::default();
        while !is_done.load(Ordering::Relaxed) {
            let is_done = is_done.clone();
            self.writer.run(vec![Work::Forget { team, is_done }]).await?;
        }
        Ok(())
    }

    pub(crate) fn scan(&self, scan: Scan, portion: Portion) -> Rows {
        let (sender, rows) = Rows::channel(schema(&scan.query), portion);
        let readers = self.readers.clone();
        let (wanted, stop) = readers.wanted();
        spawn_blocking(move || {
            let work = || readers.with(wanted, |reader| scan::run(reader, &scan, portion, &sender));
            // A scan that ended in a panic must not look like one that came to its end.
            let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Stopped));
            if let Err(error) = outcome {
                // Whoever listened may have gone.
                let _ = sender.blocking_send(Err(error));
            }
        });
        rows.stopping(stop)
    }

    /// While it is held, not many others look.
    pub(crate) async fn turn_to_look(&self) -> Result<OwnedSemaphorePermit> {
        let turn = self.readers.looks.clone().acquire_owned().await;
        turn.map_err(|_| Error::Stopped)
    }

    pub(crate) async fn count(&self, scan: Scan) -> Result<u64> {
        self.read(move |reader| scan::count(reader, &scan)).await
    }

    pub(crate) async fn earliest(&self, team: i64, model: Model) -> Result<Option<Time>> {
        let micros = self.read(move |reader| scan::earliest(reader, team, model)).await?;
        Ok(micros.and_then(DateTime::from_timestamp_micros))
    }

    pub(crate) async fn claim(&self, instance: Uuid) -> Result<Uuid> {
        let path = self.readers.path.clone();
        let claimed = spawn_blocking(move || whole::claim(&path, instance));
        claimed.await.map_err(|_| Error::Stopped)?
    }

    pub(crate) async fn highest_team(&self) -> Result<i64> {
        self.read(|reader| whole::highest_team(&reader.connection)).await
    }

    /// Looks for damage, for as long as a start may take.
    pub async fn check(&self) -> Result<()> {
        let path = self.readers.path.clone();
        let checked = spawn_blocking(move || whole::check_quickly(&path));
        checked.await.map_err(|_| Error::Stopped)?
    }

    pub(crate) async fn ping(&self) -> Result<()> {
        self.read(|reader| Ok(store::floor(&reader.connection).map(drop)?))
            .await
    }

    async fn read<T: Send + 'static>(&self, work: impl FnOnce(&Reader) -> Result<T> + Send + 'static) -> Result<T> {
        let readers = self.readers.clone();
        let (wanted, _stop) = readers.wanted();
        spawn_blocking(move || readers.with(wanted, work))
            .await
            .map_err(|_| Error::Stopped)?
    }
}

/// Whether making these ready would keep a thread from others.
fn is_much(events: &[Incoming]) -> bool {
    events.len() > MANY || size::are_longer(events.iter().map(|event| &event.properties), MUCH)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use serde_json::json;

    use super::*;
    use crate::Held;

    fn events(count: usize, bytes: usize) -> Vec<Incoming> {
        let event = Incoming {
            uuid: None,
            event: "x".to_owned(),
            distinct_id: "ada".to_owned(),
            properties: [("a".to_owned(), json!("x".repeat(bytes)))].into_iter().collect(),
            timestamp: DateTime::UNIX_EPOCH,
        };
        vec![event; count]
    }

    /// What was reserved last.
    #[derive(Debug)]
    struct Reserved(Arc<AtomicUsize>);

    impl Held for Reserved {
        fn shrink_to(&mut self, bytes: usize) {
            self.0.store(bytes, Ordering::Relaxed);
        }
    }

    /// Or those who send would reserve thirty times as much as they take, for as long as others write.
    #[tokio::test]
    async fn events_that_wait_take_less_than_those_that_were_read() {
        let folder = std::env::temp_dir().join(format!("hedgerow-hold-{}", Uuid::now_v7()));
        std::fs::create_dir(&folder).unwrap();
        let store = Embedded::open(&folder.join("events.sqlite")).unwrap();
        let reserved = Arc::new(AtomicUsize::new(usize::MAX));
        let hold = Hold::of(Reserved(reserved.clone()));
        store
            .append(hold, 1, events(1_000, 10), DateTime::UNIX_EPOCH)
            .await
            .unwrap();
        let each = reserved.load(Ordering::Relaxed) / 1_000;
        assert!((200..600).contains(&each), "{each} bytes");
        store.close().await.unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn few_large_events_are_as_much_as_many_small_ones() {
        assert!(!is_much(&events(MANY, 10)));
        assert!(is_much(&events(MANY + 1, 10)));
        assert!(!is_much(&events(1, MUCH - 100)));
        assert!(is_much(&events(1, MUCH)) && is_much(&events(4, MUCH / 4)));
    }
}
