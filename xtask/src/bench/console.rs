//! `cargo xtask bench console`: how long the server takes for the console's pages, when there is much to show.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::build::build;
use super::servers::{Hedgerow, Ready};
use super::{document, machine};
use crate::http::{self, Request};
use crate::process::WorkDir;
use crate::{root, say, target};

const MEMBERS: u32 = 10_000;
const EXPORTS: u32 = 1_000;
/// What 95 of 100 answers may take.
const MAX: Duration = Duration::from_millis(50);
/// How often each page is asked for, and how often before that counts.
const TIMES: usize = 200;
const WARM_UP: usize = 10;

/// The pages below an organization, and what they are called in the report.
const PAGES: [(&str, &str); 12] = [
    ("Overview", ""),
    ("Members", "members/"),
    ("Members, the last page", "members/?page=200"),
    ("Members, searched for", "members/?search=last77"),
    ("Invites", "invites/"),
    ("Teams", "teams/"),
    ("Domains", "domains/"),
    ("Batch exports", "exports/"),
    ("Batch exports, the last page", "exports/?page=20"),
    ("Apps", "apps/"),
    ("Activity", "activity/"),
    ("Settings", "settings/"),
];

struct Measured {
    title: &'static str,
    bytes: usize,
    median: Duration,
    p95: Duration,
}

/// Measures and writes the report into docs.
pub(crate) fn console() -> Result<()> {
    build()?;
    let work = WorkDir::new("bench-console")?;
    let facts = machine::facts(&root(), &work.0)?;
    let amounts = [("--organizations", 1), ("--members", MEMBERS), ("--exports", EXPORTS)];
    let binary = target().join("release/hedgerow");
    let hedgerow = Hedgerow::seeded_with(&binary, &work.0.join("data"), None, &amounts)?;
    let ready = hedgerow.start()?;
    let cookie = hedgerow.sign_in(ready.port)?;
    machine::wait_for_quiet()?;
    let mut pages: Vec<(&'static str, String)> = PAGES.map(|(title, below)| (title, hedgerow.page(below))).into();
    pages.push(("One batch export", hedgerow.page(&export(&hedgerow, &ready)?)));
    let mut measured = Vec::new();
    for (title, path) in pages {
        let page = measure(ready.port, title, &path, &cookie)?;
        say(&format!("  {title:<30} p95 {:>6.1} ms", milliseconds(page.p95)));
        measured.push(page);
    }
    let file = root().join("docs/benchmarks.md");
    let written = document::replaced(&fs::read_to_string(&file)?, "console", &markdown(&facts, &measured)?)?;
    fs::write(&file, written)?;
    say(&format!("written: {}", file.display()));
    Ok(())
}

/// The page of the newest export, below the organization.
fn export(hedgerow: &Hedgerow, ready: &Ready) -> Result<String> {
    let answer = http::send(ready.port, &hedgerow.exports())?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    let id = list["results"][0]["id"].as_str().context("there is no export")?;
    Ok(format!("exports/{id}/"))
}

/// One request after the other, each over a connection of its own.
fn measure(port: u16, title: &'static str, path: &str, cookie: &str) -> Result<Measured> {
    let request = Request::get(path).header("Cookie", cookie);
    let mut bytes = 0;
    let mut took = Vec::with_capacity(TIMES);
    for number in 0..WARM_UP + TIMES {
        let started = Instant::now();
        let answer = http::send(port, &request)?;
        let elapsed = started.elapsed();
        ensure!(answer.status == 200, "{path} answered with {}", answer.status);
        bytes = answer.body.len();
        if number >= WARM_UP {
            took.push(elapsed);
        }
    }
    took.sort_unstable();
    Ok(Measured {
        title,
        bytes,
        median: took[TIMES / 2],
        p95: took[TIMES * 95 / 100],
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn markdown(facts: &[(&'static str, String)], measured: &[Measured]) -> Result<String> {
    let mut text = format!(
        "## The console\n\nMeasured by `cargo xtask bench console`: a session of the owner of an organization with \
         {} members and {} exports of ten runs each, on SQLite; each page {TIMES} times, one after the other, each over \
         a connection of its own, until the last byte.\n\n| | |\n| --- | --- |\n",
        document::grouped(f64::from(MEMBERS)),
        document::grouped(f64::from(EXPORTS))
    );
    for (name, value) in facts {
        writeln!(text, "| {name} | {value} |")?;
    }
    writeln!(text, "\n| page | bytes | p50 | p95 |\n| --- | ---: | ---: | ---: |")?;
    for page in measured {
        let (median, p95) = (milliseconds(page.median), milliseconds(page.p95));
        writeln!(
            text,
            "| {} | {} | {median:.1} ms | {p95:.1} ms |",
            page.title, page.bytes
        )?;
    }
    let slowest = measured.iter().map(|page| page.p95).max().unwrap_or_default();
    let met = if slowest < MAX { "met" } else { "**not met**" };
    writeln!(
        text,
        "\n### Target of the console\n\n| target | measured | |\n| --- | ---: | --- |\n\
         | every page under {} ms at p95 | {:.1} ms | {met} |",
        MAX.as_millis(),
        milliseconds(slowest)
    )?;
    Ok(text)
}
