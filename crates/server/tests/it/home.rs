//! A machine of one's own for each test: a database, a folder, and the processes that run there.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::Reply;
use testkit::databases::{Backend, Database};

use crate::client::Request;

/// The first owner, unless a test is about the first owner.
pub(crate) const OWNER: &str = "owner@hedgerow.local";
pub(crate) const KEY: &str = "integration-test-key";
/// For what takes long only on a busy machine.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// What is tested: the binary of this build, or another one, such as a release.
fn binary() -> PathBuf {
    let other = std::env::var_os("HEDGEROW_TEST_BINARY");
    other.map_or_else(|| env!("CARGO_BIN_EXE_hedgerow").into(), PathBuf::from)
}

pub(crate) struct Home {
    pub(crate) database: Database,
    pub(crate) folder: PathBuf,
    /// Removes the folder when it is dropped.
    _temporary: TempDir,
}

impl Home {
    pub(crate) fn new(backend: Backend) -> Self {
        let temporary = TempDir::with_prefix("hedgerow-").expect("a temporary folder");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let database = runtime.expect("a runtime").block_on(Database::empty(backend));
        Self {
            database,
            folder: temporary.path().to_owned(),
            _temporary: temporary,
        }
    }

    /// For what no database has a part in.
    pub(crate) fn any() -> Self {
        Self::new(Backend::Sqlite)
    }

    /// The binary on this database, with nothing else set. It listens at a port that was free.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command
            .env_clear()
            .current_dir(&self.folder)
            .env("HEDGEROW_DATA_DIR", self.folder.join("data"))
            .env("HEDGEROW_DATABASE_URL", &self.database.url)
            .env("HEDGEROW_SHUTDOWN_DELAY", "0")
            .env("HEDGEROW_LISTEN", "127.0.0.1:0");
        command
    }

    /// The same, with the first key fixed to [`KEY`].
    pub(crate) fn keyed(&self) -> Command {
        let mut command = self.command();
        command.env("HEDGEROW_BOOTSTRAP_API_KEY", KEY);
        command
    }

    pub(crate) fn start(&self) -> Server {
        self.spawn(&mut self.keyed()).ready()
    }

    /// Runs a command to its end and returns what it printed; it must succeed.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let ended = self.spawn(self.command().args(arguments)).end();
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        ended.stdout
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> Process {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let output = |name: &str| self.folder.join(format!("{count}.{name}"));
        let (stdout, stderr) = (output("stdout"), output("stderr"));
        let into = |path: &Path| Stdio::from(File::create(path).expect("a file for what is printed"));
        let child = command
            .stdin(Stdio::null())
            .stdout(into(&stdout))
            .stderr(into(&stderr))
            .process_group(0)
            .spawn();
        Process {
            child: child.expect("the binary starts"),
            stdout,
            stderr,
        }
    }
}

/// A process in a group of its own, which ends with it.
pub(crate) struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// What is left of a process. There is no code if a signal ended it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(&self.stdout).expect("what was printed can be read")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.stderr).expect("what was logged can be read")
    }

    /// Waits until the server says that it is ready.
    pub(crate) fn ready(mut self) -> Server {
        let address = until("the server listens", WAIT_LIMIT, || {
            let ended = self.child.try_wait().expect("our own child");
            assert!(ended.is_none(), "the server has ended: {}", self.log());
            address(&self.log())
        });
        let server = Server { process: self, address };
        until("the server is ready", WAIT_LIMIT, || {
            (server.ask("GET", "/readyz").status == 200).then_some(())
        });
        server
    }

    /// Sends a signal to the whole group.
    pub(crate) fn signal(&self, name: &str) {
        let line = format!("kill -s {name} -- -{}", self.child.id());
        let sent = Command::new("sh").args(["-c", &line]).status().expect("a shell");
        assert!(sent.success(), "{line}");
    }

    pub(crate) fn end(self) -> Ended {
        self.end_within(WAIT_LIMIT)
    }

    pub(crate) fn end_within(mut self, limit: Duration) -> Ended {
        let status = until("the process ends", limit, || {
            self.child.try_wait().expect("our own child")
        });
        Ended {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout(),
            stderr: self.log(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("KILL");
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.stderr).unwrap_or_default();
            let start = log.floor_char_boundary(log.len().saturating_sub(4000));
            eprintln!("process {} logged at last:\n{}", self.child.id(), &log[start..]);
        }
    }
}

fn address(log: &str) -> Option<SocketAddr> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut listening = lines.filter(|line| line["message"] == "listening");
    listening.next()?["address"].as_str()?.parse().ok()
}

/// A process that serves.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn send(&self, request: Request) -> Reply {
        request.send(self.address).expect("the server answers")
    }

    /// Asks without a key.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Reply {
        self.send(Request::new(method, path))
    }

    pub(crate) fn get(&self, key: &str, path: &str) -> Reply {
        self.send(Request::new("GET", path).key(key))
    }

    pub(crate) fn post(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.send(Request::new("POST", path).key(key).json(body))
    }

    pub(crate) fn patch(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.send(Request::new("PATCH", path).key(key).json(body))
    }

    /// Signs in with a password; the answer to a good one carries a cookie.
    pub(crate) fn sign_in(&self, email: &str, password: &str) -> Reply {
        let body = json!({ "email": email, "password": password });
        self.send(Request::new("POST", "/api/login/").json(&body))
    }
}

/// Looks again and again until there is something to see. A test never just waits.
pub(crate) fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
