//! What developers and CI run: `cargo xtask test`, `components`, `browser`, `screenshots`, `check`, `packaging`, `dist`, `bench`.

mod bench;
mod browser;
mod cargo_test;
mod checks;
mod components;
mod dist;
mod docs;
mod http;
mod live;
mod packaging;
mod postgres;
mod process;
mod test;
mod tools;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

const USAGE: &str = "cargo xtask test    install what the tests need, start the real components, run everything
cargo xtask components   install the real mail, name and identity servers and the browser, and nothing else
cargo xtask browser [NAME]…    the console in a real browser: all journeys and pages, or those of these names
cargo xtask screenshots        pictures of the console, into docs/screenshots
cargo xtask check   format, lints, licenses, documentation: what needs no component
cargo xtask packaging          units, container files, chart, dashboard and alerts, each checked by the program it is for
cargo xtask dist [--binary FILE] [--target TRIPLE] [--check]    packages into target/dist; --check installs one (as root)
cargo xtask bench api [--growth] [--quick] [--only NAME]    measure, and write docs/benchmarks.md
cargo xtask bench exports [--rows NUMBER] [--only NAME]     the same for events in and rows out
cargo xtask bench apps                                      the same for apps
cargo xtask bench console                                   the same for the console's pages";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => test::everything(),
        ["components"] => test::components_only(),
        ["browser", ..] => browser::journeys_alone(&arguments[1..]),
        ["screenshots"] => browser::screenshots(),
        ["check"] => test::checks_only(),
        ["packaging"] => test::packaging_only(),
        ["dist", ..] => dist::dist(&arguments[1..]),
        ["bench", "api", ..] => bench::api(&arguments[2..]),
        ["bench", "exports", ..] => bench::exports(&arguments[2..]),
        ["bench", "apps"] => bench::apps(),
        ["bench", "console"] => bench::console(),
        _ => bail!("use one of\n{USAGE}"),
    }
}

/// Progress goes to the error stream, so that nothing mixes with output someone may want to keep.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}

/// Where cargo puts what it builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |target| root().join(target))
}

/// Cargo, as if called from a shell: what it told us about ourselves would make it build some crates again.
fn cargo() -> Command {
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
