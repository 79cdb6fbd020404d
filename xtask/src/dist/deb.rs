//! The Debian package; what is in it is written in `crates/server/Cargo.toml`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::release::Dist;
use crate::{process, tools};

/// Makes the package of what was collected; of another version in another folder, to try an upgrade.
pub(super) fn package(dist: &Dist, newer: Option<(&str, &Path)>) -> Result<PathBuf> {
    // It asks this program which libraries, and so which other packages, the binary needs.
    process::need(Path::new("dpkg-shlibdeps"), "dpkg-dev")?;
    let mut deb = tools::cargo_deb()?;
    deb.args(["--package", "server", "--no-build", "--no-strip", "--locked", "--quiet"])
        .env("CARGO_TARGET_DIR", &dist.stage)
        .env("SOURCE_DATE_EPOCH", &dist.epoch);
    if let Some(triple) = &dist.cross {
        deb.args(["--target", triple]);
    }
    match newer {
        Some((version, folder)) => deb.args(["--fast", "--deb-version", version, "--output"]).arg(folder),
        None => deb.arg("--output").arg(&dist.out),
    };
    // It prints where it put the package.
    let said = process::output(&mut deb)?;
    let path = said.lines().last().map(|line| PathBuf::from(line.trim()));
    path.filter(|path| path.is_file())
        .context("cargo-deb does not say where the package is")
}
