//! `cargo xtask bench ingest`: events in, beside a bare handler that keeps bodies as durably, and beside a Django endpoint.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::build::build;
use super::figures::{f64_of, json, kept, median, number};
use super::ingest_report::{Ingested, JOURNAL, PATTERNS, Pattern, Report, SECONDS};
use super::names::{DJANGO, SQLITE};
use super::servers::{Hedgerow, Peer, Ready};
use super::{disk_folder, document, machine};
use crate::http::{self, Request};
use crate::postgres::Cluster;
use crate::process::{self, Server};
use crate::say;

/// The token that the peers know, or do not look at.
const TOKEN: &str = "bench";
const ROUNDS: usize = 3;

/// Measures everything and writes the report into docs.
pub(crate) fn ingest() -> Result<()> {
    build()?;
    let disk = disk_folder()?;
    let mut bench = Bench {
        disk: &disk.0,
        report: Report {
            facts: machine::facts(&crate::root(), &disk.0)?,
            ..Report::default()
        },
    };
    bench.ours()?;
    kept(JOURNAL, bench.journal());
    kept(DJANGO, bench.django());
    let file = crate::root().join("docs/benchmarks.md");
    let section = document::replaced(&fs::read_to_string(&file)?, "ingest", &bench.report.markdown())?;
    fs::write(&file, section)?;
    say(&format!("written: {}", file.display()));
    Ok(())
}

struct Bench<'a> {
    disk: &'a Path,
    report: Report,
}

impl Bench<'_> {
    fn ours(&mut self) -> Result<()> {
        let folder = self.disk.join("hedgerow");
        let hedgerow = Hedgerow::seeded(&crate::target().join("release/hedgerow"), &folder, None, 1, 1)?;
        let ready = hedgerow.start()?;
        let teams: Value = serde_json::from_slice(&http::send(ready.port, &hedgerow.teams())?.body)?;
        let team = &teams["results"][0];
        let token = team["api_token"]
            .as_str()
            .with_context(|| format!("no team in {teams}"))?;
        let sent = self.server(SQLITE, &ready, token)?;
        drop(ready);
        let team = team["id"].as_i64().context("no id of the team")?;
        let store = folder.join("data/events.sqlite");
        let mut count = helper();
        count.args(["count", "--team", &team.to_string(), "--store"]);
        let stored = json(count.arg(&store))?["events"].as_u64().context("no count")?;
        ensure!(stored >= sent, "{sent} events were sent and {stored} are stored");
        (self.report.sent, self.report.stored) = (sent, stored);
        Ok(fs::remove_dir_all(&folder)?)
    }

    fn journal(&mut self) -> Result<()> {
        let port = process::free_port()?;
        let mut command = helper();
        command.args(["journal", "--listen", &format!("127.0.0.1:{port}"), "--file"]);
        command.arg(self.disk.join("journal"));
        let mut server = Server::start(command, &self.disk.join("journal.log"), "TERM")?;
        let is_ready = || http::send(port, &Request::get("/")).is_ok_and(|answer| answer.status == 200);
        let after = server.wait_until(Duration::from_secs(10), Duration::from_millis(5), is_ready)?;
        self.server(JOURNAL, &Ready { server, port, after }, TOKEN)?;
        Ok(fs::remove_file(self.disk.join("journal"))?)
    }

    fn django(&mut self) -> Result<()> {
        let cluster = Cluster::start(self.disk, &["shared_buffers=256MB"])?;
        let url = cluster.create_database("bench_django")?;
        let home = crate::root().join(".components/bench/django");
        let peer = Peer::installed(&crate::root().join("bench/peers/django"), &home)?;
        let (ready, _) = peer.start(&url)?;
        let version = format!("PostgreSQL {}, shared_buffers 256 MB", cluster.version()?);
        self.report
            .facts
            .push((DJANGO, format!("{}, {version}", peer.versions()?)));
        let sent = self.server(DJANGO, &ready, TOKEN)?;
        let stored: u64 = cluster
            .sql("bench_django", "SELECT count(*) FROM capture_event")?
            .trim()
            .parse()?;
        ensure!(stored >= sent, "{sent} events were sent and {stored} are stored");
        Ok(())
    }

    /// All patterns at one server; how many events it said it has.
    fn server(&mut self, name: &'static str, ready: &Ready, token: &str) -> Result<u64> {
        say(name);
        let mut sent = 0;
        for pattern in PATTERNS {
            machine::wait_for_quiet()?;
            let rounds = (0..ROUNDS).map(|_| round(ready.port, token, pattern));
            let rounds = rounds
                .collect::<Result<Vec<_>>>()
                .with_context(|| format!("{name}, {}; it said:\n{}", pattern.title, ready.server.last_lines()))?;
            sent += rounds.iter().filter_map(|round| round["events"].as_u64()).sum::<u64>();
            let round = median(rounds, rate).context("no round")?;
            let ingested = Ingested {
                server: name,
                pattern,
                rate: rate(&round),
                p50: number(&round, "p50")? * 1000.0,
                p99: number(&round, "p99")? * 1000.0,
                memory: ready.server.memory()?,
            };
            say(&format!(
                "  {:<40} {:>9.0} events/s, p99 {:.1} ms, {:.0} MB",
                pattern.title, ingested.rate, ingested.p99, ingested.memory
            ));
            self.report.ingested.push(ingested);
        }
        Ok(sent)
    }
}

fn rate(round: &Value) -> f64 {
    let events = round["events"].as_u64().map_or(0.0, f64_of);
    round["wall"].as_f64().map_or(0.0, |wall| events / wall)
}

fn round(port: u16, token: &str, pattern: Pattern) -> Result<Value> {
    json(helper().args([
        "ingest",
        "--address",
        &format!("127.0.0.1:{port}"),
        "--token",
        token,
        "--seconds",
        &SECONDS.to_string(),
        "--connections",
        &pattern.connections.to_string(),
        "--events",
        &pattern.events.to_string(),
    ]))
}

/// The testkit's program: it sends, counts, and is the bare handler.
fn helper() -> Command {
    process::command(crate::target().join("release/bench"))
}
