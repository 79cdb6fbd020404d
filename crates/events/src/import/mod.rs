//! Events from files: JSON lines, plain or gzipped, and Parquet; what our own exports write among them.

mod columns;
mod item;
mod lines;
mod row;
mod table;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

pub use self::row::OpenError;
use self::row::{Progress, Row};
use crate::{Incoming, Time};

/// A row that is no event. The rows after it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}, line {line}: {why}", file.display())]
pub struct BadRow {
    pub file: PathBuf,
    /// From 1; of a Parquet file, the row.
    pub line: u64,
    pub why: String,
}

/// The events of a file, in order.
pub struct Import {
    rows: Box<dyn Iterator<Item = Row> + Send>,
    file: PathBuf,
    bytes: u64,
    progress: Progress,
}

/// Opens a file. What it is, its first bytes tell. An event without a time of its own happened at `now`.
pub fn open(path: &Path, now: Time) -> Result<Import, OpenError> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut start = Vec::new();
    file.by_ref().take(4).read_to_end(&mut start)?;
    file.rewind()?;
    let progress = Progress::default();
    let rows: Box<dyn Iterator<Item = Row> + Send> = if start == b"PAR1" {
        Box::new(table::open(file, bytes, progress.clone(), now)?)
    } else {
        let counted = Counted {
            file,
            progress: progress.clone(),
        };
        if start.starts_with(&[0x1f, 0x8b]) {
            let unpacked = flate2::read::MultiGzDecoder::new(BufReader::new(counted));
            Box::new(lines::Lines::new(BufReader::new(unpacked), now))
        } else {
            Box::new(lines::Lines::new(BufReader::with_capacity(1 << 16, counted), now))
        }
    };
    let file = path.to_owned();
    Ok(Import {
        rows,
        file,
        bytes,
        progress,
    })
}

impl Import {
    /// How large the file is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How much of it was read so far.
    pub fn bytes_read(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }
}

impl Iterator for Import {
    type Item = Result<Incoming, BadRow>;

    fn next(&mut self) -> Option<Self::Item> {
        let (line, row) = self.rows.next()?;
        let file = &self.file;
        Some(row.map_err(|why| BadRow {
            file: file.clone(),
            line,
            why,
        }))
    }
}

impl std::fmt::Debug for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Import")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Counts what is read through it.
struct Counted {
    file: File,
    progress: Progress,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.progress.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
