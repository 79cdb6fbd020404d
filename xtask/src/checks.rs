//! What can be told from the source alone.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::{cargo, root, tools};

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

/// Licences, sources and banned crates. The list of advisories needs a network that CI does not have.
pub(crate) fn dependencies() -> Result<()> {
    run(tools::cargo_deny()?.args(["--log-level", "error", "check", "bans", "licenses", "sources"]))
}

/// The OpenAPI document in the repository, as a linter sees it.
pub(crate) fn document() -> Result<()> {
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
