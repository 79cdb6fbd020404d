//! `cargo xtask bench exports`: rows out of the store against `DuckDB` and chDB, events in, and the schedule.

mod options;
mod report;
mod rows;
mod server;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{machine, plot};
use crate::process::{self, WorkDir};
use crate::say;
use options::Options;
use report::Report;
use rows::Copied;

/// Exports that are due at the same full hour.
const EXPORTS: u32 = 100_000;

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
    }
    if options.wants("ingest") {
        report.ingest = kept("ingest", bench.ingest());
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

/// What every measurement needs.
struct Bench<'a> {
    /// Where `DuckDB`, chDB and the S3 server are installed.
    components: PathBuf,
    rows: &'a Path,
    disk: &'a Path,
}

impl Bench<'_> {
    fn versions(&self) -> Result<Vec<(&'static str, String)>> {
        let said = |part: &str, program: &str| {
            process::output(Command::new(self.components.join(part).join("bin/python")).args(["-c", program]))
                .map(|said| said.trim().to_owned())
        };
        Ok(vec![
            ("DuckDB", said("duckdb", "import duckdb; print(duckdb.__version__)")?),
            ("chDB", said("clickhouse", "import chdb; print(chdb.__version__)")?),
        ])
    }

    /// The testkit's program, with the external services where they are.
    fn helper(&self) -> Command {
        let mut command = process::command(crate::target().join("release/bench"));
        command.env("TESTKIT_COMPONENTS", &self.components);
        command
    }
}

/// What a command printed, as JSON.
fn json(command: &mut Command) -> Result<Value> {
    let printed = process::output(command)?;
    serde_json::from_str(&printed).with_context(|| format!("{command:?} printed no JSON: {printed}"))
}

fn number(value: &Value, name: &str) -> Result<f64> {
    value[name]
        .as_f64()
        .with_context(|| format!("no number `{name}` in {value}"))
}

/// A measurement that failed leaves a gap in the table and does not end the run.
fn kept<T>(what: &str, measured: Result<T>) -> Option<T> {
    measured
        .inspect_err(|error| say(&format!("not measured: {what}: {error:#}")))
        .ok()
}

fn components() -> PathBuf {
    std::env::var_os("TESTKIT_COMPONENTS").map_or_else(|| crate::root().join(".components"), PathBuf::from)
}

/// A folder that is on a disk even where temporary files are kept in memory; gone when dropped. The database server,
/// another user, must be able to get in.
fn disk_folder() -> Result<WorkDir> {
    let folder = Path::new("/var/tmp").join(format!("hedgerow-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(WorkDir(folder))
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
    let section = super::report::replaced(&before, "exports", &report.markdown())?;
    fs::write(&file, section)?;
    fs::write(folder.join("benchmarks-exports.svg"), report.plot().svg())?;
    say(&format!("written: {}", file.display()));
    Ok(())
}

/// The bars of one size and form.
fn group(copies: &[Copied], rows: u64, form: rows::Form) -> plot::Group {
    let of = copies
        .iter()
        .filter(|copied| copied.rows == rows && copied.form == form);
    plot::Group {
        title: format!("{}, {} rows", form.title(), super::report::grouped(f64_of(rows))),
        bars: of.map(|copied| (copied.engine.to_owned(), copied.rate())).collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below what a float holds")]
fn f64_of(count: u64) -> f64 {
    count as f64
}
