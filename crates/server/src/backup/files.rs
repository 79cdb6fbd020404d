//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::hex;

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
        let (bytes, sha256) = digest(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            bytes == self.bytes && sha256 == self.sha256,
            "{} is not as it was when the backup was made: it is damaged, or was changed",
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
            0 => return Ok((bytes, hex(&sha256.finalize()))),
            length => {
                sha256.update(&part[..length]);
                bytes += length as u64;
            }
        }
    }
}

/// Puts a copy where nothing is yet. A crash leaves a draft beside it.
pub(super) fn place(from: &Path, to: &Path) -> anyhow::Result<()> {
    let draft = to.with_extension("draft");
    let copy = || -> io::Result<()> {
        fs::copy(from, &draft)?;
        File::open(&draft)?.sync_all()?;
        fs::rename(&draft, to)?;
        sync_folder(to)
    };
    copy().with_context(|| format!("cannot write {}", to.display()))
}

/// Makes the name of a file survive a power cut, and not only what is in it.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}
