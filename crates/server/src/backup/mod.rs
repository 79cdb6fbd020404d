//! Backups: one folder with the database, the events beside it, and a manifest that tells whether they are whole and belong
//! together. The secret key is not in it, only what it is recognized by.

mod files;
mod make;
mod postgres;
mod restore;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::files::Copied;
use crate::settings::Settings;

const MANIFEST: &str = "manifest.json";
/// What is in the folder, as [`Manifest`] describes it.
const FORMAT: u32 = 1;

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The folder to create; it must not exist.
    folder: PathBuf,
    /// Where ClickHouse backs up the events to, in its own syntax: `Disk('backups', 'name.zip')` or `S3('https://…',
    /// 'id', 'secret')`.
    #[arg(long, value_name = "DESTINATION")]
    events_to: Option<String>,
    /// Do not include the events.
    #[arg(long, conflicts_with = "events_to")]
    without_events: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// A folder created by `hedgerow backup`.
    folder: PathBuf,
    /// Where ClickHouse restores the events from, as in `--events-to`.
    #[arg(long, value_name = "SOURCE")]
    events_from: Option<String>,
    /// Do not restore the events that ClickHouse backed up.
    #[arg(long, conflicts_with = "events_from")]
    without_events: bool,
}

impl Backup {
    pub(crate) async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        make::run(&self, settings).await
    }
}

impl Restore {
    pub(crate) async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        restore::run(&self, settings).await
    }
}

/// What a backup is of.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    made_by: String,
    made_at: String,
    instance: Uuid,
    /// Recognizes the secret key and tells nothing about it.
    secret_key_id: String,
    /// `sqlite` or `postgres`.
    database: String,
    database_file: Copied,
    /// None: the events were left out, or ClickHouse backed them up.
    events_file: Option<Copied>,
    events: Option<i64>,
    /// Where to is not written down: it can hold credentials.
    #[serde(default)]
    are_events_in_clickhouse: bool,
}

impl Manifest {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(MANIFEST);
        let text = std::fs::read(&path)
            .with_context(|| format!("{} is not a backup: cannot read its manifest", folder.display()))?;
        let manifest: Self = serde_json::from_slice(&text).context("the manifest is invalid")?;
        ensure!(
            manifest.format == FORMAT,
            "this backup was made by Hedgerow {}: restore it with that version, then upgrade",
            manifest.made_by
        );
        for file in manifest.files() {
            ensure!(
                Path::new(&file.name)
                    .file_name()
                    .is_some_and(|name| *name == *file.name),
                "the manifest lists {:?}, which is not in the backup folder",
                file.name
            );
        }
        Ok(manifest)
    }

    fn files(&self) -> impl Iterator<Item = &Copied> {
        std::iter::once(&self.database_file).chain(&self.events_file)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a text does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
