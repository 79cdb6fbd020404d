//! How each server is prepared and started, and which requests it is asked.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::http::{self, Request};
use crate::process::{self, Server};

/// The first owner. The password is the key.
const EMAIL: &str = "owner@example.com";

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Operation {
    Retrieve,
    Members,
    Organizations,
    Invites,
    Exports,
    Activity,
    UpdateMember,
    UpdateExport,
    Invite,
    BulkInvite,
    Event,
    Batch,
    Create,
}

impl Operation {
    /// What creates anything comes last, so that reading finds what was seeded and no more.
    pub(super) const ALL: [Self; 13] = [
        Self::Retrieve,
        Self::Members,
        Self::Organizations,
        Self::Invites,
        Self::Exports,
        Self::Activity,
        Self::UpdateMember,
        Self::UpdateExport,
        Self::Invite,
        Self::BulkInvite,
        Self::Event,
        Self::Batch,
        Self::Create,
    ];
    /// What every server is asked for.
    pub(super) const OF_ALL_SERVERS: [Self; 3] = [Self::Retrieve, Self::Members, Self::Create];
    pub(super) const LISTS: [Self; 5] = [
        Self::Members,
        Self::Organizations,
        Self::Invites,
        Self::Exports,
        Self::Activity,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Retrieve => "Retrieve an organization",
            Self::Members => "List 100 members",
            Self::Organizations => "List 100 organizations",
            Self::Invites => "List 100 invites",
            Self::Exports => "List 100 exports",
            Self::Activity => "List 100 activity entries",
            Self::UpdateMember => "Update a member",
            Self::UpdateExport => "Update an export",
            Self::Invite => "Create an invite",
            Self::BulkInvite => "Create 100 invites",
            Self::Event => "Capture an event",
            Self::Batch => "Capture a batch of 500 events",
            Self::Create => "Create an organization",
        }
    }

    /// What a peer calls it.
    fn key(self) -> &'static str {
        match self {
            Self::Members => "list",
            Self::Create => "create",
            _ => "retrieve",
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

    /// What is asked of a server that runs. What the lists have to show is created first.
    pub(super) fn requests(&self, port: u16) -> Result<Requests> {
        let own = |rest: &str| format!("/api/organizations/{}/{rest}", self.organization);
        let list = |rest: &str| self.with_key(Request::get(own(rest)));
        let create = |rest: &str, body: &str| self.with_key(Request::post(own(rest), body));
        let update = |rest: &str, body: &str| Request {
            method: "PATCH".into(),
            ..create(rest, body)
        };
        let bulk = create("invites/bulk/", &invites());
        let export = create("batch_exports/", EXPORT);
        for request in [bulk.clone()].iter().chain(&vec![export; 100]) {
            let answer = http::send(port, request)?;
            anyhow::ensure!(answer.status < 300, "{} answered {}", request.path, answer.status);
        }
        let export = first(port, &list("batch_exports/?limit=1"))?;
        let export = format!("batch_exports/{}/", text(&export, "/id")?);
        // The owner comes last.
        let member = first(port, &list("members/?limit=1"))?;
        let member = format!("members/{}/", text(&member, "/user/uuid")?);
        let team = first(port, &list("teams/"))?;
        let token = text(&team, "/api_token")?;
        Ok(HashMap::from([
            (Operation::Retrieve, list("")),
            (Operation::Members, list("members/?limit=100")),
            (Operation::Organizations, self.organizations()),
            (Operation::Invites, list("invites/?limit=100")),
            (Operation::Exports, list("batch_exports/?limit=100")),
            (Operation::Activity, list("activity/?limit=100")),
            (Operation::UpdateMember, update(&member, r#"{"level":{{level}}}"#)),
            (Operation::UpdateExport, update(&export, r#"{"name":"bench {{n}}"}"#)),
            (
                Operation::Invite,
                create("invites/", r#"{"target_email":"bench-{{n}}@example.com"}"#),
            ),
            (Operation::BulkInvite, bulk),
            (Operation::Event, Request::post("/capture/", event(&token))),
            (Operation::Batch, Request::post("/batch/", batch(&token))),
            (
                Operation::Create,
                self.with_key(Request::post("/api/organizations/", r#"{"name":"bench {{n}}"}"#)),
            ),
        ]))
    }

    /// The first page of all organizations the caller is a member of.
    pub(super) fn organizations(&self) -> Request {
        self.get("?limit=100")
    }

    pub(super) fn organization(&self) -> Request {
        self.get(&format!("{}/", self.organization))
    }

    /// A page of the members of the organization.
    pub(super) fn members(&self, query: &str) -> Request {
        self.get(&format!("{}/members/?{query}", self.organization))
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
            // One person invites more than anybody would, and all connections are of one address.
            .env("HEDGEROW_HOURLY_LIMITS", "off")
            .env("HEDGEROW_CONNECTIONS_PER_ADDRESS", "2000");
        if let Some(url) = &self.database_url {
            command.env("HEDGEROW_DATABASE_URL", url);
        }
        command
    }
}

const EXPORT: &str = r#"{"name":"bench","interval":"hour","paused":true,"destination":{"type":"NoOp","config":{}}}"#;

fn invites() -> String {
    let invites = (0..100).map(|number| json!({ "target_email": format!("bench-{{{{n}}}}-{number}@example.com") }));
    invites.collect::<Value>().to_string()
}

fn event(token: &str) -> String {
    json!({ "api_key": token, "event": "viewed", "distinct_id": "person", "properties": properties(1) }).to_string()
}

fn batch(token: &str) -> String {
    let events = (0..500).map(|number| {
        json!({ "event": "viewed", "distinct_id": format!("person-{}", number % 50), "properties": properties(number) })
    });
    json!({ "api_key": token, "batch": events.collect::<Value>() }).to_string()
}

fn properties(number: u32) -> Value {
    json!({ "$current_url": format!("https://example.com/pages/{number}"), "$browser": "Firefox", "plan": "scale", "amount": number })
}

/// The first of a list.
fn first(port: u16, request: &Request) -> Result<Value> {
    let list: Value = serde_json::from_slice(&http::send(port, request)?.body)?;
    Ok(list["results"][0].clone())
}

fn text(value: &Value, pointer: &str) -> Result<String> {
    let text = value.pointer(pointer).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no {pointer} in {value}"))?.to_owned())
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
    Operation::OF_ALL_SERVERS.into_iter().map(request).collect()
}

/// 32 characters of which nobody knows one beforehand.
fn random_key() -> Result<String> {
    let uuid = || fs::read_to_string("/proc/sys/kernel/random/uuid").context("cannot read random bytes");
    Ok(uuid()?.trim().replace('-', ""))
}
