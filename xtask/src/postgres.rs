//! A throw-away `PostgreSQL` cluster on a free loopback port.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{self, Server};

/// The running cluster; it stops when this is dropped.
pub(crate) struct Cluster {
    _server: Server,
    port: u16,
    binaries: PathBuf,
}

impl Cluster {
    /// Makes a new cluster below `dir` and starts it, with these settings beside the usual ones.
    pub(crate) fn start(dir: &Path, settings: &[&str]) -> Result<Self> {
        let binaries = binaries()?;
        let data = dir.join("postgres");
        make_data_dir(&data)?;
        let mut initdb = as_postgres(&binaries.join("initdb"))?;
        process::output(initdb.current_dir(dir).arg("-D").arg(&data).args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        ]))?;

        let port = process::free_port()?;
        let mut command = as_postgres(&binaries.join("postgres"))?;
        command
            .current_dir(dir)
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string()]);
        for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories="]
            .iter()
            .chain(settings)
        {
            command.args(["-c", setting]);
        }
        // INT is its fast shutdown; with TERM it would wait for clients to leave.
        let mut server = Server::start(command, &dir.join("postgres.log"), "INT")?;
        let is_ready = process_answers(&binaries, port);
        server.wait_until(Duration::from_secs(30), Duration::from_millis(100), is_ready)?;
        Ok(Self {
            _server: server,
            port,
            binaries,
        })
    }

    /// Makes an empty database and returns its URL.
    pub(crate) fn create_database(&self, name: &str) -> Result<String> {
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(format!("postgres://postgres@127.0.0.1:{}/{name}", self.port))
    }

    /// The address of the database that is always there.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs one statement and returns its bare answer.
    pub(crate) fn sql(&self, database: &str, statement: &str) -> Result<String> {
        let mut psql = Command::new(self.binaries.join("psql"));
        psql.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            "postgres",
            "-d",
            database,
        ]);
        process::output(psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement]))
    }

    pub(crate) fn version(&self) -> Result<String> {
        Ok(self.sql("postgres", "SHOW server_version")?.trim().to_owned())
    }
}

fn process_answers(binaries: &Path, port: u16) -> impl Fn() -> bool {
    let program = binaries.join("pg_isready");
    move || {
        let mut ask = Command::new(&program);
        process::output(ask.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()])).is_ok()
    }
}

/// The newest installed version; Debian keeps each in a folder of its own.
fn binaries() -> Result<PathBuf> {
    let newest = || {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        let numbered = versions.flatten().filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let binaries = entry.path().join("bin");
            binaries.join("initdb").is_file().then_some((version, binaries))
        });
        numbered.max().map(|(_, binaries)| binaries)
    };
    if let Some(binaries) = newest() {
        return Ok(binaries);
    }
    process::need(Path::new("/usr/lib/postgresql"), "postgresql")?;
    newest().context("no PostgreSQL below /usr/lib/postgresql; `apt-get install postgresql` brings one")
}

fn make_data_dir(data: &Path) -> Result<()> {
    let mut install = Command::new("install");
    install.args(["-d", "-m", "700"]);
    if process::is_root()? {
        install.args(["-o", "postgres"]);
    }
    process::output(install.arg(data))?;
    Ok(())
}

/// `PostgreSQL` refuses to run as root.
fn as_postgres(program: &Path) -> Result<Command> {
    if !process::is_root()? {
        return Ok(process::command(program));
    }
    let mut command = process::command("runuser");
    // A change of user forgets the signal, so it is asked for again behind it.
    command
        .args(["-u", "postgres", "--", "setpriv", "--pdeathsig", "INT", "--"])
        .arg(program);
    Ok(command)
}
