//! The manifest of a backup: what it is of, and what is in it.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::files::Copied;

pub(super) const MANIFEST: &str = "manifest.json";
/// What is in the folder, as [`Manifest`] describes it.
pub(super) const FORMAT: u32 = 1;

/// What a backup is of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: u32,
    pub(super) made_by: String,
    pub(super) made_at: String,
    pub(super) instance: Uuid,
    /// Recognizes the secret key and tells nothing about it.
    pub(super) secret_key_id: String,
    /// `sqlite` or `postgres`.
    pub(super) database: String,
    pub(super) database_file: Copied,
    /// None: the events were left out, or ClickHouse backed them up.
    pub(super) events_file: Option<Copied>,
    pub(super) events: Option<i64>,
    /// Where to is not written down: it can hold credentials.
    #[serde(default)]
    pub(super) are_events_in_clickhouse: bool,
}

impl Manifest {
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
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

    pub(super) fn files(&self) -> impl Iterator<Item = &Copied> {
        std::iter::once(&self.database_file).chain(&self.events_file)
    }
}
