//! PostgreSQL is copied by its own programs.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use percent_encoding::percent_decode_str;
use url::Url;

pub(super) fn dump(url: &str, file: &Path) -> anyhow::Result<()> {
    run(program("pg_dump", Some(url))?
        .arg("--format=custom")
        .arg("--file")
        .arg(file))
}

/// Reads all of a dump.
pub(super) fn check(file: &Path) -> anyhow::Result<()> {
    run(program("pg_restore", None)?.arg("--file=/dev/null").arg(file))
}

/// All or nothing, into a database that has no tables.
pub(super) fn restore(url: &str, file: &Path) -> anyhow::Result<()> {
    let mut restore = program("pg_restore", Some(url))?;
    restore.args([
        "--single-transaction",
        "--exit-on-error",
        "--no-owner",
        "--no-privileges",
    ]);
    run(restore.arg(file)).context("the database must be empty")
}

/// A password on the command line would be seen by everybody on this machine.
fn program(name: &str, url: Option<&str>) -> anyhow::Result<Command> {
    let mut command = Command::new(name);
    let Some(url) = url else { return Ok(command) };
    let mut url = Url::parse(url).context("the address of the database is not a URL")?;
    if let Some(password) = url.password() {
        let password = percent_decode_str(password).decode_utf8()?.into_owned();
        command.env("PGPASSWORD", password);
        ensure!(
            url.set_password(None).is_ok(),
            "the address of the database is not a URL"
        );
    }
    command.arg("--dbname").arg(url.as_str());
    Ok(command)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command.stdin(Stdio::null()).output().with_context(|| {
        format!("cannot start {name}: it comes with PostgreSQL's own programs (postgresql-client in Debian)")
    })?;
    if !ended.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(())
}
