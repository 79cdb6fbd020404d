//! Everything that must hold, one step after the other, with a summary at the end.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use crate::cargo_test::Choice;
use crate::outcome::Outcome;
use crate::postgres::Cluster;
use crate::process::WorkDir;
use crate::{browser, cargo_test, checks, components, docs, linting_cargo, live, packaging, say, target};

/// Databases of tests need not survive a power cut.
const FAST: [&str; 4] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_connections=300",
];

struct Done {
    name: &'static str,
    took: Duration,
    result: Result<Outcome>,
}

/// `cargo xtask test`
pub(crate) fn everything() -> Result<()> {
    let work = WorkDir::new("test")?;
    let cluster = Cluster::start(&work.0, &FAST)?;
    // Downloading takes little of the processor, which the compiler needs.
    let installing = thread::spawn(|| timed("external services, installed", components::install));
    let mut done = vec![step("format", checks::format), step("build, with lints", build)];
    done.extend(checks());
    done.extend(packaging_steps());
    done.push(installing.join().map_err(|_| anyhow!("installing panicked"))?);
    done.push(step("tests, on SQLite and PostgreSQL", || tests(&cluster, Choice::All)));
    // Both wait for each request to be answered, and for little else.
    let browsing = thread::spawn(|| step("the console, in a browser", || browser::journeys(&[])));
    done.push(step("the OpenAPI spec, linted", checks::openapi_spec));
    done.push(step("schemathesis, on SQLite", || live::on_sqlite(&work.0)));
    done.push(step("schemathesis, on PostgreSQL", || {
        live::on_postgres(&work.0, &cluster)
    }));
    done.push(browsing.join().map_err(|_| anyhow!("browsing panicked"))?);
    summary(&done)
}

/// `cargo xtask test --fast`: what needs few components and little time, for those who are about to commit.
pub(crate) fn fast() -> Result<()> {
    let work = WorkDir::new("test")?;
    let cluster = Cluster::start(&work.0, &FAST)?;
    let mut done = vec![step("format", checks::format), step("build, with lints", build)];
    done.push(step("links, pages and tests of the documentation", docs::check));
    done.push(step("external services, installed", components::install));
    done.push(step("most tests, on SQLite and PostgreSQL", || {
        tests(&cluster, Choice::Fast)
    }));
    summary(&done)
}

/// `cargo xtask check`
pub(crate) fn checks_only() -> Result<()> {
    let mut done = vec![step("format", checks::format), step("lints", checks::lints)];
    done.extend(checks());
    summary(&done)
}

fn checks() -> Vec<Done> {
    vec![
        step("links, pages and tests of the documentation", docs::check),
        step("licenses and sources of dependencies", checks::dependencies),
        step("known vulnerabilities of dependencies", checks::advisories),
    ]
}

/// `cargo xtask packaging`
pub(crate) fn packaging_only() -> Result<()> {
    summary(&packaging_steps())
}

fn packaging_steps() -> Vec<Done> {
    vec![
        step("systemd units", packaging::units),
        step("scripts of packages", packaging::scripts),
        step("Dockerfile and Compose file", packaging::containers),
        step("Helm chart", packaging::chart),
        step("dashboard and alerts", packaging::monitoring),
    ]
}

/// As `cargo test` does it, which also builds the binaries and examples. `cargo build --all-targets` has another hash for procedural macros, so that all
/// crates with `#[boxed]` would be compiled again for the tests.
fn build() -> Result<()> {
    checks::run(linting_cargo().args(["test", "--workspace", "--no-run", "--quiet"]))
}

fn tests(cluster: &Cluster, choice: Choice) -> Result<Outcome> {
    let temporary = WorkDir::in_memory("temporary")?;
    cargo_test::run(choice, |command| {
        command
            .env("TMPDIR", &temporary.0)
            .env("TESTKIT_POSTGRES", cluster.url())
            .env("TESTKIT_COMPONENTS", components::folder())
            .env("TESTKIT_SCREENSHOTS", target().join("screenshots"))
            .env("CARGO_TARGET_DIR", target());
    })
}

/// `cargo xtask components`
pub(crate) fn components_only() -> Result<()> {
    summary(&[step("external services, installed", components::install)])?;
    say(&format!("export TESTKIT_COMPONENTS={}", components::folder().display()));
    Ok(())
}

fn step<O: Into<Outcome>>(name: &'static str, work: impl FnOnce() -> Result<O>) -> Done {
    say(&format!("\n── {name}"));
    timed(name, work)
}

fn timed<O: Into<Outcome>>(name: &'static str, work: impl FnOnce() -> Result<O>) -> Done {
    let started = Instant::now();
    let result = work().map(Into::into);
    match &result {
        Ok(Outcome::Passed | Outcome::PassedAlone(_)) => {}
        Ok(Outcome::Skipped(why)) => say(&format!("   skipped: {why}")),
        Err(error) => say(&format!("   {name} failed: {error:#}")),
    }
    Done {
        name,
        took: started.elapsed(),
        result,
    }
}

/// Ends with the line that CI reads.
fn summary(done: &[Done]) -> Result<()> {
    say("\n── summary");
    for Done { name, took, result } in done {
        let mark = match result {
            Ok(Outcome::Passed) => "ok     ",
            Ok(Outcome::PassedAlone(_)) => "FLAKY  ",
            Ok(Outcome::Skipped(_)) => "SKIPPED",
            Err(_) => "FAILED ",
        };
        say(&format!("   {mark}  {:>6.1} s  {name}", took.as_secs_f64()));
        if let Ok(Outcome::PassedAlone(tests)) = result {
            say(&format!(
                "            failed beside others, passed alone: {}",
                tests.join(", ")
            ));
        }
    }
    let failed = done.iter().filter(|done| done.result.is_err()).count();
    let is_skipped = |done: &&Done| matches!(done.result, Ok(Outcome::Skipped(_)));
    let skipped = done.iter().filter(is_skipped).count();
    let passed = done.len() - failed - skipped;
    say(&format!("\n{passed} passed, {failed} failed, {skipped} skipped"));
    if failed > 0 {
        bail!("{failed} of {} steps failed", done.len());
    }
    Ok(())
}
