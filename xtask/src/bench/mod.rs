//! `cargo xtask bench api`: our server against the bare HTTP library and against what a user would pick instead; and
//! `cargo xtask bench ingest`, `bench exports`, `bench apps`, `bench console` and `bench build`.

mod apps;
mod build;
mod console;
mod document;
mod exports;
mod figures;
mod first_build;
mod growth;
mod ingest;
mod ingest_report;
mod load;
mod machine;
mod measure;
mod names;
mod options;
mod plot;
mod report;
mod servers;
mod targets;

use std::cell::Cell;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub(crate) use apps::apps;
pub(crate) use console::console;
pub(crate) use exports::exports;
pub(crate) use first_build::first_build;
pub(crate) use ingest::ingest;

use crate::http;
use crate::postgres::Cluster;
use crate::process::WorkDir;
use crate::say;
use build::build;
use load::Load;
use measure::{Measured, Plan};
use names::{FLOOR, PEERS, POSTGRES, SQLITE};
use options::Options;
use report::Report;
use servers::{Hedgerow, Operation, Peer, Requests};

/// Members of the organization that every server is asked for.
const MEMBERS: u32 = 100;
/// Organizations of the owner, of which one is asked for.
const ORGANIZATIONS: u32 = 100;

/// Measures everything and writes the report. `arguments` are those behind `bench api`.
pub(crate) fn api(arguments: &[String]) -> Result<()> {
    let options = Options::read(arguments)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask has no parent folder")?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target));
    let binary = target.join("release/hedgerow");
    // Dropped last: the servers that write into it have ended by then.
    let work = WorkDir::new("bench")?;
    let load = Load::new(&work.0)?;
    let mut facts = machine::facts(root, &work.0)?;
    build()?;
    let cluster = Cluster::start(&work.0, &["shared_buffers=256MB"])?;
    facts.push((
        "PostgreSQL",
        format!("{}, shared_buffers 256 MB, else as installed", cluster.version()?),
    ));

    let bench = Bench {
        root,
        work: &work.0,
        binary: &binary,
        cluster: &cluster,
        load: &load,
        plan: options.plan(),
        busy: Cell::new(0.0),
    };
    let mut servers = bench.ours(&options)?;
    for (folder, name) in PEERS.into_iter().filter(|(folder, _)| options.wants(folder)) {
        let (measured, versions) = bench.peer(folder, name).with_context(|| format!("measuring {name}"))?;
        servers.push(measured);
        facts.push((name, versions));
    }
    facts.push((
        "Other programs",
        format!(
            "{:.0} % of the processor at most, before each server",
            bench.busy.get() * 100.0
        ),
    ));
    let growth = if options.growth {
        growth::measure(&binary, &work.0, &cluster, &load, options.plan())?
    } else {
        Vec::new()
    };

    let command = ["cargo xtask bench api"]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .collect::<Vec<_>>();
    let report = Report {
        command: command.join(" "),
        plan: options.plan(),
        facts,
        servers,
        growth,
    };
    let folder = if options.only.is_empty() {
        root.join("docs")
    } else {
        target.join("bench")
    };
    write(&report, &folder)
}

/// What every measurement needs.
struct Bench<'a> {
    root: &'a Path,
    work: &'a Path,
    binary: &'a Path,
    cluster: &'a Cluster,
    load: &'a Load,
    plan: Plan,
    /// The largest share of the processor that other programs took before a measurement.
    busy: Cell<f64>,
}

impl Bench<'_> {
    fn ours(&self, options: &Options) -> Result<Vec<Measured>> {
        let mut servers = Vec::new();
        if options.wants("sqlite") {
            let (sqlite, requests, bodies) = self.hedgerow(SQLITE, "sqlite", None)?;
            servers.push(self.floor(&requests, &bodies)?);
            servers.push(sqlite);
        }
        if options.wants("postgres") {
            let url = self.cluster.create_database("bench_hedgerow")?;
            servers.push(self.hedgerow(POSTGRES, "postgres-data", Some(url))?.0);
        }
        Ok(servers)
    }

    /// Also returns the requests and the bytes they were answered with, for the bare handler.
    fn hedgerow(&self, name: &'static str, folder: &str, url: Option<String>) -> Result<(Measured, Requests, Bodies)> {
        say(name);
        let hedgerow = Hedgerow::seeded(self.binary, &self.work.join(folder), url, ORGANIZATIONS, MEMBERS)?;
        let ready = hedgerow.start()?;
        let requests = hedgerow.requests(ready.port)?;
        let mut bodies = HashMap::new();
        for (operation, request) in &requests {
            bodies.insert(*operation, http::send(ready.port, request)?.body);
        }
        self.wait_for_quiet()?;
        let mut measured = measure::all(name, &ready, &requests, self.load, self.plan)?;
        drop(ready);
        measured.ready_after = Some(hedgerow.start()?.after);
        Ok((measured, requests, bodies))
    }

    fn floor(&self, requests: &Requests, bodies: &Bodies) -> Result<Measured> {
        say(FLOOR);
        let mut measured = Measured {
            name: FLOOR,
            speeds: HashMap::new(),
            idle: 0.0,
            loaded: 0.0,
            ready_after: None,
        };
        for operation in Operation::ALL {
            let ready = servers::start_floor(self.binary, &self.work.join("floor"), &bodies[&operation])?;
            self.wait_for_quiet()?;
            let idle = ready.server.memory()?;
            let speed = measure::speed(ready.port, &requests[&operation], self.load, self.plan)?;
            say(&format!(
                "  {:<26} {:>9.0} requests/s",
                operation.title(),
                speed.full.rate
            ));
            measured.speeds.insert(operation, speed);
            measured.idle = measured.idle.max(idle);
            measured.loaded = measured.loaded.max(ready.server.memory()?);
        }
        Ok(measured)
    }

    fn wait_for_quiet(&self) -> Result<()> {
        self.busy.set(machine::wait_for_quiet()?.max(self.busy.get()));
        Ok(())
    }

    fn peer(&self, folder: &str, name: &'static str) -> Result<(Measured, String)> {
        say(name);
        let peers = self.root.join("bench/peers");
        let peer = Peer::installed(&peers.join(folder), &self.root.join(".components/bench").join(folder))?;
        let url = self
            .cluster
            .create_database(&format!("bench_{}", folder.replace('-', "_")))?;
        let (ready, requests) = peer.start(&url)?;
        self.wait_for_quiet()?;
        let measured = measure::all(name, &ready, &requests, self.load, self.plan)?;
        Ok((measured, peer.versions()?))
    }
}

type Bodies = HashMap<Operation, Vec<u8>>;

/// A folder that is on a disk even where temporary files are kept in memory; gone when dropped. The database server,
/// another user, must be able to get in.
fn disk_folder() -> Result<WorkDir> {
    let folder = Path::new("/var/tmp").join(format!("hedgerow-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(WorkDir(folder))
}

fn write(report: &Report, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let file = folder.join("benchmarks.md");
    let before = if file.exists() {
        fs::read_to_string(&file)?
    } else {
        String::new()
    };
    fs::write(&file, document::replaced(&before, "api", &report.markdown())?)?;
    fs::write(folder.join("benchmarks-api.svg"), report.plot().svg())?;
    for target in targets::judge(&report.servers, &report.growth)
        .iter()
        .filter(|target| !target.is_met)
    {
        say(&format!("not met: {} (measured: {})", target.promise, target.measured));
    }
    say(&format!("written: {}", file.display()));
    Ok(())
}
