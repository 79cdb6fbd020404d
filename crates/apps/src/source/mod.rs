//! The source of an app: where it comes from, and how it becomes a handful of text files.
//!
//! An [`AppUrl`] is read from what people paste, [`Sources`] finds its newest tag and brings its archive, and
//! [`archive`] takes that apart in memory. Nothing of an app is ever written to disk.

mod app_url;
pub mod archive;
mod ask;
mod error;
mod fetch;
mod gather;
mod local;
mod npm;
pub mod origin;
mod sources;
mod tag;

use std::collections::BTreeMap;

pub use app_url::{AppUrl, Checksum};
pub use archive::unpack;
pub use error::{Error, RemoteSource};
pub use gather::Unpacked;
pub use origin::Origin;
pub use sources::{Hosts, Sources};

/// Names, with slashes between folders, and texts.
pub type Files = BTreeMap<String, String>;

/// How much of an app is read. What counts is what was read, not what an archive says about itself.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of an archive as it comes.
    pub packed: usize,
    /// Bytes of all files together.
    pub unpacked: usize,
    /// Bytes of one file.
    pub file: usize,
    /// Files that are looked into.
    pub files: usize,
    /// Files, folders and whatever else there is, also where nobody looks.
    pub entries: usize,
    /// Folders above a file, and the file.
    pub depth: usize,
    /// Characters of a name, with its folders.
    pub name: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packed: 10_000_000,
            unpacked: 10_000_000,
            file: 1_000_000,
            files: 1000,
            entries: 10_000,
            depth: 10,
            name: 200,
        }
    }
}
