//! `cargo xtask bench apps`: reading apps, calling them beside other engines, and handing them events from the store.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::document::grouped;
use super::figures::{json, kept, number, verdict};
use super::machine;
use crate::process::{self, WorkDir};
use crate::say;

/// What an app of 200 files may take to read, in milliseconds.
const MAX_READING: f64 = 1000.0;
/// What starting an app of one file may take, in milliseconds.
const MAX_STARTING: f64 = 10.0;
/// Events a second that a simple `onEvent` gets at least, from a server that has them at hand.
const LEAST_CALLS: f64 = 120_000.0;
/// Events a second and core that a simple `onEvent` gets at least, from the store.
const LEAST_EVENTS: f64 = 1000.0;

/// How many configurations have nothing to do, and the share of a core that they may take.
const IDLE: &str = "10000";
const MOST_IDLE: f64 = 0.01;

/// What runs foreign JavaScript elsewhere: a script in `bench/apps`, and its name.
const PEERS: [(&str, &str); 2] = [("isolated_vm.mjs", "isolated-vm"), ("workerd.mjs", "workerd")];

/// What the sandbox alone is measured by, what that is, its unit, and how many digits are good for something.
const MEASURED: [(&str, &str, &str, usize); 6] = [
    ("read_ms", "read an app of 200 files", " ms", 0),
    ("open_ms", "start it", " ms", 0),
    ("start_ms", "start an app of one file, the median of 101", " ms", 1),
    ("events_per_second", "`onEvent`, in batches of 1,000", "/s", 0),
    ("webhooks_per_second", "`composeWebhook`", "/s", 0),
    (
        "events_with_a_request_per_second",
        "`onEvent` with a request, to a host that responds immediately",
        "/s",
        0,
    ),
];

/// Measures and writes the report into docs.
pub(crate) fn apps() -> Result<()> {
    say("building");
    let mut build = crate::cargo();
    build.args(["build", "--release", "--workspace", "--bins", "--examples"]);
    process::output(&mut build)?;
    let work = WorkDir::new("bench-apps")?;
    let mut facts = machine::facts(&crate::root(), &work.0)?;
    let release = crate::target().join("release");
    say("reading and calling");
    machine::wait_for_quiet()?;
    let sandbox = json(&mut process::command(release.join("examples/speed")))?;
    say("handing over");
    let delivery = json(process::command(release.join("bench")).arg("apps"))?;
    say("idle configurations");
    let idle = json(process::command(release.join("bench")).args(["idle-apps", "--configs", IDLE]))?;
    let home = crate::root().join(".components/bench/apps");
    let mut peers = Vec::new();
    for (script, name) in PEERS {
        say(name);
        peers.extend(kept(name, peer(&home, script)).map(|measured| (name, measured)));
    }
    facts.extend(kept("versions", versions(&home)).map(|versions| ("Peers", versions)));
    let file = crate::root().join("docs/benchmarks.md");
    let report = Report {
        facts,
        sandbox,
        delivery,
        idle,
        peers,
    };
    let section = super::document::replaced(&fs::read_to_string(&file)?, "apps", &report.markdown()?)?;
    fs::write(&file, section)?;
    say(&format!("written: {}", file.display()));
    Ok(())
}

fn peer(home: &Path, script: &str) -> Result<Value> {
    process::output(Command::new(crate::root().join("bench/apps/install")).arg(home))
        .context("the peers need Node: `apt-get install nodejs npm` brings it")?;
    machine::wait_for_quiet()?;
    json(process::command("node").arg(home.join(script)))
}

fn versions(home: &Path) -> Result<String> {
    let version = |package: &str| -> Result<String> {
        let manifest = fs::read_to_string(home.join("node_modules").join(package).join("package.json"))?;
        let manifest: Value = serde_json::from_str(&manifest)?;
        Ok(format!(
            "{package} {}",
            manifest["version"].as_str().context("no version")?
        ))
    };
    let node = process::output(process::command("node").arg("--version"))?;
    let [isolated_vm, workerd] = [version("isolated-vm")?, version("workerd")?];
    Ok(format!(
        "{isolated_vm} on Node {}, {workerd}",
        node.trim().trim_start_matches('v')
    ))
}

/// All that a run found out.
struct Report {
    facts: Vec<(&'static str, String)>,
    sandbox: Value,
    delivery: Value,
    idle: Value,
    peers: Vec<(&'static str, Value)>,
}

impl Report {
    fn markdown(&self) -> Result<String> {
        let mut text = String::from(
            "## Apps\n\nMeasured by `cargo xtask bench apps`. Reading is parsing, transpiling, loading and finding out what an app \
             offers, in a process of its own. Handing over is the whole way: events from the embedded store, one by one, into a \
             simple `onEvent`, including what is stored in the meantime. The server and the app's process have two cores between \
             them, so the rate per core is half of what was seen, or more.\n\n| | |\n| --- | --- |\n",
        );
        for (name, value) in &self.facts {
            writeln!(text, "| {name} | {value} |")?;
        }
        writeln!(text, "\n| what | measured |\n| --- | ---: |")?;
        for (name, what, unit, digits) in MEASURED {
            writeln!(text, "| {what} | {:.digits$}{unit} |", number(&self.sandbox, name)?)?;
        }
        let wall = number(&self.delivery, "wall")?;
        writeln!(
            text,
            "| {} events from the store to the app | {wall:.2} s |",
            self.delivery["events"]
        )?;
        let share = number(&self.idle, "share_of_a_core")? * 100.0;
        writeln!(
            text,
            "| {IDLE} enabled configurations that have nothing to do | {share:.1} % of a core |"
        )?;
        Ok(text + &self.beside_peers()? + &self.targets()?)
    }

    fn beside_peers(&self) -> Result<String> {
        let mut text = String::from(
            "\n### Beside others\n\nThe same app (`bench/apps/app.js`) and the same events in batches of 1,000, of which each has an outcome of its \
             own. In isolated-vm it has a heap of its own in the server's process, which is all that separates it; in workerd it is asked over HTTP, and started \
             as a process of its own. Ours is a process of its own with no access to files, network or other processes.\n\n\
             | engine | start | `onEvent` |\n| --- | ---: | ---: |\n",
        );
        let ours = ("Hedgerow", self.sandbox.clone());
        for (name, measured) in std::iter::once(&ours).chain(&self.peers) {
            let (start, rate) = (number(measured, "start_ms")?, number(measured, "events_per_second")?);
            writeln!(text, "| {name} | {start:.1} ms | {}/s |", grouped(rate))?;
        }
        Ok(text)
    }

    fn targets(&self) -> Result<String> {
        let mut text = String::from("\n### Targets of apps\n\n| target | measured | |\n| --- | ---: | --- |\n");
        let reading = number(&self.sandbox, "read_ms")?;
        let starting = number(&self.sandbox, "start_ms")?;
        let calls = number(&self.sandbox, "events_per_second")?;
        let per_core = number(&self.delivery, "events")? / number(&self.delivery, "wall")? / 2.0;
        let idle = number(&self.idle, "share_of_a_core")?;
        let targets = [
            (
                "an app of 200 files is read in under a second".to_owned(),
                format!("{reading:.0} ms"),
                reading < MAX_READING,
            ),
            (
                format!("an app of one file starts in {MAX_STARTING} ms"),
                format!("{starting:.1} ms"),
                starting < MAX_STARTING,
            ),
            (
                format!("{} calls of a simple `onEvent` a second", grouped(LEAST_CALLS)),
                format!("{}/s", grouped(calls)),
                calls >= LEAST_CALLS,
            ),
            (
                "1,000 events/s and core from the store through a simple `onEvent`".to_owned(),
                format!("{}/s", grouped(per_core)),
                per_core >= LEAST_EVENTS,
            ),
            (
                format!(
                    "{IDLE} configurations that have nothing to do under {:.0} % of a core",
                    MOST_IDLE * 100.0
                ),
                format!("{:.1} %", idle * 100.0),
                idle < MOST_IDLE,
            ),
        ];
        for (promise, measured, is_met) in targets {
            writeln!(text, "| {promise} | {measured} | {} |", verdict(is_met))?;
        }
        Ok(text)
    }
}
