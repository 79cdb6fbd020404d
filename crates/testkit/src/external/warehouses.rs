//! Emulators of warehouses, each with a reader of its own.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::certificates;
use super::http::Visitor;
use super::process::{Folder, Process};

/// The emulators load a whole database each, and two cores may have much else to do.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Who signs in at every warehouse here.
pub const USER: &str = "hedgerow";
pub const PASSWORD: &str = "a password of the tests: \"';";

/// fakesnow with the database `HEDGEROW` and the schema `PUBLIC`. It asks for a password, or for a token signed with the
/// key of [`Snowflake::private_key`].
#[derive(Debug)]
pub struct Snowflake {
    // Before the folder: the server ends first.
    _process: Process,
    folder: Folder,
    port: u16,
    reader: u16,
}

impl Snowflake {
    pub const ACCOUNT: &str = "myorg-tests";
    pub const DATABASE: &str = "HEDGEROW";
    pub const SCHEMA: &str = "PUBLIC";

    pub fn start() -> Self {
        let folder = Folder::new();
        let public_key = certificates::rsa_key(folder.path(), "user");
        let options = json!({
            "folder": folder.path(),
            "account": Self::ACCOUNT,
            "user": USER,
            "password": PASSWORD,
            "database": Self::DATABASE,
            "schema": Self::SCHEMA,
            "public_key": public_key,
        });
        let (process, ready) = start_python("fakesnow", "fakesnow_server.py", &options, &folder);
        let snowflake = Self {
            _process: process,
            folder,
            port: port(&ready, "port"),
            reader: port(&ready, "reader"),
        };
        snowflake.read("CREATE SCHEMA IF NOT EXISTS HEDGEROW.PUBLIC");
        snowflake
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// PKCS #8, in PEM.
    pub fn private_key(&self) -> String {
        certificates::read_key(self.folder.path(), "user")
    }

    /// The same, encrypted as the vendor's manual does it.
    pub fn encrypted_private_key(&self, passphrase: &str, cipher: &str) -> String {
        certificates::encrypted_key(self.folder.path(), "user", passphrase, cipher)
    }

    /// What the vendor's own connector reads.
    pub fn read(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        serde_json::from_str(&ask(self.reader, sql)).expect("rows as JSON")
    }

    /// Ends all sessions, and undoes what they had begun.
    pub fn forget(&self) {
        ask(self.reader, "forget");
    }

    /// The requests so far: path and body of each.
    pub fn seen(&self) -> Vec<Value> {
        serde_json::from_str(&ask(self.reader, "seen")).expect("requests as JSON")
    }
}

/// A key that nobody knows the public half of, in PEM, PKCS #8.
pub fn rsa_key() -> String {
    let folder = Folder::new();
    certificates::rsa_key(folder.path(), "any");
    certificates::read_key(folder.path(), "any")
}

fn port(ready: &Value, name: &str) -> u16 {
    let port = ready[name].as_u64().and_then(|port| port.try_into().ok());
    port.expect("the service says its port")
}

fn ask(port: u16, text: &str) -> String {
    let page = Visitor::default().post_text(&format!("http://127.0.0.1:{port}/"), text);
    assert_eq!(page.status, 200, "{text}: {}", page.body);
    page.body
}

fn start_python(environment: &str, script: &str, options: &Value, folder: &Folder) -> (Process, Value) {
    let mut command = Command::new(super::folder().join(environment).join("bin/python"));
    command.arg(super::script(script)).arg(options.to_string());
    command.env("HOME", folder.path());
    let mut process = Process::start(&mut command, &folder.join("part.log"));
    let ready = process.ready_within(START_TIMEOUT);
    (process, ready)
}

/// bqemulator with one empty dataset, behind a front that lets in only tokens of its own token server.
#[derive(Debug)]
pub struct BigQuery {
    // Before the folder: the server ends first.
    _process: Process,
    folder: Folder,
    port: u16,
}

impl BigQuery {
    pub const PROJECT: &str = "hedgerow-tests";
    pub const DATASET: &str = "exports";
    pub const EMAIL: &str = "exports@hedgerow-tests.iam.gserviceaccount.com";
    pub const KEY_ID: &str = "0123456789abcdef";

    pub fn start() -> Self {
        let folder = Folder::new();
        let public_key = certificates::rsa_key(folder.path(), "account");
        let options = json!({
            "folder": folder.path(),
            "project": Self::PROJECT,
            "dataset": Self::DATASET,
            "email": Self::EMAIL,
            "key_id": Self::KEY_ID,
            "public_key": public_key,
        });
        let (process, ready) = start_python("bqemulator", "bqemulator_server.py", &options, &folder);
        let server = Self {
            _process: process,
            folder,
            port: port(&ready, "port"),
        };
        server.read("dataset");
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn token_uri(&self) -> String {
        format!("{}/token", self.url())
    }

    /// PKCS #8, in PEM.
    pub fn private_key(&self) -> String {
        certificates::read_key(self.folder.path(), "account")
    }

    /// What the vendor's own client reads. `tables` lists the tables, `partition NAME` says how one is partitioned.
    pub fn read(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        serde_json::from_str(&self.ask(sql)).expect("rows as JSON")
    }

    /// How many tokens were granted, and the requests so far.
    pub fn seen(&self) -> Value {
        serde_json::from_str(&self.ask("seen")).expect("JSON")
    }

    /// From now on every request of a client is answered like this.
    pub fn answer_with(&self, status: u16, body: &Value) {
        std::fs::write(self.folder.join("fault"), json!([status, body]).to_string()).expect("the service is told");
    }

    fn ask(&self, text: &str) -> String {
        let page = Visitor::default().post_text(&format!("{}/read", self.url()), text);
        assert_eq!(page.status, 200, "{text}: {}", page.body);
        page.body
    }
}

/// A double of a Databricks workspace, in the shapes that the vendor documents, with `DuckDB` behind it.
#[derive(Debug)]
pub struct Databricks {
    // Before the folder: the server ends first.
    _process: Process,
    folder: Folder,
    authority: String,
    port: u16,
    reader: u16,
}

impl Databricks {
    pub const CATALOG: &str = "workspace";
    pub const SCHEMA: &str = "hedgerow";
    pub const HTTP_PATH: &str = "/sql/1.0/warehouses/abc123";
    pub const TOKEN: &str = "dapi-of-the-tests";
    pub const CLIENT_ID: &str = "a-service-principal";

    pub fn start() -> Self {
        let folder = Folder::new();
        let (authority, server) = certificates::for_loopback(folder.path());
        let options = json!({
            "folder": folder.path(),
            "catalog": Self::CATALOG,
            "schema": Self::SCHEMA,
            "warehouse": "abc123",
            "token": Self::TOKEN,
            "client_id": Self::CLIENT_ID,
            "client_secret": PASSWORD,
            "certificate": server.certificate,
            "key": server.key,
        });
        let (process, ready) = start_python("fakesnow", "databricks_server.py", &options, &folder);
        Self {
            _process: process,
            folder,
            authority: authority.pem(),
            port: port(&ready, "port"),
            reader: port(&ready, "reader"),
        }
    }

    pub fn hostname(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The authority a client has to trust.
    pub fn ca_pem(&self) -> &str {
        &self.authority
    }

    /// What the tables hold.
    pub fn read(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        serde_json::from_str(&ask(self.reader, sql)).expect("rows as JSON")
    }

    /// The paths of the requests so far.
    pub fn seen(&self) -> Vec<String> {
        serde_json::from_str(&ask(self.reader, "seen")).expect("paths as JSON")
    }

    /// From now on every request with a good token is answered like this.
    pub fn answer_with(&self, status: u16, body: &Value) {
        std::fs::write(self.folder.join("fault"), json!([status, body]).to_string()).expect("the service is told");
    }
}
