//! What can be told from the source alone.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::outcome::Outcome;
use crate::{cargo, process, root, tools};

pub(crate) fn format() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))
}

pub(crate) fn lints() -> Result<()> {
    run(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "--deny",
        "warnings",
    ]))
}

/// Licenses, sources and banned crates.
pub(crate) fn dependencies() -> Result<()> {
    run(tools::cargo_deny()?.args(["--log-level", "error", "check", "bans", "licenses", "sources"]))
}

/// Known vulnerabilities of dependencies. Where the database cannot be fetched, the copy fetched last is used; where there is none,
/// nothing was checked, and the summary says so.
pub(crate) fn advisories() -> Result<Outcome> {
    let check = ["--log-level", "error", "check", "--disable-fetch", "advisories"];
    if process::output(tools::cargo_deny()?.args(["fetch", "db"])).is_ok() {
        run(tools::cargo_deny()?.args(check))?;
        return Ok(Outcome::Passed);
    }
    if !has_advisory_database() {
        return Ok(Outcome::Skipped(
            "the advisory database cannot be fetched here and there is no earlier copy: run `cargo xtask check` online",
        ));
    }
    crate::say("   offline: checking against the copy of the advisory database that was fetched last");
    run(tools::cargo_deny()?.args(check))?;
    Ok(Outcome::Passed)
}

/// Whether cargo-deny keeps a copy: a folder for each database that it was told of.
fn has_advisory_database() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let copies = home.and_then(|home| std::fs::read_dir(home.join("advisory-dbs")).ok());
    copies.is_some_and(|copies| copies.flatten().any(|entry| entry.path().is_dir()))
}

/// The OpenAPI spec in the repository, as a linter sees it.
pub(crate) fn openapi_spec() -> Result<()> {
    let redocly = tools::redocly()?;
    let mut lint = Command::new(redocly);
    lint.current_dir(root()).env("REDOCLY_TELEMETRY", "off");
    run(lint.args([
        "lint",
        "docs/openapi.json",
        "--config",
        "xtask/redocly.yaml",
        "--max-problems",
        "20",
    ]))
}

/// Runs a command with its output shown.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
