//! The program that a child process runs.

use std::ffi::OsString;
use std::path::PathBuf;

/// How a child is started.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
}

impl Program {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            args: Vec::new(),
        }
    }

    /// The program that is running, started with this subcommand.
    pub fn this_with(subcommand: &str) -> Self {
        // The name of the file may by now stand for a newer version, or for nothing.
        Self {
            path: PathBuf::from("/proc/self/exe"),
            args: vec![subcommand.into()],
        }
    }
}
