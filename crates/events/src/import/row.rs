//! What is read of a file, whatever its format.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::Incoming;

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the file cannot be read")]
    Io(#[from] io::Error),
    #[error("the file is not a valid Parquet file")]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error("the file has no column {0}")]
    NoColumn(&'static str),
}

/// A row and where it was.
pub(super) type Row = (u64, Result<Incoming, String>);

/// Bytes of a file that were read so far.
pub(super) type Progress = Arc<AtomicU64>;
