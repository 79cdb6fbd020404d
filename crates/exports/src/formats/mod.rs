//! From rows to the bytes of files.
//!
//! Rows are gathered into chunks that depend on nothing but the rows, each chunk is encoded on its own, several at once,
//! and the results are put behind each other in order: the same rows always make the same bytes.

mod chunks;
mod csv;
mod decode;
mod encoder;
mod file;
mod format;
mod jsonl;
mod pack;
mod packer;
mod parquet;
mod text;

use arrow_array::RecordBatch;
use serde_json::{Map, Value};

use self::format::unwritable;
use crate::Error;

pub use decode::{Undecodable, count_rows};
pub use file::{Facts, Piece};
pub use format::Format;
pub use packer::Packer;

/// Rows as JSON lines.
pub(crate) fn lines(batch: &RecordBatch) -> Result<Vec<u8>, Error> {
    let mut lines = Vec::new();
    jsonl::write(batch, &mut lines)?;
    Ok(lines)
}

/// The objects of such lines, one for each row.
pub(crate) fn objects(lines: &[u8]) -> Result<Vec<Map<String, Value>>, Error> {
    let read = |line: &[u8]| serde_json::from_slice(line).map_err(unwritable);
    lines
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(read)
        .collect()
}
