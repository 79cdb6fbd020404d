//! Checks a delivery offline: a manifest, and the files beside it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::formats::{Format, Undecodable, count_rows};
use crate::manifest::{Entry, Manifest};

const MANIFEST: &str = "_manifest.json";

/// Why there is nothing to compare with.
#[derive(Debug, thiserror::Error)]
pub enum Unverifiable {
    #[error("cannot read {0}")]
    Io(PathBuf, #[source] std::io::Error),
    #[error("{0} is not a manifest of Hedgerow")]
    NoManifest(PathBuf, #[source] serde_json::Error),
}

/// What was found.
#[derive(Debug)]
pub struct Report {
    pub manifest: Manifest,
    /// Empty: everything is as it was delivered.
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
pub enum Problem {
    /// The manifest contradicts itself, so somebody changed it.
    Manifest,
    Missing {
        file: String,
    },
    Size {
        file: String,
        expected: u64,
        found: u64,
    },
    Content {
        file: String,
    },
    Rows {
        file: String,
        expected: u64,
        found: u64,
    },
    Undecodable {
        file: String,
        cause: Undecodable,
    },
    /// Looks like a file of the same interval, but the manifest does not name it.
    Extra {
        file: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest => f.write_str("the manifest contradicts itself: it was changed after it was written"),
            Self::Missing { file } => write!(f, "{file} is missing"),
            Self::Size { file, expected, found } if found < expected => {
                write!(f, "{file} is cut off: {found} bytes of {expected}")
            }
            Self::Size { file, expected, found } => write!(f, "{file} has grown: {found} bytes instead of {expected}"),
            Self::Content { file } => write!(f, "{file} was changed: its SHA-256 is another"),
            Self::Rows { file, expected, found } => write!(f, "{file} holds {found} rows instead of {expected}"),
            Self::Undecodable { file, cause } => write!(f, "{file} cannot be decoded: {cause}"),
            Self::Extra { file } => write!(f, "{file} is of the same interval, but the manifest does not name it"),
        }
    }
}

/// Reads a manifest and every file beside it, and compares.
pub fn verify(path: &Path) -> Result<Report, Unverifiable> {
    let unreadable = |cause| Unverifiable::Io(path.to_owned(), cause);
    let text = fs::read(path).map_err(unreadable)?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|cause| Unverifiable::NoManifest(path.to_owned(), cause))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut problems = Vec::new();
    if !manifest.agrees_with_itself() {
        problems.push(Problem::Manifest);
    }
    for entry in &manifest.hedgerow.files {
        problems.extend(check(folder, entry));
    }
    problems.extend(extra(folder, path, &manifest).map_err(unreadable)?);
    Ok(Report { manifest, problems })
}

/// All files of an interval are in the manifest's folder, whatever was before it at the destination.
fn local_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn check(folder: &Path, entry: &Entry) -> Option<Problem> {
    let file = local_name(&entry.key).to_owned();
    let path = folder.join(&file);
    let Ok(found) = fs::metadata(&path).map(|metadata| metadata.len()) else {
        return Some(Problem::Missing { file });
    };
    if found != entry.bytes {
        let expected = entry.bytes;
        return Some(Problem::Size { file, expected, found });
    }
    match hash(&path) {
        Ok(sha256) if sha256 == entry.sha256 => {}
        Ok(_) => return Some(Problem::Content { file }),
        Err(cause) => {
            let cause = cause.into();
            return Some(Problem::Undecodable { file, cause });
        }
    }
    // A name without a format is not one of ours; its bytes were compared all the same.
    match count_rows(&path, Format::of_name(&file)?) {
        Ok(rows) if rows == entry.rows => None,
        Ok(found) => {
            let expected = entry.rows;
            Some(Problem::Rows { file, expected, found })
        }
        Err(cause) => Some(Problem::Undecodable { file, cause }),
    }
}

fn hash(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1024 * 1024];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok(hex::encode(hash.finalize()));
        }
        hash.update(&piece[..length]);
    }
}

fn extra(folder: &Path, manifest_path: &Path, manifest: &Manifest) -> std::io::Result<Vec<Problem>> {
    let name = manifest_path.file_name().unwrap_or_default().to_string_lossy();
    let Some(beginning) = name.strip_suffix(MANIFEST) else {
        return Ok(Vec::new());
    };
    let known: BTreeSet<&str> = manifest.files.iter().map(|key| local_name(key)).collect();
    // An empty path is this folder to everything but `read_dir`.
    let folder = if folder == Path::new("") {
        Path::new(".")
    } else {
        folder
    };
    let mut extra = Vec::new();
    for found in fs::read_dir(folder)? {
        let file = found?.file_name().to_string_lossy().into_owned();
        if file.starts_with(beginning) && file != name && !known.contains(file.as_str()) {
            extra.push(file);
        }
    }
    extra.sort();
    Ok(extra.into_iter().map(|file| Problem::Extra { file }).collect())
}
