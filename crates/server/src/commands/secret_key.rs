use std::io::{Write, stdout};

use anyhow::{bail, ensure};
use clap::Subcommand;

use crate::secret_key;
use crate::settings::Settings;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show how many secrets are encrypted with the newest key, and how many with older ones.
    Status,
    /// Put a new key in front of those in `secret.key`; running servers know it after a restart.
    Add,
    /// Encrypt everything with the newest key. It can be interrupted, and started again.
    Rotate,
    /// Take the older keys out of `secret.key`, if nothing is encrypted with them any more.
    Prune,
}

impl Command {
    pub(crate) async fn run(self, settings: &Settings) -> anyhow::Result<()> {
        let mut out = stdout();
        match self {
            Self::Status => {}
            Self::Add => {
                secret_key::add(in_file(settings)?)?;
                writeln!(
                    out,
                    "added a key: restart all servers, then run `hedgerow secret-key rotate`"
                )?;
                return Ok(());
            }
            Self::Rotate => {
                let changed = super::service(settings).await?.rotate_secret_key().await?;
                writeln!(out, "encrypted {changed} secrets again")?;
            }
            Self::Prune => {
                let file = in_file(settings)?;
                let older = super::service(settings).await?.secret_key_use().await?.older;
                ensure!(
                    older == 0,
                    "{older} secrets are still encrypted with an older key: run `hedgerow secret-key rotate` first"
                );
                secret_key::prune(file)?;
            }
        }
        let used = super::service(settings).await?.secret_key_use().await?;
        writeln!(
            out,
            "with the newest key: {}\nwith older keys: {}",
            used.newest, used.older
        )?;
        Ok(())
    }
}

fn in_file(settings: &Settings) -> anyhow::Result<&std::path::Path> {
    if !settings.secret_key.is_empty() {
        bail!("HEDGEROW_SECRET_KEY is set, so keys are changed there: the newest first, with commas between");
    }
    Ok(&settings.data_dir)
}
