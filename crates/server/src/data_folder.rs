//! The folder for what is kept on this machine: made for this user alone, and used by one server at a time.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;

use anyhow::{Context, bail};

use crate::settings::Settings;

const LOCK: &str = "serve.lock";

pub(crate) fn make(settings: &Settings) -> anyhow::Result<()> {
    let folder = &settings.data_dir;
    // Others on the machine have no business in there.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot make the data folder {}", folder.display()))
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
    let path = settings.data_dir.join(LOCK);
    let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => bail!(
            "another server uses the data folder {}: stop it first, or give this one a folder of its own with --data-dir",
            settings.data_dir.display()
        ),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}
