//! What all external services have in common: a process, its folder, its log, and its end.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// For what takes long only on a busy machine.
pub(super) const WAIT_LIMIT: Duration = Duration::from_mins(1);

/// A folder of one's own; gone when dropped.
#[derive(Debug)]
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::with_prefix("hedgerow-").expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A process in a group of its own. It ends when its standard input does, so it ends with us even if we are killed;
/// a signal at our death would come with the end of the thread that started it, which is too early.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program that watches its standard input.
    pub(super) fn start(command: &mut Command, log: &Path) -> Self {
        let output = File::create(log).expect("a file for what a part prints");
        let errors = output.try_clone().expect("the same file");
        let child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask components` installs it"));
        Self {
            child,
            log: log.to_owned(),
        }
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for the line in which a script of ours says that it is ready, and where.
    pub(super) fn ready(&mut self) -> Value {
        self.ready_within(WAIT_LIMIT)
    }

    /// The same for a service that is slow to start even on an idle machine.
    pub(super) fn ready_within(&mut self, limit: Duration) -> Value {
        self.until_within(limit, "the service is ready", |log| {
            let line = log.lines().find_map(|line| line.strip_prefix("ready "))?;
            serde_json::from_str(line).ok()
        })
    }

    /// Looks again and again until there is something to see.
    pub(super) fn until<T>(&mut self, what: &str, look: impl FnMut(&str) -> Option<T>) -> T {
        self.until_within(WAIT_LIMIT, what, look)
    }

    fn until_within<T>(&mut self, limit: Duration, what: &str, mut look: impl FnMut(&str) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let log = self.log();
            if let Some(seen) = look(&log) {
                return seen;
            }
            let ended = self.child.try_wait().expect("our own child");
            assert!(ended.is_none(), "a part has ended too early");
            assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > limit {
                return false;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !self.ends_within(Duration::from_secs(2)) {
            let group = format!("-{}", self.child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let start = log.floor_char_boundary(log.len().saturating_sub(4000));
            eprintln!("{} holds at last:\n{}", self.log.display(), &log[start..]);
        }
    }
}

/// A program that does not look at its standard input, with a shell around it that does.
pub(super) fn watched(program: &str) -> Command {
    let mut command = Command::new("sh");
    let line = r#""$@" & cat >/dev/null; kill -KILL $!; wait"#;
    command.args(["-c", line, "sh", program]);
    command
}

/// Runs a short program to its end and returns what it printed; it must succeed.
pub(super) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask components` installs it"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
