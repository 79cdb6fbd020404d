//! `cargo test`, and once more by themselves the few tests that failed beside thousands of others.
//!
//! A test that waits for a real component may run out of time on a busy machine. It is run again alone: if it fails again, so does
//! the step; if not, the summary names it, so that somebody gives it the time it needs.

use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::linting_cargo;
use crate::outcome::Outcome;

/// More than this many failures are no coincidence.
const MOST_RERUN: usize = 3;

/// Runs all tests with what `prepare` adds to the command.
pub(crate) fn run(prepare: impl Fn(&mut Command)) -> Result<Outcome> {
    let mut all = linting_cargo();
    all.args(["test", "--workspace", "--quiet", "--no-fail-fast"]);
    prepare(&mut all);
    let first = Run::of(&mut all)?;
    if first.passed {
        return Ok(Outcome::Passed);
    }
    let (names, targets) = (first.failed_tests(), first.failed_targets());
    ensure!(
        !names.is_empty() && !targets.is_empty() && names.len() <= MOST_RERUN,
        "{} tests failed",
        names.len()
    );
    for target in targets {
        let mut again = linting_cargo();
        again
            .arg("test")
            .args(target.split(' '))
            .args(["--", "--exact", "--test-threads=1"]);
        prepare(again.args(&names));
        let run = Run::of(&mut again)?;
        ensure!(run.passed, "tests of {target} failed twice");
        // A program that crashed names no test: there is nothing of it to run again.
        ensure!(
            !run.lines.iter().any(|line| line == "running 0 tests"),
            "{target} crashed"
        );
    }
    Ok(Outcome::PassedAlone(names))
}

/// What a command printed, and whether it succeeded.
struct Run {
    lines: Vec<String>,
    passed: bool,
}

impl Run {
    /// Shows what is printed as it comes.
    fn of(command: &mut Command) -> Result<Self> {
        let (reader, writer) = std::io::pipe()?;
        let mut child = command
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        // The command keeps its ends of the pipe, which would never be closed.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut lines = Vec::new();
        for line in BufReader::new(reader).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            writeln!(stdout(), "{line}")?;
            lines.push(line);
        }
        let passed = child.wait()?.success();
        Ok(Self { lines, passed })
    }

    /// As libtest heads what they printed: `---- name stdout ----`.
    fn failed_tests(&self) -> Vec<String> {
        let names = self.lines.iter().filter_map(|line| {
            let name = line.strip_prefix("---- ")?.strip_suffix(" stdout ----")?;
            Some(name.to_owned())
        });
        names.collect()
    }

    /// As cargo tells how to run them again: `-p events --test it`.
    fn failed_targets(&self) -> Vec<String> {
        let targets = self.lines.iter().filter_map(|line| {
            let (_, rest) = line.strip_prefix("error: test failed, ")?.split_once('`')?;
            Some(rest.strip_suffix('`')?.to_owned())
        });
        targets.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Run;

    #[test]
    fn failed_tests_and_where_they_are_come_from_what_cargo_prints() {
        let printed = "running 2 tests\n---- embedded::a_scan stdout ----\n\nthread panicked\n\n\nfailures:\n    \
                       embedded::a_scan\n\nerror: test failed, to rerun pass `-p events --test it`\n";
        let run = Run {
            lines: printed.lines().map(str::to_owned).collect(),
            passed: false,
        };
        assert_eq!(run.failed_tests(), ["embedded::a_scan"]);
        assert_eq!(run.failed_targets(), ["-p events --test it"]);
    }
}
