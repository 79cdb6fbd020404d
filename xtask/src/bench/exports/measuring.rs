//! What every measurement needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process;

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
