//! Restoring a backup, where nothing is yet.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tokio::task::spawn_blocking;

use super::{Manifest, Restore, files, hex, postgres};
use crate::settings::Settings;
use crate::{commands, data_folder, secret_key, store};

pub(super) async fn run(restore: &Restore, settings: &Settings) -> anyhow::Result<()> {
    let manifest = Manifest::read(&restore.folder)?;
    let _lock = data_folder::lock(settings)?;
    check_key(&manifest, settings)?;
    check_place(&manifest, restore, settings)?;
    let (manifest, folder) = (check_files(manifest, restore.folder.clone()).await?, &restore.folder);
    put_events(&manifest, restore, settings).await?;
    put_database(&manifest, folder, settings).await?;
    // Opens both as a server does, which refuses what does not belong together.
    let service = commands::service(settings).await?;
    let events = store::open(settings, &service).await?;
    store::close(&events).await?;
    service.store().close().await;
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
        "the secret key is not in the backup: put your copy of secret.key into {}, or give HEDGEROW_SECRET_KEY",
        settings.data_dir.display()
    );
    let known = secret_key::sealer(settings)?
        .ids()
        .any(|id| hex(&id) == manifest.secret_key_id);
    ensure!(
        known,
        "the secrets in this backup were encrypted with another secret key than the one at hand"
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
        "this is a backup of {made}, and the settings name {wanted}: it can be restored only as it was"
    );
    ensure!(
        manifest.events_file.is_none() || settings.data.events_url.is_none(),
        "the events of this backup are a file, and the settings name ClickHouse: restore without HEDGEROW_EVENTS_URL"
    );
    ensure!(
        restore.events_from.is_none() || settings.data.events_url.is_some(),
        "--events-from is for events in ClickHouse: give HEDGEROW_EVENTS_URL, too"
    );
    let events = manifest.events_file.as_ref().map(|_| store::file(settings));
    for file in settings.sqlite_file().into_iter().chain(events) {
        ensure!(
            !file.try_exists()?,
            "{} is there already: move it and the files beside it (-wal, -shm) away first",
            file.display()
        );
    }
    Ok(())
}

async fn put_events(manifest: &Manifest, restore: &Restore, settings: &Settings) -> anyhow::Result<()> {
    if let Some(from) = &restore.events_from {
        let restored = store::clickhouse(settings).await?.restore_from(from).await;
        restored.context("ClickHouse did not restore the events")?;
    }
    match &manifest.events_file {
        Some(file) => place(restore.folder.join(&file.name), store::file(settings)).await,
        None => Ok(()),
    }
}

async fn put_database(manifest: &Manifest, folder: &Path, settings: &Settings) -> anyhow::Result<()> {
    let from = folder.join(&manifest.database_file.name);
    if let Some(to) = settings.sqlite_file() {
        return place(from, to).await;
    }
    let url = settings.database_url();
    spawn_blocking(move || postgres::restore(&url, &from)).await?
}

async fn place(from: PathBuf, to: PathBuf) -> anyhow::Result<()> {
    spawn_blocking(move || files::place(&from, &to)).await?
}
