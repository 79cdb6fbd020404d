//! Tries the Debian package: installs, starts, upgrades, removes and purges it in a copy of this machine.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::deb;
use super::release::Dist;
use crate::{checks, packaging, process, root, say};

/// Higher than any version of ours.
const NEWER: &str = "9999.0-1";

pub(super) fn check(dist: &Dist, package: &Path, work: &Path) -> Result<()> {
    ensure!(
        process::is_root()?,
        "installing a package takes root: run `sudo -E cargo xtask dist --check`"
    );
    ensure!(
        dist.cross.is_none(),
        "a package for another platform cannot be tried here"
    );
    say("\n── the Debian package, installed and started");
    let newer = deb::package(dist, Some((NEWER, work)))?;
    let overlay = work.join("overlay");
    fs::create_dir_all(&overlay)?;
    let metrics = work.join("metrics");
    let mut script = process::command("unshare");
    script
        .args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"])
        // What the script has to hand over goes to its descriptor 4.
        .args(["--", "sh", "-c", "exec bash \"$@\" 4>\"$METRICS\"", "sh"])
        .arg(root().join("xtask/src/dist/install.sh"))
        .args([&overlay, package, &newer])
        .arg(process::free_port()?.to_string())
        .env("METRICS", &metrics);
    checks::run(&mut script)?;
    packaging::compare_with_page(&fs::read_to_string(metrics)?)
}
