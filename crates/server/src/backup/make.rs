//! Making a backup, while servers run.

use std::fs::{self, DirBuilder, File};
use std::io::{Write, stdout};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use service::{Service, backup as database};
use tokio::task::spawn_blocking;

use super::files::{Copied, sync_folder};
use super::manifest::{FORMAT, MANIFEST, Manifest};
use super::postgres;
use crate::settings::Settings;
use crate::{commands, data_folder, store};

const DATABASE: &str = "hedgerow.sqlite";
const DUMP: &str = "hedgerow.dump";
const EVENTS: &str = "events.sqlite";
/// In a folder that is not finished.
const LOCK: &str = "lock";

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

impl Backup {
    pub(crate) async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        run(&self, settings).await
    }
}

async fn run(backup: &Backup, settings: &Settings) -> anyhow::Result<()> {
    let folder = &backup.folder;
    ensure!(
        !folder.try_exists()?,
        "{} already exists: choose another folder",
        folder.display()
    );
    if settings.data.events_url.is_some() {
        ensure!(
            backup.events_to.is_some() || backup.without_events,
            "the events are in ClickHouse, which backs them up itself: set the destination with --events-to, or use \
             --without-events"
        );
    } else {
        ensure!(
            backup.events_to.is_none(),
            "--events-to is for events in ClickHouse: here they are in a file and are backed up to the folder"
        );
    }
    if let Some(file) = settings.sqlite_file() {
        ensure!(file.try_exists()?, "database not found at {}", file.display());
    }
    let service = commands::connect(settings).await?;
    service.check_secret_key().await?;
    // Under this name it is no backup yet, whatever happens.
    let draft = data_folder::beside(folder, ".unfinished");
    let _held = make_draft(&draft)?;
    let manifest = copy(backup, settings, &service, &draft).await?;
    let mut text = serde_json::to_vec_pretty(&manifest)?;
    text.push(b'\n');
    fs::write(draft.join(MANIFEST), text)?;
    File::open(draft.join(MANIFEST))?.sync_all()?;
    sync_folder(&draft.join(MANIFEST))?;
    fs::rename(&draft, folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::remove_file(folder.join(LOCK))?;
    sync_folder(folder)?;
    report(&manifest, folder)
}

/// Makes a folder that is locked while it is written. What a backup left that came to no end is replaced.
fn make_draft(draft: &Path) -> anyhow::Result<File> {
    if draft.try_exists()? {
        let _left = hold_draft(draft)?;
        fs::remove_dir_all(draft).with_context(|| format!("cannot replace {}", draft.display()))?;
    }
    let made = DirBuilder::new().mode(0o700).create(draft);
    made.with_context(|| format!("cannot create {}", draft.display()))?;
    hold_draft(draft)
}

fn hold_draft(draft: &Path) -> anyhow::Result<File> {
    let path = draft.join(LOCK);
    let held = data_folder::hold(&path)?;
    // Somebody else may have finished or replaced the folder since the file was opened.
    held.filter(|file| is_at(file, &path)).with_context(|| {
        format!(
            "another backup is running in {}: wait for it, or choose another folder",
            draft.display()
        )
    })
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(found)) => (opened.dev(), opened.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// The database first: restored, it may then know less than the events, and repeats some runs; never does it count as delivered what
/// is not there.
async fn copy(backup: &Backup, settings: &Settings, service: &Service, folder: &Path) -> anyhow::Result<Manifest> {
    let database_file = copy_database(settings, service, folder).await?;
    let (events_file, events) = match settings.data.events_url {
        _ if backup.without_events => (None, None),
        None => copy_events(settings, folder.join(EVENTS)).await?,
        Some(_) => {
            let to = backup.events_to.as_deref().unwrap_or_default();
            store::clickhouse(settings)
                .await?
                .copy_to(to)
                .await
                .context("ClickHouse failed to back up the events")?;
            (None, None)
        }
    };
    Ok(Manifest {
        format: FORMAT,
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: service.clock().now().to_rfc3339(),
        instance: service.instance_uuid().await?,
        secret_key_id: hex::encode(service.instance().encryptor.id()),
        database: service.store().kind().to_owned(),
        database_file,
        events_file,
        events,
        are_events_in_clickhouse: backup.events_to.is_some(),
    })
}

async fn copy_database(settings: &Settings, service: &Service, folder: &Path) -> anyhow::Result<Copied> {
    if settings.sqlite_file().is_some() {
        let file = folder.join(DATABASE);
        service.store().copy_into(&file).await?;
        database::check_file(&file).await?;
        return Copied::of(folder, DATABASE);
    }
    let (url, folder) = (settings.database_url(), folder.to_owned());
    spawn_blocking(move || {
        let file = folder.join(DUMP);
        postgres::dump(&url, &file)?;
        postgres::check(&file)?;
        Copied::of(&folder, DUMP)
    })
    .await?
}

/// Copies and looks through the copy.
async fn copy_events(settings: &Settings, to: PathBuf) -> anyhow::Result<(Option<Copied>, Option<i64>)> {
    let from = store::file(settings);
    if !from.try_exists()? {
        bail!(
            "events not found at {}: use --without-events to leave them out",
            from.display()
        );
    }
    spawn_blocking(move || {
        events::sqlite::copy(&from, &to)?;
        let count = events::sqlite::check(&to)?;
        let folder = to.parent().unwrap_or(Path::new("."));
        Ok((Some(Copied::of(folder, EVENTS)?), Some(count)))
    })
    .await?
}

fn report(manifest: &Manifest, folder: &Path) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let events = match manifest.events {
        Some(count) => format!("{count} events"),
        None if manifest.are_events_in_clickhouse => {
            "the events by ClickHouse (restore them with --events-from)".to_owned()
        }
        None => "no events".to_owned(),
    };
    writeln!(out, "created and verified {}: the database, {events}", folder.display())?;
    writeln!(
        out,
        "The secret key is not included. Store a copy of it elsewhere: the backup cannot be restored without it."
    )?;
    Ok(())
}
