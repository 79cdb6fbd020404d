//! This repository: where it is, cargo in it, and how progress is told.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Progress goes to the error stream, so that nothing mixes with output someone may want to keep.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |target| root().join(target))
}

/// Cargo, as if called from a shell: what it told us about ourselves would make it build some crates again.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let is_about_us = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
            "CARGO_PRIMARY_",
        ];
        if is_about_us
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command.current_dir(root());
    command
}

/// Cargo with a compiler that refuses what the lints warn of: dependencies are built once for lints and tests, and our own crates
/// compiled once. `cargo clippy` does the same without making programs. The variables are those it sets.
pub(crate) fn linting_cargo() -> Command {
    let mut command = cargo();
    command
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}
