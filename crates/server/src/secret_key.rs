//! The keys that secrets are encrypted with: as given, else made once and kept in the data folder, a line each.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use auth::encryption::Encryptor;
use service::RandomSource;

use crate::settings::Settings;

const FILE: &str = "secret.key";

pub(crate) fn encryptor(settings: &Settings) -> anyhow::Result<Encryptor> {
    if settings.secret_key.is_empty() {
        let keys = kept(&settings.data_dir.join(FILE))?;
        return Ok(Encryptor::new(lines(&keys))?);
    }
    let given = settings.secret_key.iter().map(|key| key.trim());
    Encryptor::new(given).context("HEDGEROW_SECRET_KEY is invalid")
}

/// Whether there is a key, given or kept. None is made.
pub(crate) fn is_there(settings: &Settings) -> anyhow::Result<bool> {
    Ok(!settings.secret_key.is_empty() || settings.data_dir.join(FILE).try_exists()?)
}

/// The newest first.
fn lines(keys: &str) -> impl Iterator<Item = &str> {
    keys.lines().map(str::trim).filter(|key| !key.is_empty())
}

/// Puts a new key in front of those in the file.
pub(crate) fn add(data_dir: &Path) -> anyhow::Result<()> {
    let file = data_dir.join(FILE);
    let keys = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let keys: Vec<String> = std::iter::once(random(43))
        .chain(lines(&keys).map(str::to_owned))
        .collect();
    replace(&file, &keys)
}

/// Leaves the newest key alone in the file.
pub(crate) fn prune(data_dir: &Path) -> anyhow::Result<()> {
    let file = data_dir.join(FILE);
    let keys = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let newest = lines(&keys).next().map(str::to_owned);
    replace(&file, &newest.into_iter().collect::<Vec<_>>())
}

/// A crash leaves the old file or the new one, whole.
fn replace(file: &Path, keys: &[String]) -> anyhow::Result<()> {
    let draft = write(file, &keys.join("\n")).with_context(|| format!("cannot write beside {}", file.display()))?;
    fs::rename(draft, file).with_context(|| format!("cannot replace {}", file.display()))
}

/// Reads the key, or makes one. Of several processes that start at once, one makes it and all read it.
fn kept(file: &Path) -> anyhow::Result<String> {
    if !file.try_exists()? {
        make(file).with_context(|| format!("cannot create {}", file.display()))?;
    }
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The file appears whole or not at all, and never in place of another.
fn make(file: &Path) -> std::io::Result<()> {
    let draft = write(file, &random(43))?;
    let linked = fs::hard_link(&draft, file);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn random(length: usize) -> String {
    auth::key::new_token("", RandomSource::System.bytes())[..length].to_owned()
}

/// Writes a draft beside the file.
fn write(file: &Path, content: &str) -> std::io::Result<PathBuf> {
    let draft = file.with_extension(random(10));
    let mut new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    writeln!(new, "{content}")?;
    new.sync_all()?;
    Ok(draft)
}
