//! Hedgerow: administers organizations and what belongs to them.

mod backup;
mod commands;
mod connections;
mod data_folder;
mod deleted_teams;
mod deps;
mod modes;
mod networks;
mod open_files;
mod operation;
mod secret_key;
mod serve;
mod settings;
mod store;
mod telemetry;
mod work;
mod write_limit;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use rustix::process::DumpableBehavior;

use crate::settings::Settings;

/// Requests allocate a lot, and this is faster at it than the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What threads get to end when everything else has.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// A self-hosted server for administering organizations.
///
/// Each setting is taken from its flag, else from the environment, else from the file that --config names
/// (./hedgerow.toml unless given, if it is there).
#[derive(Debug, Parser)]
#[command(name = "hedgerow", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API (what happens without any command).
    Serve,
    /// Carry out exports, run apps, and nothing else; any number of these share the work.
    Work,
    /// Bring the database up to date and exit; `serve` does it by itself.
    Migrate,
    /// Make and list users.
    #[command(subcommand)]
    Users(commands::users::Command),
    /// Make, list, roll and delete personal API keys.
    #[command(subcommand)]
    Keys(commands::keys::Command),
    /// Make and list organizations, add members to them, and set what they can do with apps.
    #[command(subcommand)]
    Organizations(commands::organizations::Command),
    /// List, add and remove the operators of this instance.
    #[command(subcommand)]
    Operators(commands::operators::Command),
    /// List verified domains, and end enforced single sign-on when nobody gets in.
    #[command(subcommand)]
    Domains(commands::domains::Command),
    /// Replace the key that secrets in the database are encrypted with.
    #[command(subcommand)]
    SecretKey(commands::secret_key::Command),
    /// Bring events in from files.
    #[command(subcommand)]
    Events(commands::events::Command),
    /// Copy the database and the events into a folder, while servers run, and read the copy back.
    Backup(backup::Backup),
    /// Bring a backup back, where nothing is yet.
    Restore(backup::Restore),
    /// Check delivered files against the manifest beside them, offline.
    Verify { manifest: PathBuf },
    /// Print the OpenAPI document.
    Openapi,
    /// Runs one app at arm's length; started by the server itself.
    #[command(hide = true)]
    Sandbox,
}

fn main() -> anyhow::Result<()> {
    // Before anything else is read or opened: whoever runs in there shall find nothing.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|command| command == deps::SANDBOX)
    {
        sandbox::child();
    }
    modes::restrict();
    // Secrets are in the memory and the environment of this process, and are not to be had from there.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("the system does not let the server keep its memory to itself")?;
    let arguments = settings::read::<Arguments>()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(arguments));
    // A thread that is still computing keeps nobody waiting.
    runtime.shutdown_timeout(LAST_MOMENT);
    outcome
}

async fn run(Arguments { command, settings }: Arguments) -> anyhow::Result<()> {
    match command.unwrap_or(Command::Serve) {
        Command::Serve => serve::serve(settings).await,
        Command::Work => work::work(settings).await,
        Command::Migrate => commands::migrate(&settings).await,
        Command::Users(command) => command.run(&commands::service(&settings).await?).await,
        Command::Keys(command) => command.run(&commands::service(&settings).await?).await,
        Command::Organizations(command) => command.run(&commands::service(&settings).await?).await,
        Command::Operators(command) => command.run(&commands::service(&settings).await?).await,
        Command::Domains(command) => command.run(&commands::service(&settings).await?).await,
        Command::SecretKey(command) => command.run(&settings).await,
        Command::Events(command) => command.run(&settings).await,
        Command::Backup(backup) => backup.run(&settings).await,
        Command::Restore(restore) => restore.run(&settings).await,
        Command::Verify { manifest } => commands::verify::run(&manifest),
        Command::Openapi => commands::openapi(),
        Command::Sandbox => anyhow::bail!("the server starts this by itself: `hedgerow sandbox` and nothing else"),
    }
}
