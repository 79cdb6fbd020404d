//! `cargo xtask bench build`: what a new user waits for. A release build from nothing, and how long each crate takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{document, machine};
use crate::{cargo, process, root, say, target};

/// What it may take, and how much of that on one core.
const MAX: Duration = Duration::from_mins(15);
const MAX_PROCESSOR: Duration = Duration::from_mins(25);
/// What a crate of ours may take. Others are listed when they take as long.
const MAX_OF_CRATE: f64 = 60.0;

struct Build {
    took: Duration,
    processor: Duration,
    /// Of the binary.
    bytes: u64,
    /// Seconds of each crate, the longest first.
    crates: Vec<(String, f64)>,
}

/// Measures and writes the report into docs.
pub(crate) fn first_build() -> Result<()> {
    let folder = target().join("first-build");
    empty(&folder)?;
    let facts = machine::facts(&root(), &root())?;
    machine::wait_for_quiet()?;
    say("building from nothing");
    let build = measure(&folder)?;
    let file = root().join("docs/benchmarks.md");
    let written = document::replaced(&fs::read_to_string(&file)?, "build", &markdown(&facts, &build)?)?;
    fs::write(&file, written)?;
    say(&format!("written: {}", file.display()));
    keep(&folder)
}

/// What was built serves the other benchmarks, if there is no release build yet.
fn keep(folder: &Path) -> Result<()> {
    let release = target().join("release");
    if !release.exists() {
        fs::rename(folder.join("release"), release)?;
    }
    empty(folder)
}

fn empty(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn measure(folder: &Path) -> Result<Build> {
    // Downloads are no part of it.
    process::output(cargo().args(["fetch", "--locked"]))?;
    let (started, before) = (Instant::now(), processor_time_of_children()?);
    process::output(
        cargo()
            .args(["build", "--release", "--timings", "--target-dir"])
            .arg(folder),
    )?;
    let (took, processor) = (started.elapsed(), processor_time_of_children()?.saturating_sub(before));
    Ok(Build {
        took,
        processor,
        bytes: fs::metadata(folder.join("release/hedgerow"))?.len(),
        crates: seconds_of_crates(&fs::read_to_string(folder.join("cargo-timings/cargo-timing.html"))?)?,
    })
}

/// Of all that have ended.
fn processor_time_of_children() -> Result<Duration> {
    /// Ticks of the clock in a second, which Linux shows to programs on every processor.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may have spaces: the children's times are the 14th and 15th.
    let (_, rest) = stat.rsplit_once(')').context("no name in /proc/self/stat")?;
    let ticks: f64 = rest
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    Ok(Duration::from_secs_f64(ticks / TICKS))
}

/// The report that cargo writes for browsers has its numbers as JSON in a script. A crate may have several: itself, its build
/// script, and the run of that.
fn seconds_of_crates(report: &str) -> Result<Vec<(String, f64)>> {
    let (_, units) = report
        .split_once("const UNIT_DATA = ")
        .context("cargo's report has no UNIT_DATA")?;
    let units: Value = serde_json::Deserializer::from_str(units)
        .into_iter()
        .next()
        .context("UNIT_DATA is empty")??;
    let mut seconds: BTreeMap<String, f64> = BTreeMap::new();
    for unit in units.as_array().context("UNIT_DATA is no list")? {
        let name = unit["name"].as_str().context("a unit without a name")?;
        *seconds.entry(name.to_owned()).or_default() += unit["duration"].as_f64().unwrap_or(0.0);
    }
    let mut crates: Vec<(String, f64)> = seconds.into_iter().collect();
    crates.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(crates)
}

fn is_ours(name: &str) -> bool {
    let folder: PathBuf = root().join("crates").join(name);
    folder.is_dir()
}

fn markdown(facts: &[(&'static str, String)], build: &Build) -> Result<String> {
    let mut text = "## The first build\n\nMeasured by `cargo xtask bench build`: `cargo build --release` with an empty target \
                    folder and all downloads there. Crates of ours, and others that take a minute or more; two are compiled at \
                    a time, so that their times add up to more than it takes.\n\n| | |\n| --- | --- |\n"
        .to_owned();
    for (name, value) in facts {
        writeln!(text, "| {name} | {value} |")?;
    }
    writeln!(
        text,
        "| It takes | {} (target: {}) |",
        minutes(build.took),
        minutes(MAX)
    )?;
    writeln!(
        text,
        "| Processor time | {} (target: {}) |",
        minutes(build.processor),
        minutes(MAX_PROCESSOR)
    )?;
    writeln!(text, "| The binary | {} MB |", build.bytes / 1_000_000)?;
    writeln!(text, "\n| crate | seconds | |\n| --- | ---: | --- |")?;
    for (name, seconds) in &build.crates {
        let note = match (is_ours(name), *seconds > MAX_OF_CRATE) {
            (true, true) => "ours, over its target of 60 s",
            (true, false) => "ours",
            (false, true) => "",
            (false, false) => continue,
        };
        writeln!(text, "| {name} | {seconds:.0} | {note} |")?;
    }
    Ok(text)
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02} minutes", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_crate_are_added_up() -> Result<()> {
        let report = r#"<script>const UNIT_DATA = [{"name":"api","duration":2.5},{"name":"ring","duration":4.0},
            {"name":"ring","duration":1.0}];
            const CONCURRENCY_DATA = [];</script>"#;
        let crates = seconds_of_crates(report)?;
        assert_eq!(crates, [("ring".to_owned(), 5.0), ("api".to_owned(), 2.5)]);
        assert!(seconds_of_crates("<html>").is_err());
        Ok(())
    }

    #[test]
    fn time_is_in_minutes() {
        assert_eq!(minutes(Duration::from_secs(61)), "1:01 minutes");
    }
}
