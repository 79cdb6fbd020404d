//! What the benchmark starts: each server in its own process group, ended when its guard is dropped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// How long a server may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A running server with all its processes.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    stop_signal: &'static str,
    started: Instant,
}

impl Server {
    /// Starts `command` (from [`command`]) in a new process group; what it prints goes to `log`.
    pub(crate) fn start(mut command: Command, log: &Path, stop_signal: &'static str) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let started = Instant::now();
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {command:?}; does the program exist?"))?;
        Ok(Self {
            child,
            log: log.to_owned(),
            stop_signal,
            started,
        })
    }

    /// Asks `is_ready` again and again; returns the time since the start.
    pub(crate) fn wait_until(
        &mut self,
        limit: Duration,
        every: Duration,
        is_ready: impl Fn() -> bool,
    ) -> Result<Duration> {
        loop {
            if is_ready() {
                return Ok(self.started.elapsed());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "the server ended ({status}) before it was ready; it said:\n{}",
                    self.last_lines()
                );
            }
            if self.started.elapsed() > limit {
                bail!(
                    "the server was not ready after {limit:?}; it said:\n{}",
                    self.last_lines()
                );
            }
            pause(every);
        }
    }

    /// Resident memory of all processes of the group, in megabytes.
    pub(crate) fn memory(&self) -> Result<f64> {
        let mut kilobytes = 0.0;
        for process in fs::read_dir("/proc")?.flatten() {
            // A process may end between the listing and the reading: it counts nothing then.
            let Ok(stat) = fs::read_to_string(process.path().join("stat")) else {
                continue;
            };
            if group_of(&stat) == Some(self.child.id()) {
                let status = fs::read_to_string(process.path().join("status")).unwrap_or_default();
                kilobytes += resident_kilobytes(&status).unwrap_or(0.0);
            }
        }
        ensure!(
            kilobytes > 0.0,
            "no process of the server is left; it said:\n{}",
            self.last_lines()
        );
        Ok(kilobytes / 1000.0)
    }

    /// The end of what the server printed, for error messages.
    pub(crate) fn last_lines(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    fn signal(&self, signal: &str) {
        let group = format!("-{}", self.child.id());
        // It fails when the whole group has ended already, which is what is wanted.
        let _ = Command::new("kill")
            .args([&format!("-{signal}"), "--", &group])
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(self.stop_signal);
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < GRACE {
            pause(Duration::from_millis(10));
        }
        self.signal("KILL");
        let _ = self.child.wait();
    }
}

/// A command that ends with us even when we are killed and no guard can run.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

/// Runs a command to its end and returns what it printed; on failure the error holds what it said.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}; does the program exist?"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?} failed ({}): {}",
        output.status,
        said.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Installs a Debian package when its program is missing.
pub(crate) fn need(program: &Path, package: &str) -> Result<()> {
    let is_there = |path: &Path| path.is_file();
    let found = if program.is_absolute() {
        is_there(program)
    } else {
        std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| is_there(&dir.join(program))))
    };
    if found {
        return Ok(());
    }
    crate::say(&format!("installing {package}"));
    install(package).with_context(|| {
        let program = program.display();
        format!("{program} is missing; as root `apt-get update && apt-get install {package}` brings it")
    })?;
    Ok(())
}

fn install(package: &str) -> Result<String> {
    let here = Path::new(".");
    apt_get(
        here,
        &["install", "--yes", "--quiet", "--no-install-recommends", package],
    )
}

/// Works in a folder. A machine that never asked for a list of packages has none to choose from, so then it asks.
pub(crate) fn apt_get(folder: &Path, arguments: &[&str]) -> Result<String> {
    // It refuses to run twice at the same time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let get = |arguments: &[&str]| {
        output(
            Command::new("apt-get")
                .current_dir(folder)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(arguments),
        )
    };
    get(arguments).or_else(|_| {
        get(&["update", "--quiet"])?;
        get(arguments)
    })
}

/// A loopback port nobody listens on now.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub(crate) fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

/// Waits. Parking may end early, so it is repeated until the time has passed.
pub(crate) fn pause(time: Duration) {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

/// `/proc/PID/stat` is `PID (NAME) STATE PARENT GROUP …`, and the name may hold spaces and brackets.
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn resident_kilobytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What Linux keeps in memory, and what has to be free of it.
const MEMORY: &str = "/dev/shm";
const NEEDED_MEMORY: u64 = 4 << 30;

/// Whether temporary files can be there.
fn has_room(folder: &Path) -> bool {
    let mut df = Command::new("df");
    df.args(["--output=avail", "-B1"]).arg(folder);
    let available = output(&mut df).ok();
    let bytes = available.and_then(|text| text.lines().last()?.trim().parse::<u64>().ok());
    bytes.is_some_and(|bytes| bytes >= NEEDED_MEMORY)
}

/// A folder for this run's databases and logs; gone when dropped.
pub(crate) struct WorkDir(pub(crate) PathBuf);

impl WorkDir {
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        Self::below(&std::env::temp_dir(), purpose)
    }

    /// In memory where there is enough of it: what tests write is flushed thousands of times, and survives nothing.
    pub(crate) fn in_memory(purpose: &str) -> Result<Self> {
        if has_room(Path::new(MEMORY)) {
            Self::below(Path::new(MEMORY), purpose)
        } else {
            Self::new(purpose)
        }
    }

    fn below(parent: &Path, purpose: &str) -> Result<Self> {
        let dir = parent.join(format!("hedgerow-{purpose}-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        // The database server runs as another user, who must be able to get in.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
        Ok(Self(dir))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_read_behind_a_strange_name() {
        assert_eq!(group_of("12 (a) b (c) S 1 77 77 0"), Some(77));
        assert_eq!(group_of(""), None);
    }

    #[test]
    fn resident_memory_is_read_in_kilobytes() {
        assert_eq!(resident_kilobytes("Name:\tx\nVmRSS:\t   5120 kB\n"), Some(5120.0));
        assert_eq!(resident_kilobytes("Name:\tx\n"), None);
    }
}
