//! All test programs of the workspace, two at a time, and once more alone the few tests that failed beside thousands of others.
//!
//! Much of the time of tests is waiting: for a component to start, for a time limit to pass. So two programs share the processors, the long
//! ones first. A test that runs out of time on a busy machine is run again alone: if it fails again, so does the step; if not, the
//! summary names it, so that somebody gives it the time it needs.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::outcome::Outcome;
use crate::{checks, linting_cargo, process, say};

/// More than this many failures are no coincidence, however busy the machine.
const MAX_RERUN: usize = 10;
const AT_ONCE: usize = 2;
/// Those that take longest. What begins last should be short, or one processor has nothing to do at the end.
const LONG: [&str; 6] = ["exports", "api", "server", "apps", "events", "console"];

/// Those that start many real components, and wait for them.
const SLOW: [&str; 3] = ["exports it", "identity it", "server it"];

/// Which tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    All,
    /// What one runs before a commit.
    Fast,
}

/// Runs tests with what `prepare` adds to the commands.
pub(crate) fn run(choice: Choice, prepare: impl Fn(&mut Command) + Sync) -> Result<Outcome> {
    let mut programs = programs(&prepare)?;
    programs.retain(|program| choice == Choice::All || !SLOW.contains(&program.name.as_str()));
    let waiting = Mutex::new(VecDeque::from(programs));
    let ended: Mutex<Vec<Ended>> = Mutex::default();
    thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                // In a statement of its own: in a condition of the loop, the lock would be held until the program has ended.
                let next = lock(&waiting).pop_front();
                let Some(program) = next else { return Ok(()) };
                let run = program.run(&[], &prepare)?;
                lock(&ended).push(run);
            }
        };
        let lanes: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let join =
            |lane: thread::ScopedJoinHandle<'_, Result<()>>| lane.join().map_err(|_| anyhow!("a lane panicked"))?;
        lanes.into_iter().try_for_each(join)
    })?;
    let mut doc = linting_cargo();
    doc.args(["test", "--workspace", "--quiet", "--doc"]);
    prepare(&mut doc);
    checks::run(&mut doc)?;
    again(ended.into_inner().unwrap_or_else(PoisonError::into_inner), &prepare)
}

/// Runs what failed again, one test after the other.
fn again(ended: Vec<Ended>, prepare: &impl Fn(&mut Command)) -> Result<Outcome> {
    let failed: Vec<Ended> = ended.into_iter().filter(|run| !run.passed).collect();
    let mut names = Vec::new();
    for run in &failed {
        // A program that crashed names no test: there is nothing of it to run again.
        ensure!(!run.failed.is_empty(), "{} crashed", run.program.name);
        names.extend(run.failed.iter().cloned());
    }
    if names.is_empty() {
        return Ok(Outcome::Passed);
    }
    ensure!(
        names.len() <= MAX_RERUN,
        "{} tests failed: {}",
        names.len(),
        names.join(", ")
    );
    for Ended { program, failed, .. } in failed {
        let mut arguments = vec!["--exact", "--test-threads=1"];
        arguments.extend(failed.iter().map(String::as_str));
        ensure!(
            program.run(&arguments, prepare)?.passed,
            "{} failed twice",
            failed.join(", ")
        );
    }
    Ok(Outcome::PassedAlone(names))
}

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// Of its package and itself.
    name: String,
    file: PathBuf,
    /// Of its package, where cargo runs it.
    folder: PathBuf,
}

/// How it ended.
struct Ended {
    program: Program,
    passed: bool,
    failed: Vec<String>,
}

impl Program {
    /// Shows what it printed once it has ended: two at a time would be unreadable.
    fn run(self, arguments: &[&str], prepare: &impl Fn(&mut Command)) -> Result<Ended> {
        let started = Instant::now();
        let (mut reader, writer) = std::io::pipe()?;
        let mut command = Command::new(&self.file);
        command
            .arg("--quiet")
            .args(arguments)
            .current_dir(&self.folder)
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .stdin(Stdio::null());
        prepare(&mut command);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", self.name))?;
        // It keeps its ends of the pipe, which would never be closed.
        drop(command);
        let mut printed = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut printed)?;
        let passed = child.wait()?.success();
        let printed = String::from_utf8_lossy(&printed);
        say(&format!(
            "\n   {}, {:.1} s\n{}",
            self.name,
            started.elapsed().as_secs_f64(),
            printed.trim()
        ));
        Ok(Ended {
            failed: failed_tests(&printed),
            program: self,
            passed,
        })
    }
}

/// Builds them, which has been done if everything was built before, and finds out where they are.
fn programs(prepare: &impl Fn(&mut Command)) -> Result<Vec<Program>> {
    let mut build = linting_cargo();
    build.args(["test", "--workspace", "--quiet", "--no-run", "--message-format=json"]);
    prepare(&mut build);
    let mut programs: Vec<Program> = process::output(&mut build)?.lines().filter_map(program).collect();
    ensure!(!programs.is_empty(), "cargo has built no tests");
    programs.sort_by_key(|program| {
        let package = program.name.split(' ').next().unwrap_or_default();
        LONG.iter().position(|long| *long == package).unwrap_or(LONG.len())
    });
    Ok(programs)
}

/// A program, if this line of cargo's is about one.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let file = message["executable"].as_str()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.file_name()?.to_str()?;
    Some(Program {
        name: format!("{package} {}", message["target"]["name"].as_str()?),
        file: file.into(),
        folder: folder.to_owned(),
    })
}

/// The names are in the headings of what tests printed: `---- name stdout ----`.
fn failed_tests(printed: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("---- ")?.strip_suffix(" stdout ----")?.to_owned());
    printed.lines().filter_map(name).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_come_from_what_programs_print() {
        let printed = "running 2 tests\n---- embedded::a_scan stdout ----\n\nthread panicked\n\n\nfailures:\n    embedded::a_scan\n";
        assert_eq!(failed_tests(printed), ["embedded::a_scan"]);
        assert!(failed_tests("running 2 tests\n").is_empty());
    }

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let line = |test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": "/w/crates/api/Cargo.toml", "target": { "name": "it" },
                "profile": { "test": test }, "executable": "/w/target/it-1",
            })
        };
        let found = program(&line(true).to_string());
        let expected = Program {
            name: "api it".to_owned(),
            file: "/w/target/it-1".into(),
            folder: "/w/crates/api".into(),
        };
        assert_eq!(found, Some(expected));
        assert_eq!(program(&line(false).to_string()), None);
        assert_eq!(program("warning: text"), None);
    }
}
