//! `cargo xtask bench exports`: rows out of the store against `DuckDB` and chDB, and the schedule.

mod measuring;
mod options;
mod report;
mod results;
mod rows;
mod server;
mod targets;

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::figures::kept;
use super::{disk_folder, document, machine};
use crate::process::{self, WorkDir};
use crate::say;
use measuring::Bench;
use options::Options;
use results::Report;

/// Measures everything and writes the report. `arguments` are those behind `bench exports`.
pub(crate) fn exports(arguments: &[String]) -> Result<()> {
    let options = Options::read(arguments)?;
    say("building");
    process::output(crate::cargo().args(["build", "--release", "--workspace"]))?;
    // The rows go where temporary files go; what has to survive a crash goes to a disk.
    let (rows, disk) = (WorkDir::new("bench-exports")?, disk_folder()?);
    let mut report = Report {
        command: ["cargo xtask bench exports".to_owned()]
            .into_iter()
            .chain(arguments.iter().cloned())
            .collect::<Vec<_>>()
            .join(" "),
        facts: machine::facts(&crate::root(), &rows.0)?,
        ..Report::default()
    };
    let bench = Bench {
        components: components(),
        rows: &rows.0,
        disk: &disk.0,
    };
    report.facts.extend(bench.versions()?);
    if options.wants("schedule") {
        report.tick = kept("the schedule", bench.schedule());
        report.carried_out = kept("runs carried out", bench.carry_out());
    }
    if options.wants("rows") {
        for &count in &options.rows {
            // Whatever was measured is written down, even if the next size has no room.
            kept("rows", bench.copies(count, &mut report.copies));
            write(&report, &options)?;
        }
    }
    write(&report, &options)
}

fn components() -> PathBuf {
    std::env::var_os("TESTKIT_COMPONENTS").map_or_else(|| crate::root().join(".components"), PathBuf::from)
}

fn write(report: &Report, options: &Options) -> Result<()> {
    let folder = if options.only.is_empty() {
        crate::root().join("docs")
    } else {
        crate::target().join("bench")
    };
    fs::create_dir_all(&folder)?;
    let file = folder.join("benchmarks.md");
    let before = if file.exists() {
        fs::read_to_string(&file)?
    } else {
        String::new()
    };
    let section = document::replaced(&before, "exports", &report.markdown())?;
    fs::write(&file, section)?;
    fs::write(folder.join("benchmarks-exports.svg"), report.plot().svg())?;
    say(&format!("written: {}", file.display()));
    Ok(())
}
