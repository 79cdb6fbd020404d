//! Restoring a backup, where nothing is yet.

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use tokio::task::spawn_blocking;

use super::files::{self, Copied, Draft};
use super::manifest::Manifest;
use super::postgres;
use crate::settings::Settings;
use crate::{commands, data_folder, secret_key, store};

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// A folder created by `hedgerow backup`.
    folder: PathBuf,
    /// Where ClickHouse restores the events from, as in `--events-to`.
    #[arg(long, value_name = "SOURCE")]
    events_from: Option<String>,
    /// Do not restore the events.
    #[arg(long, conflicts_with = "events_from")]
    without_events: bool,
}

impl Restore {
    pub(crate) async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        run(&self, settings).await
    }
}

async fn run(restore: &Restore, settings: &Settings) -> anyhow::Result<()> {
    let manifest = Manifest::read(&restore.folder)?;
    let _lock = data_folder::lock(settings)?;
    check_key(&manifest, settings)?;
    check_place(&manifest, restore, settings)?;
    let manifest = check_files(manifest, restore.folder.clone()).await?;
    let mut files = copy_files(&manifest, restore, settings).await?;
    restore_servers(&manifest, restore, settings).await?;
    files.iter_mut().try_for_each(Draft::put_in_place)?;
    // Opens both as a server does, which refuses what does not belong together.
    let service = commands::service(settings).await?;
    let events = store::open(settings, &service).await?;
    store::close(&events).await?;
    service.store().close().await;
    files.into_iter().for_each(Draft::keep);
    writeln!(
        stdout(),
        "restored the backup of {}: start the server",
        manifest.made_at
    )?;
    Ok(())
}

async fn check_files(manifest: Manifest, folder: PathBuf) -> anyhow::Result<Manifest> {
    spawn_blocking(move || {
        manifest.files().try_for_each(|file| file.check(&folder))?;
        Ok(manifest)
    })
    .await?
}

fn check_key(manifest: &Manifest, settings: &Settings) -> anyhow::Result<()> {
    ensure!(
        secret_key::is_there(settings)?,
        "the secret key is not in the backup: put your copy of secret.key into {}, or set HEDGEROW_SECRET_KEY",
        settings.data_dir.display()
    );
    let known = secret_key::encryptor(settings)?
        .ids()
        .any(|id| hex::encode(id) == manifest.secret_key_id);
    ensure!(
        known,
        "the secrets in this backup were encrypted with a different secret key"
    );
    Ok(())
}

/// Nothing is replaced: whoever wants that moves the old data away, and can still change their mind.
fn check_place(manifest: &Manifest, restore: &Restore, settings: &Settings) -> anyhow::Result<()> {
    let (made, wanted) = (
        &manifest.database,
        if settings.sqlite_file().is_some() {
            "sqlite"
        } else {
            "postgres"
        },
    );
    ensure!(
        made == wanted,
        "this is a backup of {made}, but the settings use {wanted}: restore it to the same database type"
    );
    ensure!(
        restored_file(manifest, restore).is_none() || settings.data.events_url.is_none(),
        "the events of this backup are in a file, but the settings use ClickHouse: restore without \
         HEDGEROW_EVENTS_URL"
    );
    ensure!(
        restore.events_from.is_none() || settings.data.events_url.is_some(),
        "--events-from is for events in ClickHouse: set HEDGEROW_EVENTS_URL too"
    );
    ensure!(
        !manifest.are_events_in_clickhouse || restore.events_from.is_some() || restore.without_events,
        "ClickHouse backed up the events of this backup: say where they are with --events-from, or use --without-events"
    );
    let events = restored_file(manifest, restore).map(|_| store::file(settings));
    let places: Vec<_> = settings.sqlite_file().into_iter().chain(events).collect();
    // A log beside a file that was moved away would be written into the one that is restored.
    for file in places.iter().flat_map(|place| files::with_logs(place)) {
        ensure!(
            !file.try_exists()?,
            "{} already exists: move the old file and its -wal, -shm and -journal files away first",
            file.display()
        );
    }
    Ok(())
}

/// The events, if they are in the backup and wanted.
fn restored_file<'a>(manifest: &'a Manifest, restore: &Restore) -> Option<&'a Copied> {
    manifest.events_file.as_ref().filter(|_| !restore.without_events)
}

/// Everything that is a file, beside its place.
async fn copy_files(manifest: &Manifest, restore: &Restore, settings: &Settings) -> anyhow::Result<Vec<Draft>> {
    let folder = &restore.folder;
    let events = restored_file(manifest, restore);
    let events = events.map(|file| (folder.join(&file.name), store::file(settings)));
    let database = settings.sqlite_file();
    let database = database.map(|place| (folder.join(&manifest.database_file.name), place));
    let copies: Vec<_> = events.into_iter().chain(database).collect();
    spawn_blocking(move || {
        let copies = copies.into_iter().map(|(from, place)| Draft::copy(&from, place));
        copies.collect()
    })
    .await?
}

/// Everything that ClickHouse and PostgreSQL keep.
async fn restore_servers(manifest: &Manifest, restore: &Restore, settings: &Settings) -> anyhow::Result<()> {
    if let Some(from) = &restore.events_from {
        let restored = store::clickhouse(settings).await?.restore_from(from).await;
        restored.context("ClickHouse failed to restore the events")?;
    }
    if settings.sqlite_file().is_some() {
        return Ok(());
    }
    let (url, dump) = (
        settings.database_url(),
        restore.folder.join(&manifest.database_file.name),
    );
    spawn_blocking(move || postgres::restore(&url, &dump)).await?
}
