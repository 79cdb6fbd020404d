//! Files that are there whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::data_folder::beside;

/// A file of a backup, and what it is recognized by.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Copied {
    pub(super) name: String,
    bytes: u64,
    sha256: String,
}

impl Copied {
    /// Looks at a file that was written, once it is on the disk.
    pub(super) fn of(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let path = folder.join(name);
        File::open(&path)?.sync_all()?;
        let (bytes, sha256) = digest(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            name: name.to_owned(),
            bytes,
            sha256,
        })
    }

    pub(super) fn check(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(&self.name);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        ensure!(is_file, "{} is not a file", path.display());
        let (bytes, sha256) = digest(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            bytes == self.bytes && sha256 == self.sha256,
            "{} differs from when the backup was made: it is corrupt or was changed",
            path.display()
        );
        Ok(())
    }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut sha256, mut bytes) = (File::open(path)?, Sha256::new(), 0);
    let mut part = vec![0; 1024 * 1024];
    loop {
        match file.read(&mut part)? {
            0 => return Ok((bytes, hex::encode(sha256.finalize()))),
            length => {
                sha256.update(&part[..length]);
                bytes += length as u64;
            }
        }
    }
}

/// A copy of a file, first under another name and then in its place. It goes with this, unless it is kept: what fails half-way
/// can be tried again.
#[derive(Debug)]
pub(super) struct Draft {
    copy: PathBuf,
    place: PathBuf,
    state: State,
}

#[derive(Debug, PartialEq)]
enum State {
    Copied,
    Placed,
    Kept,
}

impl Draft {
    /// Replaces one that a crash left.
    pub(super) fn copy(from: &Path, place: PathBuf) -> anyhow::Result<Self> {
        let this = Self {
            copy: beside(&place, ".draft"),
            place,
            state: State::Copied,
        };
        let copied = fs::copy(from, &this.copy).and_then(|_| {
            // Whatever mode the backup has by now.
            fs::set_permissions(&this.copy, Permissions::from_mode(0o600))?;
            File::open(&this.copy)?.sync_all()
        });
        copied.with_context(|| format!("cannot write {}", this.copy.display()))?;
        Ok(this)
    }

    pub(super) fn put_in_place(&mut self) -> anyhow::Result<()> {
        let moved = fs::rename(&self.copy, &self.place);
        moved.with_context(|| format!("cannot create {}", self.place.display()))?;
        self.state = State::Placed;
        Ok(sync_folder(&self.place)?)
    }

    pub(super) fn keep(mut self) {
        self.state = State::Kept;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let made = match self.state {
            State::Copied => vec![self.copy.clone()],
            State::Placed => with_logs(&self.place).collect(),
            State::Kept => Vec::new(),
        };
        for file in made {
            // Most of them are not there, and what stays is named by the next restore.
            let _ = fs::remove_file(file);
        }
    }
}

/// A file of SQLite, and those that it takes for parts of it.
pub(super) fn with_logs(file: &Path) -> impl Iterator<Item = PathBuf> {
    ["", "-wal", "-shm", "-journal"]
        .into_iter()
        .map(|end| beside(file, end))
}

/// Makes the name of a file survive a power cut, and not only what is in it.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}
