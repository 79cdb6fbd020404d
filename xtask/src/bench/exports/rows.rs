//! The same rows out of three stores into the same two kinds of files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::super::figures::{f64_of, json, kept, median, number};
use super::super::machine;
use super::measuring::Bench;
use crate::process;
use crate::say;

pub(super) const OURS: &str = "Hedgerow";
pub(super) const OURS_S3: &str = "Hedgerow, to S3";
pub(super) const DUCKDB: &str = "DuckDB";
pub(super) const CHDB: &str = "chDB";

/// The part that each peer is installed as, its script, and its name.
const PEERS: [(&str, &str, &str); 2] = [
    ("duckdb", "duckdb_copy.py", DUCKDB),
    ("clickhouse", "chdb_copy.py", CHDB),
];

/// The S3 server keeps its files in a few small volumes, so it gets no more rows than this.
const MAX_TO_S3: u64 = 2_000_000;

/// What takes less than this, in seconds, is done three times: a shared machine is now slow, now fast.
const SHORT: f64 = 30.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Parquet,
    Jsonl,
}

impl Form {
    pub(super) const ALL: [Self; 2] = [Self::Parquet, Self::Jsonl];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet, zstd",
            Self::Jsonl => "JSON Lines, gzip",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Jsonl => "jsonl",
        }
    }

    /// How a file's name ends; chDB packs as the end says.
    fn ending(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Jsonl => "jsonl.gz",
        }
    }
}

/// One process that wrote all rows once.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) engine: &'static str,
    pub(super) form: Form,
    pub(super) rows: u64,
    /// Seconds.
    pub(super) wall: f64,
    pub(super) cpu: f64,
    /// Megabytes: the most memory it had, and what it wrote.
    pub(super) peak: f64,
    pub(super) written: f64,
    /// The share of the processor that other programs took in the meantime.
    pub(super) others: f64,
}

impl Copied {
    pub(super) fn rate(&self) -> f64 {
        f64_of(self.rows) / self.wall
    }
}

impl Bench<'_> {
    /// Ours first; the peers then read the rows from the Parquet file that we wrote.
    pub(super) fn copies(&self, rows: u64, copies: &mut Vec<Copied>) -> Result<()> {
        say(&format!("{rows} rows"));
        let store = self.rows.join("events.sqlite");
        let (parquet, other) = (self.rows.join("parquet"), self.rows.join("other"));
        process::output(
            self.helper()
                .args(["fill", "--rows", &rows.to_string(), "--store"])
                .arg(&store),
        )?;
        let parquet_copied = self.ours(&store, &parquet, Form::Parquet, false)?;
        copies.push(checked(parquet_copied, rows)?);
        copies.extend(kept(OURS, self.ours(&store, &other, Form::Jsonl, false)));
        if rows <= MAX_TO_S3 {
            for form in Form::ALL {
                copies.extend(kept(OURS_S3, self.ours(&store, &other, form, true)));
            }
        }
        remove(&other)?;
        for file in files_in(self.rows, "events.sqlite")? {
            fs::remove_file(file)?;
        }
        let source = files_below(&parquet)?
            .into_iter()
            .find(|file| file.to_string_lossy().contains(".parquet"))
            .context("no Parquet file was written")?;
        for (part, script, name) in PEERS {
            kept(name, self.peer(part, script, name, &source, rows, copies));
        }
        remove(&parquet)
    }

    fn ours(&self, store: &Path, root: &Path, form: Form, is_s3: bool) -> Result<Copied> {
        middle(|| {
            remove(root)?;
            fs::create_dir_all(root)?;
            let mut command = self.helper();
            command.args(["deliver", "--form", form.key(), "--store"]).arg(store);
            command.arg("--root").arg(root).args(is_s3.then_some("--s3"));
            measured(if is_s3 { OURS_S3 } else { OURS }, form, &mut command)
        })
    }

    fn peer(
        &self,
        part: &str,
        script: &str,
        name: &'static str,
        source: &Path,
        rows: u64,
        copies: &mut Vec<Copied>,
    ) -> Result<()> {
        let store = self.rows.join(name);
        let run = || {
            let mut command = process::command(self.components.join(part).join("bin/python"));
            command.arg(crate::root().join("bench/exports").join(script));
            command
        };
        process::output(run().arg("load").arg(&store).arg(source))?;
        for form in Form::ALL {
            let file = self.rows.join(format!("copy.{}", form.ending()));
            let result = middle(|| {
                remove(&file)?;
                let mut command = run();
                command.arg("copy").arg(&store).arg(form.key()).arg(&file);
                checked(measured(name, form, &mut command)?, rows)
            });
            copies.extend(kept(name, result));
            remove(&file)?;
        }
        remove(&store)
    }
}

/// Of three copies the one that was neither the fastest nor the slowest; of a long one the first.
fn middle(mut copy: impl FnMut() -> Result<Copied>) -> Result<Copied> {
    let first = copy()?;
    if first.wall >= SHORT {
        return Ok(first);
    }
    median(vec![first, copy()?, copy()?], |copied| copied.wall).context("three copies")
}

/// Runs what prints its own measurements, and looks at what others do in the meantime.
fn measured(engine: &'static str, form: Form, command: &mut Command) -> Result<Copied> {
    let before = machine::times()?;
    let took = json(command)?;
    let cpu = number(&took, "cpu")?;
    let copied = Copied {
        engine,
        form,
        rows: took["rows"].as_u64().context("no `rows`")?,
        wall: number(&took, "wall")?,
        cpu,
        peak: number(&took, "peak")?,
        written: number(&took, "bytes")? / 1e6,
        others: machine::others(before, machine::times()?, cpu),
    };
    say(&format!(
        "  {engine:<16} {:<17} {:>9.0} rows/s, {:.1} s, {:.1} CPU s, peak {:.0} MB, others {:.0} %",
        form.title(),
        copied.rate(),
        copied.wall,
        copied.cpu,
        copied.peak,
        copied.others * 100.0
    ));
    Ok(copied)
}

fn checked(copied: Copied, rows: u64) -> Result<Copied> {
    anyhow::ensure!(copied.rows == rows, "{} of {rows} rows were written", copied.rows);
    Ok(copied)
}

fn remove(path: &Path) -> Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The files of a folder whose names begin like this: a database and what lies beside it.
fn files_in(folder: &Path, beginning: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(beginning))
        {
            found.push(path);
        }
    }
    Ok(found)
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}
