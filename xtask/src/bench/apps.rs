//! `cargo xtask bench apps`: reading apps, calling them, and handing them events from the store.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::machine;
use crate::process::{self, WorkDir};
use crate::say;

/// What an app of 200 files may take to read, in milliseconds.
const MOST_READING: f64 = 1000.0;
/// Events a second and core that a simple `onEvent` gets at least.
const LEAST_EVENTS: f64 = 1000.0;

/// What the sandbox alone is measured by, and what that is.
const MEASURED: [(&str, &str, &str); 5] = [
    ("read_ms", "read an app of 200 files", " ms"),
    ("open_ms", "start it", " ms"),
    ("events_per_second", "`onEvent`, in batches of 1,000", "/s"),
    ("webhooks_per_second", "`composeWebhook`", "/s"),
    (
        "events_with_a_request_per_second",
        "`onEvent` with a request, to a host that responds immediately",
        "/s",
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
    for (name, what, unit) in MEASURED {
        writeln!(text, "| {what} | {:.0}{unit} |", number(sandbox, name)?)?;
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
        met(reading < MOST_READING)
    )?;
    writeln!(
        text,
        "| 1,000 events/s and core through a simple `onEvent` | {per_core:.0}/s | {} |",
        met(per_core >= LEAST_EVENTS)
    )?;
    Ok(text)
}
