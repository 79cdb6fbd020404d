//! `cargo test`, and once more by themselves the few tests that failed beside thousands of others.
//!
//! A test that waits for a real component may run out of time on a busy machine. It is run again alone: if it fails again, so does
//! the step; if not, the summary names it, so that somebody gives it the time it needs.

use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::linting_cargo;
use crate::outcome::Outcome;

const TEST: [&str; 3] = ["test", "--workspace", "--quiet"];
/// More than this many failures are no coincidence.
const MOST_RERUN: usize = 3;

/// Runs all tests with what `prepare` adds to the command.
pub(crate) fn run(prepare: impl Fn(&mut Command)) -> Result<Outcome> {
    let mut all = linting_cargo();
    all.args(TEST).arg("--no-fail-fast");
    prepare(&mut all);
    let first = Run::of(&mut all)?;
    if first.passed {
        return Ok(Outcome::Passed);
    }
    let names = first.failed_tests()?;
    ensure!(
        !names.is_empty() && names.len() <= MOST_RERUN,
        "{} tests failed",
        names.len()
    );
    // In all packages: with one alone cargo would choose other features of what it needs, and build that again.
    let mut again = linting_cargo();
    again.args(TEST).args(["--", "--exact", "--test-threads=1"]);
    prepare(again.args(&names));
    ensure!(Run::of(&mut again)?.passed, "{} failed twice", names.join(", "));
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

    /// The names are in the headings of what tests printed, `---- name stdout ----`, and behind those of a program cargo says how
    /// to run it again. A program that crashed names no test: there is nothing of it to run again.
    fn failed_tests(&self) -> Result<Vec<String>> {
        let (mut all, mut of_program) = (Vec::new(), Vec::new());
        for line in &self.lines {
            let name = line
                .strip_prefix("---- ")
                .and_then(|line| line.strip_suffix(" stdout ----"));
            of_program.extend(name.map(str::to_owned));
            if let Some(program) = line.strip_prefix("error: test failed, ") {
                ensure!(!of_program.is_empty(), "a program of tests crashed ({program})");
                all.append(&mut of_program);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::Run;

    const FAILED: &str = "running 2 tests\n---- embedded::a_scan stdout ----\n\nthread panicked\n\n\nfailures:\n    \
                          embedded::a_scan\n\nerror: test failed, to rerun pass `-p events --test it`\n";

    fn run(printed: &str) -> Run {
        Run {
            lines: printed.lines().map(str::to_owned).collect(),
            passed: false,
        }
    }

    #[test]
    fn failed_tests_come_from_what_cargo_prints() {
        assert_eq!(run(FAILED).failed_tests().unwrap(), ["embedded::a_scan"]);
    }

    #[test]
    fn a_program_that_crashed_is_no_failed_test() {
        let crashed = "running 2 tests\nerror: test failed, to rerun pass `-p api --test it`\n";
        assert!(run(&format!("{FAILED}{crashed}")).failed_tests().is_err());
        assert!(run(&format!("{crashed}{FAILED}")).failed_tests().is_err());
    }
}
