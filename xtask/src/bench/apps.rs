//! `cargo xtask bench apps`: reading apps, calling them, and handing them events from the store.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

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
    let facts = machine::facts(&crate::root(), &work.0)?;
    let release = crate::target().join("release");
    say("reading and calling");
    let sandbox = json(&process::output(&mut process::command(release.join("examples/speed")))?)?;
    say("handing over");
    let delivery = json(&process::output(process::command(release.join("bench")).arg("apps"))?)?;
    let file = crate::root().join("docs/benchmarks.md");
    let section = super::document::replaced(
        &fs::read_to_string(&file)?,
        "apps",
        &markdown(&facts, &sandbox, &delivery)?,
    )?;
    fs::write(&file, section)?;
    say(&format!("written: {}", file.display()));
    Ok(())
}

fn json(text: &str) -> Result<Value> {
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("no JSON: {text}"))
}

fn markdown(facts: &[(&'static str, String)], sandbox: &Value, delivery: &Value) -> Result<String> {
    let number = |value: &Value, name: &str| {
        value[name]
            .as_f64()
            .with_context(|| format!("no number `{name}` in {value}"))
    };
    let (events, wall) = (number(delivery, "events")?, number(delivery, "wall")?);
    let per_core = events / wall / 2.0;
    let reading = number(sandbox, "read_ms")?;
    let mut text = String::from(
        "## Apps\n\nMeasured by `cargo xtask bench apps`. Reading is parsing, transpiling, loading and finding out what an app \
         offers, in a process of its own. Handing over is the whole way: events from the embedded store, one by one, into a \
         simple `onEvent`, including what is stored in the meantime. The server and the app's process have two cores between \
         them, so the rate per core is half of what was seen, or more.\n\n| | |\n| --- | --- |\n",
    );
    for (name, value) in facts {
        writeln!(text, "| {name} | {value} |")?;
    }
    writeln!(text, "\n| what | measured |\n| --- | ---: |")?;
    for (name, what, unit, digits) in MEASURED {
        writeln!(text, "| {what} | {:.digits$}{unit} |", number(sandbox, name)?)?;
    }
    writeln!(text, "| {events} events from the store to the app | {wall:.2} s |")?;
    writeln!(
        text,
        "\n### Targets of apps\n\n| target | measured | |\n| --- | ---: | --- |"
    )?;
    let met = |is_met: bool| if is_met { "met" } else { "**not met**" };
    writeln!(
        text,
        "| an app of 200 files is read in under a second | {reading:.0} ms | {} |",
        met(reading < MAX_READING)
    )?;
    let starting = number(sandbox, "start_ms")?;
    writeln!(
        text,
        "| an app of one file starts in {MAX_STARTING} ms | {starting:.1} ms | {} |",
        met(starting < MAX_STARTING)
    )?;
    let calls = number(sandbox, "events_per_second")?;
    writeln!(
        text,
        "| {LEAST_CALLS} calls of a simple `onEvent` a second | {calls:.0}/s | {} |",
        met(calls >= LEAST_CALLS)
    )?;
    writeln!(
        text,
        "| 1,000 events/s and core from the store through a simple `onEvent` | {per_core:.0}/s | {} |",
        met(per_core >= LEAST_EVENTS)
    )?;
    Ok(text)
}
