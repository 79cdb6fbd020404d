//! Files by the ends of their names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The files of a folder that end like this, also those of the folders in it if wanted.
pub(super) fn files_of(folder: &Path, ending: &str, also_below: bool) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && also_below {
            files.extend(files_of(&path, ending, true)?);
        } else if path.extension().is_some_and(|found| found == ending) {
            files.push(path);
        }
    }
    Ok(files)
}
