//! Tools that are not Rust's, each in a folder of its own below `.components`, in a fixed version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, process, root, say};

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const CARGO_DENY: &str = "cargo-deny@0.20.2";
const REDOCLY: &str = "@redocly/cli@2.73.0";

/// Sends requests made from a schema.
pub(crate) fn schemathesis() -> Result<PathBuf> {
    Ok(python(SCHEMATHESIS)?.join("schemathesis"))
}

/// Checks licences, sources and banned crates. Takes minutes to build, so it goes where cargo keeps programs.
pub(crate) fn cargo_deny() -> Result<Command> {
    if process::output(cargo().args(["deny", "--version"])).is_err() {
        say(&format!("installing {CARGO_DENY}"));
        process::output(cargo().args(["install", "--locked", "--quiet", CARGO_DENY]))?;
    }
    let mut command = cargo();
    command.arg("deny");
    Ok(command)
}

/// Checks OpenAPI documents.
pub(crate) fn redocly() -> Result<PathBuf> {
    process::need(Path::new("npm"), "npm")?;
    let folder = installed(REDOCLY, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-fund", "--no-audit", "--prefix"])
            .arg(folder)
            .arg(REDOCLY);
        process::output(&mut npm)
    })?;
    Ok(folder.join("node_modules/.bin/redocly"))
}

/// Installs a Python package into an environment of its own and returns where its programs are.
fn python(package: &str) -> Result<PathBuf> {
    let folder = installed(package, |folder| {
        let mut venv = Command::new("python3");
        if process::output(venv.args(["-m", "venv"]).arg(folder)).is_err() {
            process::need(Path::new("/usr/share/doc/python3-venv/copyright"), "python3-venv")?;
            process::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        }
        process::output(Command::new(folder.join("bin/pip")).args(["install", "--quiet", package]))
    })?;
    Ok(folder.join("bin"))
}

/// Installs unless that was done before. A half-done installation leaves no mark and is begun anew.
fn installed(package: &str, install: impl FnOnce(&Path) -> Result<String>) -> Result<PathBuf> {
    let name: String = package
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let folder = root().join(".components").join(name);
    let mark = folder.join("installed");
    if !mark.exists() {
        say(&format!("installing {package}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        install(&folder).with_context(|| format!("cannot install {package}"))?;
        fs::write(&mark, "")?;
    }
    Ok(folder)
}
