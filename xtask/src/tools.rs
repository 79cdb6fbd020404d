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
    Ok(python("schemathesis", &[SCHEMATHESIS])?.join("schemathesis"))
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
    Ok(npm("redocly", &[REDOCLY])?.join(".bin/redocly"))
}

/// Installs npm packages into a folder of their own and returns where they are.
pub(crate) fn npm(name: &str, packages: &[&str]) -> Result<PathBuf> {
    process::need(Path::new("npm"), "npm")?;
    let folder = installed(name, packages, |folder| {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--no-fund",
            "--no-audit",
            "--ignore-scripts",
            "--save-exact",
            "--prefix",
        ])
        .arg(folder)
        .args(packages);
        process::output(&mut npm)
    })?;
    Ok(folder.join("node_modules"))
}

/// Installs Python packages into an environment of their own and returns where its programs are.
pub(crate) fn python(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = installed(name, packages, |folder| {
        let mut venv = Command::new("python3");
        if process::output(venv.args(["-m", "venv"]).arg(folder)).is_err() {
            process::need(Path::new("/usr/share/doc/python3-venv/copyright"), "python3-venv")?;
            process::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        }
        let mut pip = Command::new(folder.join("bin/pip"));
        process::output(pip.args(["install", "--quiet"]).args(packages))
    })?;
    Ok(folder.join("bin"))
}

/// Unpacks Debian packages without what they depend on, which may be a server that starts by itself.
pub(crate) fn unpacked(name: &str, packages: &[&str]) -> Result<()> {
    installed(name, packages, |folder| {
        process::apt_get(folder, &[&["download", "--quiet"], packages].concat())?;
        let mut unpack = Command::new("sh");
        process::output(unpack.current_dir(folder).args([
            "-c",
            "for each in ./*.deb; do dpkg -x $each . || exit; done && rm ./*.deb",
        ]))
    })?;
    Ok(())
}

/// Installs unless just these versions are there. A half-done installation leaves no mark and is begun anew.
fn installed(name: &str, packages: &[&str], install: impl FnOnce(&Path) -> Result<String>) -> Result<PathBuf> {
    let folder = root().join(".components").join(name);
    let (mark, wanted) = (folder.join("installed"), packages.join(" "));
    if fs::read_to_string(&mark).is_ok_and(|versions| versions == wanted) {
        return Ok(folder);
    }
    say(&format!("installing {wanted}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    install(&folder).with_context(|| format!("cannot install {wanted}"))?;
    fs::write(&mark, wanted)?;
    Ok(folder)
}
