//! How each server is prepared and started, and which requests it is asked.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::http::{self, Request};
use crate::process::{self, Server};

/// The first owner. The password is the key.
const EMAIL: &str = "owner@example.com";

/// What is measured on every server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Operation {
    Retrieve,
    List,
    Create,
}

impl Operation {
    /// Creating comes last, so that reading finds what was seeded and no more.
    pub(super) const ALL: [Self; 3] = [Self::Retrieve, Self::List, Self::Create];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Retrieve => "Retrieve an organization",
            Self::List => "List 100 members",
            Self::Create => "Create an organization",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Retrieve => "retrieve",
            Self::List => "list",
            Self::Create => "create",
        }
    }
}

pub(super) type Requests = HashMap<Operation, Request>;

/// A server that is ready, its port, and how long it took from its start.
pub(super) struct Ready {
    pub(super) server: Server,
    pub(super) port: u16,
    pub(super) after: Duration,
}

/// Our own server on one database.
pub(super) struct Hedgerow {
    binary: PathBuf,
    dir: PathBuf,
    database_url: Option<String>,
    key: String,
    organization: String,
}

impl Hedgerow {
    /// Seeds a new database: `SQLite` below `dir` unless a URL is given.
    pub(super) fn seeded(
        binary: &Path,
        dir: &Path,
        database_url: Option<String>,
        organizations: u32,
        members: u32,
    ) -> Result<Self> {
        let amounts = [("--organizations", organizations), ("--members", members)];
        Self::seeded_with(binary, dir, database_url, &amounts)
    }

    /// The same with amounts as `bench seed` takes them.
    pub(super) fn seeded_with(
        binary: &Path,
        dir: &Path,
        database_url: Option<String>,
        amounts: &[(&str, u32)],
    ) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let mut hedgerow = Self {
            binary: binary.to_owned(),
            dir: dir.to_owned(),
            database_url,
            key: random_key()?,
            organization: String::new(),
        };
        // The first start makes the tables and the owner; the rest is made up behind its back.
        drop(hedgerow.start()?);
        let mut seed = process::command(helper(binary));
        seed.args(["seed", "--database-url", &hedgerow.database_url()]);
        for (name, amount) in amounts {
            seed.args([*name, &amount.to_string()]);
        }
        let printed = process::output(&mut seed)?;
        let seeded: Value = serde_json::from_str(&printed).context("`bench seed` printed no JSON")?;
        let id = seeded["organization"]
            .as_str()
            .context("`bench seed` printed no `organization`")?;
        id.clone_into(&mut hedgerow.organization);
        Ok(hedgerow)
    }

    fn database_url(&self) -> String {
        let embedded = || format!("sqlite:{}", self.dir.join("data/hedgerow.sqlite").display());
        self.database_url.clone().unwrap_or_else(embedded)
    }

    pub(super) fn start(&self) -> Result<Ready> {
        let port = process::free_port()?;
        let mut command = self.command("serve");
        command.env("HEDGEROW_LISTEN", format!("127.0.0.1:{port}"));
        let mut server = Server::start(command, &self.dir.join("server.log"), "TERM")?;
        let ready = Request::get("/readyz");
        let is_ready = || http::send(port, &ready).is_ok_and(|answer| answer.status == 200);
        let after = server.wait_until(Duration::from_mins(1), Duration::from_millis(5), is_ready)?;
        Ok(Ready { server, port, after })
    }

    pub(super) fn requests(&self) -> Requests {
        HashMap::from([
            (Operation::Retrieve, self.get(&format!("{}/", self.organization))),
            (
                Operation::List,
                self.get(&format!("{}/members/?limit=100", self.organization)),
            ),
            (
                Operation::Create,
                self.with_key(Request::post("/api/organizations/", r#"{"name":"bench {{n}}"}"#)),
            ),
        ])
    }

    /// The first page of all organizations the caller is a member of.
    pub(super) fn organizations(&self) -> Request {
        self.get("?limit=100")
    }

    /// The teams of the organization, with the tokens that let events in.
    pub(super) fn teams(&self) -> Request {
        self.get("@current/teams/")
    }

    /// The exports of the organization, newest first.
    pub(super) fn exports(&self) -> Request {
        self.get(&format!("{}/batch_exports/?limit=1", self.organization))
    }

    /// A page of the organization.
    pub(super) fn page(&self, below: &str) -> String {
        format!("/organizations/{}/{below}", self.organization)
    }

    /// The cookie of the first owner, who has just signed in.
    pub(super) fn sign_in(&self, port: u16) -> Result<String> {
        http::sign_in(port, EMAIL, &self.key)
    }

    fn get(&self, rest: &str) -> Request {
        self.with_key(Request::get(format!("/api/organizations/{rest}")))
    }

    fn with_key(&self, request: Request) -> Request {
        request.header("Authorization", format!("Bearer {}", self.key))
    }

    /// The binary with settings of this benchmark only, whatever the caller's environment holds.
    fn command(&self, subcommand: &str) -> Command {
        let mut command = process::command(&self.binary);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("HEDGEROW_") {
                command.env_remove(name);
            }
        }
        command
            .arg(subcommand)
            .current_dir(&self.dir)
            .env("HEDGEROW_DATA_DIR", self.dir.join("data"))
            .env("HEDGEROW_BOOTSTRAP_API_KEY", &self.key)
            .env("HEDGEROW_BOOTSTRAP_EMAIL", EMAIL)
            .env("HEDGEROW_BOOTSTRAP_PASSWORD", &self.key)
            .env("HEDGEROW_LOG", "warn");
        if let Some(url) = &self.database_url {
            command.env("HEDGEROW_DATABASE_URL", url);
        }
        command
    }
}

/// The testkit's program beside the server: it fills databases, and it is the bare handler.
fn helper(binary: &Path) -> PathBuf {
    binary.with_file_name("bench")
}

/// The bare handler of the same HTTP library: it answers everything with `body`.
pub(super) fn start_floor(binary: &Path, dir: &Path, body: &[u8]) -> Result<Ready> {
    fs::create_dir_all(dir)?;
    let file = dir.join("body.json");
    fs::write(&file, body)?;
    let port = process::free_port()?;
    let mut command = process::command(helper(binary));
    command
        .args(["floor", "--listen", &format!("127.0.0.1:{port}"), "--body-file"])
        .arg(&file);
    let mut server = Server::start(command, &dir.join("server.log"), "TERM")?;
    let is_ready = || http::send(port, &Request::get("/")).is_ok_and(|answer| answer.status == 200);
    let after = server.wait_until(Duration::from_secs(10), Duration::from_millis(5), is_ready)?;
    Ok(Ready { server, port, after })
}

/// Something a user could pick instead; `scripts` holds its `install` and `serve`.
pub(super) struct Peer {
    scripts: PathBuf,
    dir: PathBuf,
}

impl Peer {
    /// Installs the peer below `home`, where it stays for the next run.
    pub(super) fn installed(scripts: &Path, home: &Path) -> Result<Self> {
        fs::create_dir_all(home)?;
        process::output(Command::new(scripts.join("install")).arg(home))
            .context("a peer needs Python 3 or Node: `apt-get install python3-venv nodejs npm` brings both")?;
        Ok(Self {
            scripts: scripts.to_owned(),
            dir: home.to_owned(),
        })
    }

    pub(super) fn versions(&self) -> Result<String> {
        Ok(fs::read_to_string(self.dir.join("versions"))?.trim().to_owned())
    }

    /// Starts it on an empty database and waits until it answers its own first request.
    pub(super) fn start(&self, database_url: &str) -> Result<(Ready, Requests)> {
        let port = process::free_port()?;
        let file = self.dir.join("requests.json");
        if file.exists() {
            fs::remove_file(&file)?;
        }
        let mut command = process::command(self.scripts.join("serve"));
        command.arg(&self.dir).arg(port.to_string()).arg(database_url);
        let mut server = Server::start(command, &self.dir.join("server.log"), "TERM")?;
        let retrieves =
            || -> Result<bool> { Ok(http::send(port, &requests_in(&file)?[&Operation::Retrieve])?.status == 200) };
        let is_ready = || retrieves().unwrap_or(false);
        let after = server.wait_until(Duration::from_mins(2), Duration::from_millis(100), is_ready)?;
        Ok((Ready { server, port, after }, requests_in(&file)?))
    }
}

fn requests_in(file: &Path) -> Result<Requests> {
    let json: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let request = |operation: Operation| {
        let request = Request::from_json(&json[operation.key()]);
        let request = request.with_context(|| format!("`{}` in {}", operation.key(), file.display()))?;
        Ok((operation, request))
    };
    Operation::ALL.into_iter().map(request).collect()
}

/// 32 characters of which nobody knows one beforehand.
fn random_key() -> Result<String> {
    let uuid = || fs::read_to_string("/proc/sys/kernel/random/uuid").context("cannot read random bytes");
    Ok(uuid()?.trim().replace('-', ""))
}
