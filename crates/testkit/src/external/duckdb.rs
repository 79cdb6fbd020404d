//! `DuckDB`, which reads files that are not its own.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs SQL and returns the rows of the last statement: a list for each, with times as text. Files packed with brotli
/// are unpacked first, beside themselves.
pub fn duckdb(sql: &str, brotli: &[PathBuf]) -> Vec<Vec<Value>> {
    let mut command = Command::new(super::folder().join("duckdb/bin/python"));
    let mut child = command
        .arg(super::script("run_sql.py"))
        .args(brotli)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask components` installs it"));
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(sql.as_bytes()).expect("it reads what it is told");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sql}: {said}");
    serde_json::from_slice(&output.stdout).expect("rows as JSON")
}
