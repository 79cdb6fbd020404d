//! Hedgerow: administers organizations and what belongs to them.

mod backup;
mod cleanup;
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
use clap::{CommandFactory, Parser, Subcommand};
use mimalloc::MiMalloc;
use rustix::process::DumpableBehavior;

use crate::settings::Settings;

/// Requests allocate a lot, and this is faster at it than the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What threads get to end when everything else has.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Self-hosted event pipeline and organization management.
///
/// A setting is read from its flag, then from the environment (such as `HEDGEROW_DATA_DIR` for --data-dir), then from the
/// file in --config (default: ./hedgerow.toml, if it exists).
#[derive(Debug, Parser)]
#[command(name = "hedgerow", version = env!("BUILD_VERSION"), max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (default).
    Serve,
    /// Run a worker: only exports and apps, without the API. Any number of workers share the work.
    Work,
    /// Migrate the database and exit; `serve` does this automatically.
    Migrate,
    /// Manage users.
    #[command(subcommand)]
    Users(commands::users::Command),
    /// Manage personal API keys.
    #[command(subcommand)]
    Keys(commands::keys::Command),
    /// Manage organizations, their members and their access to apps.
    #[command(subcommand)]
    Organizations(commands::organizations::Command),
    /// Manage the operators of this instance.
    #[command(subcommand)]
    Operators(commands::operators::Command),
    /// List verified domains, and disable SSO enforcement after a lockout.
    #[command(subcommand)]
    Domains(commands::domains::Command),
    /// Rotate the key that encrypts secrets in the database.
    #[command(subcommand)]
    SecretKey(commands::secret_key::Command),
    /// Import events from files.
    #[command(subcommand)]
    Events(commands::events::Command),
    /// Back up the database and the events to a folder while servers run, and verify the backup.
    Backup(backup::Backup),
    /// Restore a backup into an empty installation.
    Restore(backup::Restore),
    /// Verify exported files against their manifest, offline.
    Verify { manifest: PathBuf },
    /// Print the OpenAPI spec.
    Openapi,
    /// Check whether the local server is ready, using the same settings.
    Health,
    /// Print shell completions.
    Completions { shell: clap_complete::Shell },
    /// Write the man pages to a folder.
    #[command(hide = true)]
    Man { folder: PathBuf },
    /// Runs one app in a sandbox; started by the server.
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
        .context("cannot protect the server's memory from other processes")?;
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
        Command::Health => commands::health::run(&settings),
        Command::Completions { shell } => commands::manual::completions(Arguments::command(), shell),
        Command::Man { folder } => commands::manual::man_pages(Arguments::command(), &folder),
        Command::Sandbox => {
            anyhow::bail!("the server starts this automatically: `hedgerow sandbox` takes no arguments")
        }
    }
}
