//! What every measurement needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{process, say};

/// Where what is measured is, and where it puts its files.
pub(super) struct Bench<'a> {
    /// Where `DuckDB`, chDB and the S3 server are installed.
    pub(super) components: PathBuf,
    pub(super) rows: &'a Path,
    pub(super) disk: &'a Path,
}

impl Bench<'_> {
    pub(super) fn versions(&self) -> Result<Vec<(&'static str, String)>> {
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
    pub(super) fn helper(&self) -> Command {
        let mut command = process::command(crate::target().join("release/bench"));
        command.env("TESTKIT_COMPONENTS", &self.components);
        command
    }
}

/// What a command printed, as JSON.
pub(super) fn json(command: &mut Command) -> Result<Value> {
    let printed = process::output(command)?;
    serde_json::from_str(&printed).with_context(|| format!("{command:?} printed no JSON: {printed}"))
}

pub(super) fn number(value: &Value, name: &str) -> Result<f64> {
    value[name]
        .as_f64()
        .with_context(|| format!("no number `{name}` in {value}"))
}

/// A measurement that failed leaves a gap in the table and does not end the run.
pub(super) fn kept<T>(what: &str, measured: Result<T>) -> Option<T> {
    measured
        .inspect_err(|error| say(&format!("not measured: {what}: {error:#}")))
        .ok()
}

#[expect(clippy::cast_precision_loss, reason = "counts far below what a float holds")]
pub(super) fn f64_of(count: u64) -> f64 {
    count as f64
}
