//! The key that secrets are sealed with: as given, else made once and kept in the data folder.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use auth::seal::Sealer;
use service::Chance;

use crate::settings::Settings;

const FILE: &str = "secret.key";

pub(crate) fn sealer(settings: &Settings) -> anyhow::Result<Sealer> {
    if settings.secret_key.is_empty() {
        let key = kept(&settings.data_dir.join(FILE))?;
        return Ok(Sealer::new([key.trim()])?);
    }
    let given = settings.secret_key.iter().map(|key| key.trim());
    Sealer::new(given).context("HEDGEROW_SECRET_KEY cannot be used")
}

/// Reads the key, or makes one. Of several processes that start at once, one makes it and all read it.
fn kept(file: &Path) -> anyhow::Result<String> {
    if !file.try_exists()? {
        make(file).with_context(|| format!("cannot make {}", file.display()))?;
    }
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The file appears whole or not at all, and never in place of another.
fn make(file: &Path) -> std::io::Result<()> {
    let random = |length: usize| auth::key::new_token("", Chance::System.bytes())[..length].to_owned();
    let draft = file.with_extension(random(10));
    let mut new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    writeln!(new, "{}", random(43))?;
    new.sync_all()?;
    let linked = fs::hard_link(&draft, file);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
