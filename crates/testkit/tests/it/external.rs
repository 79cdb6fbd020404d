//! The external services do what our tests rely on.

mod browser;
mod clickhouse;
mod dns;
mod identity;
mod smtp;

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs a line of Python: a second opinion, by other people's code.
fn python(code: &str, arguments: &[&str]) -> Output {
    let parts = std::env::var_os("TESTKIT_COMPONENTS").expect("run `cargo xtask test`, or set TESTKIT_COMPONENTS");
    let mut python = Command::new(PathBuf::from(parts).join("python/bin/python"));
    python.arg("-c").arg(code).args(arguments).output().unwrap()
}
