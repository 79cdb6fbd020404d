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
mod outcome;
mod packaging;
mod postgres;
mod process;
mod test;
mod tools;
mod workspace;

pub(crate) use workspace::{cargo, linting_cargo, root, say, target};

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "cargo xtask test    install what the tests need, start the real components, run everything
cargo xtask test --fast  most tests, without those that wait for many components: before a commit
cargo xtask components   install the real mail, name and identity servers and the browser, and nothing else
cargo xtask browser [NAME]…    the console in a real browser: all journeys and pages, or those of these names
cargo xtask screenshots        pictures of the console, into docs/screenshots
cargo xtask check   format, lints, licenses, documentation: what needs no component
cargo xtask packaging          units, container files, chart, dashboard and alerts, each checked by the program it is for
cargo xtask dist [--binary FILE] [--target TRIPLE] [--check]    packages into target/dist; --check installs one (as root)
cargo xtask bench api [--growth] [--quick] [--only NAME]    measure, and write docs/benchmarks.md
cargo xtask bench ingest                                    the same for events in
cargo xtask bench exports [--rows NUMBER] [--only NAME]     the same for rows out, and for the schedule
cargo xtask bench apps                                      the same for apps
cargo xtask bench console                                   the same for the console's pages
cargo xtask bench build                                     how long the first build takes, and each crate of it";

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
        ["test", "--fast"] => test::fast(),
        ["components"] => test::components_only(),
        ["browser", ..] => browser::journeys_alone(&arguments[1..]),
        ["screenshots"] => browser::screenshots(),
        ["check"] => test::checks_only(),
        ["packaging"] => test::packaging_only(),
        ["dist", ..] => dist::dist(&arguments[1..]),
        ["bench", "api", ..] => bench::api(&arguments[2..]),
        ["bench", "ingest"] => bench::ingest(),
        ["bench", "exports", ..] => bench::exports(&arguments[2..]),
        ["bench", "apps"] => bench::apps(),
        ["bench", "console"] => bench::console(),
        ["bench", "build"] => bench::first_build(),
        _ => bail!("use one of\n{USAGE}"),
    }
}
