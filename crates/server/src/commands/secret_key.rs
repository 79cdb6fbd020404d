use std::io::{Write, stdout};

use anyhow::{bail, ensure};
use clap::Subcommand;

use crate::secret_key;
use crate::settings::Settings;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show how many secrets are encrypted with the newest key and with older keys.
    Status,
    /// Add a new key to `secret.key`. Restart running servers to load it.
    Add,
    /// Re-encrypt all secrets with the newest key. It can be interrupted and restarted.
    Rotate,
    /// Remove older keys from `secret.key`, if nothing is encrypted with them anymore.
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
                writeln!(out, "re-encrypted {changed} secrets")?;
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
        bail!("HEDGEROW_SECRET_KEY is set, so change the keys there: the newest first, separated by commas");
    }
    Ok(&settings.data_dir)
}
