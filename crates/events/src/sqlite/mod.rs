//! The embedded store: a SQLite file of its own.
//!
//! One thread writes, and many callers share its waits for the disk. Whoever reads has a connection of their own.
//! Other processes may read and write the same file at the same time.

mod batch;
mod file;
mod people;
mod recent;
mod scan;
mod seen;
mod select;
mod store;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::DateTime;
use hogql::Model;
use rusqlite::Connection;
use tokio::task::spawn_blocking;

use crate::{Error, Incoming, Result, Rows, Scan, Time, schema};
use store::{Ready, Work};
use writer::Writer;

/// How many connections for reading are kept for the next reader.
const KEPT: usize = 4;

/// A batch of more events than this is made ready on a thread of its own.
const MANY: usize = 500;

#[derive(Debug, Clone)]
pub struct Embedded {
    writer: Writer,
    readers: Arc<Readers>,
}

impl Embedded {
    /// Opens the file, or makes it.
    pub fn open(file: &Path) -> Result<Self> {
        Ok(Self {
            writer: Writer::start(file)?,
            readers: Arc::new(Readers {
                path: file.to_owned(),
                kept: Mutex::default(),
            }),
        })
    }

    /// Finishes what was begun and stops writing. Every later append is refused.
    pub async fn close(&self) -> Result<()> {
        self.writer.close().await
    }

    pub(crate) async fn append(&self, team: i64, events: Vec<Incoming>, now: Time) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let make_ready = |events: Vec<Incoming>| events.into_iter().map(Ready::from).collect();
        let events = if events.len() > MANY {
            spawn_blocking(move || make_ready(events))
                .await
                .map_err(|_| Error::Stopped)?
        } else {
            make_ready(events)
        };
        let now = now.timestamp_micros();
        self.writer.run(Work::Append { team, events, now }).await
    }

    pub(crate) async fn settle(&self, until: Time) -> Result<()> {
        let until = until.timestamp_micros();
        self.writer.run(Work::Settle { until }).await
    }

    pub(crate) async fn forget_team(&self, team: i64) -> Result<()> {
        self.writer.run(Work::Forget { team }).await
    }

    pub(crate) fn scan(&self, scan: Scan) -> Rows {
        let (sender, rows) = Rows::channel(schema(&scan.query));
        let readers = self.readers.clone();
        spawn_blocking(move || {
            let work = || readers.with(|connection| scan::run(connection, &scan, &sender));
            // A scan that ended in a panic must not look like one that came to its end.
            let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Stopped));
            if let Err(error) = outcome {
                // Whoever listened may have gone.
                let _ = sender.blocking_send(Err(error));
            }
        });
        rows
    }

    pub(crate) async fn count(&self, scan: Scan) -> Result<u64> {
        self.read(move |connection| scan::count(connection, &scan)).await
    }

    pub(crate) async fn earliest(&self, team: i64, model: Model) -> Result<Option<Time>> {
        let micros = self
            .read(move |connection| scan::earliest(connection, team, model))
            .await?;
        Ok(micros.and_then(DateTime::from_timestamp_micros))
    }

    pub(crate) async fn ping(&self) -> Result<()> {
        self.read(|connection| Ok(store::floor(connection).map(drop)?)).await
    }

    async fn read<T: Send + 'static>(&self, work: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> Result<T> {
        let readers = self.readers.clone();
        spawn_blocking(move || readers.with(work))
            .await
            .map_err(|_| Error::Stopped)?
    }
}

/// Connections that only read.
#[derive(Debug)]
struct Readers {
    path: PathBuf,
    kept: Mutex<Vec<Connection>>,
}

impl Readers {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = kept.map_or_else(|| file::open_to_read(&self.path), Ok)?;
        let outcome = work(&connection);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(connection);
        }
        outcome
    }
}
