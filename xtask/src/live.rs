//! schemathesis against a running server and its own OpenAPI spec, on each database.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::http::{self, Request};
use crate::postgres::Cluster;
use crate::process::{self, Server};
use crate::{checks, root, target, tools};

const KEY: &str = "schemathesis-key-0001";
const EMAIL: &str = "owner@example.com";
const PASSWORD: &str = "correct horse battery";
/// Of each operation, in each phase.
const EXAMPLES: &str = "15";
/// The same requests in every run, as far as answers are the same.
const SEED: &str = "20261115";
/// What takes a person who has signed in.
const OF_PEOPLE: [&str; 2] = ["Personal API keys", "Account"];
/// These reach out: to what they are told, and what is made up may be anywhere, or to a name server, which takes its time.
/// Our own tests cover them.
const REACH_OUT: [&str; 5] = [
    "batch_exports_test",
    "batch_exports_test_destination",
    "domains_import_metadata",
    "domains_test",
    "domains_verify",
];

pub(crate) fn on_sqlite(work: &Path) -> Result<()> {
    fuzz(work, None)
}

pub(crate) fn on_postgres(work: &Path, cluster: &Cluster) -> Result<()> {
    fuzz(work, Some(cluster.create_database("live")?))
}

fn fuzz(work: &Path, database_url: Option<String>) -> Result<()> {
    let port = process::free_port()?;
    let folder = work.join(format!("live-{port}"));
    std::fs::create_dir_all(&folder)?;
    let mut command = process::command(target().join("debug/hedgerow"));
    command
        .current_dir(&folder)
        .env("HEDGEROW_LISTEN", format!("127.0.0.1:{port}"))
        .env("HEDGEROW_BOOTSTRAP_API_KEY", KEY)
        .env("HEDGEROW_BOOTSTRAP_EMAIL", EMAIL)
        .env("HEDGEROW_BOOTSTRAP_PASSWORD", PASSWORD)
        // Nobody listens there, and nothing leaves the machine.
        .env("HEDGEROW_DNS", "127.0.0.1:9")
        .env("HEDGEROW_APP_MIRROR", "http://127.0.0.1:9/")
        .env("HEDGEROW_HOURLY_LIMITS", "off")
        .env("HEDGEROW_LOG", "warn");
    if let Some(url) = database_url {
        command.env("HEDGEROW_DATABASE_URL", url);
    }
    let mut server = Server::start(command, &folder.join("server.log"), "TERM")?;
    let is_ready = || http::send(port, &Request::get("/readyz")).is_ok_and(|answer| answer.status == 200);
    server.wait_until(Duration::from_secs(30), Duration::from_millis(50), is_ready)?;

    // A key reaches everything but keys; those take somebody who has signed in.
    let session = session(port)?;
    let header = format!("Authorization: Bearer {KEY}");
    let mut with_key = vec!["--header", &header];
    with_key.extend(OF_PEOPLE.iter().flat_map(|tag| ["--exclude-tag", tag]));
    with_key.extend(REACH_OUT.iter().flat_map(|id| ["--exclude-operation-id", id]));
    schemathesis(port, &session, &with_key)?;
    let with_session: Vec<&str> = OF_PEOPLE.iter().flat_map(|tag| ["--include-tag", tag]).collect();
    schemathesis(port, &session, &with_session)
}

/// The token of a new session.
fn session(port: u16) -> Result<String> {
    let cookie = http::sign_in(port, EMAIL, PASSWORD)?;
    let token = cookie.split_once('=').context("a cookie has a name")?.1;
    Ok(token.to_owned())
}

fn schemathesis(port: u16, session: &str, arguments: &[&str]) -> Result<()> {
    let program = tools::schemathesis()?;
    let mut command = Command::new(program);
    command
        .current_dir(root())
        .env("SCHEMATHESIS_SESSION", session)
        .args(["--config-file", "xtask/schemathesis.toml", "run"])
        .arg(format!("http://127.0.0.1:{port}/api/schema/"))
        .args(["--max-examples", EXAMPLES, "--seed", SEED])
        .args(arguments);
    checks::run(&mut command)
}
