//! The folder for what is kept on this machine: made for this user alone, and used by one server at a time.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::settings::Settings;

const LOCK: &str = "serve.lock";

pub(crate) fn make(settings: &Settings) -> anyhow::Result<()> {
    let folder = &settings.data_dir;
    // Others on the machine have no business in there.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot create the data folder {}", folder.display()))
}

/// Held for as long as a server uses the folder; the system ends it with the process. Workers and commands go without.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "open as long as the lock is held")] File);

/// None: nothing in the folder is this machine's own, as with PostgreSQL and ClickHouse, and servers may share it.
pub(crate) fn lock(settings: &Settings) -> anyhow::Result<Option<Lock>> {
    if settings.sqlite_file().is_none() && settings.data.events_url.is_some() {
        return Ok(None);
    }
    make(settings)?;
    let Some(folder) = hold(&settings.data_dir.join(LOCK))? else {
        bail!(
            "another server uses the data folder {}: stop it first, or set a different folder with --data-dir",
            settings.data_dir.display()
        )
    };
    Ok(Some(Lock(folder)))
}

/// Locks a file that is there for that alone. None: another process has locked it.
pub(crate) fn hold(path: &Path) -> anyhow::Result<Option<File>> {
    let file = File::options().create(true).append(true).open(path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// The path of a file beside another, with this at the end of its name.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.components().collect::<PathBuf>().into_os_string();
    name.push(end);
    name.into()
}
