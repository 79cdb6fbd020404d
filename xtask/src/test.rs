//! Everything that must hold, one step after the other, with a summary at the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::postgres::Cluster;
use crate::process::WorkDir;
use crate::{browser, cargo, checks, live, parts, say, target};

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
    result: Result<()>,
}

/// `cargo xtask test`
pub(crate) fn everything() -> Result<()> {
    let work = WorkDir::new("test")?;
    let cluster = Cluster::start(&work.0, &FAST)?;
    let mut done = checks();
    done.push(step("build", build));
    done.push(step("real parts, installed", parts::install));
    done.push(step("tests, on SQLite and PostgreSQL", || tests(&cluster)));
    done.push(step("the console, in a browser", || browser::journeys(&[])));
    done.push(step("the document, linted", checks::document));
    done.push(step("schemathesis, on SQLite", || live::on_sqlite(&work.0)));
    done.push(step("schemathesis, on PostgreSQL", || {
        live::on_postgres(&work.0, &cluster)
    }));
    summary(&done)
}

/// `cargo xtask check`
pub(crate) fn checks_only() -> Result<()> {
    summary(&checks())
}

fn checks() -> Vec<Done> {
    vec![
        step("format", checks::format),
        step("lints", checks::lints),
        step("licences and sources of dependencies", checks::dependencies),
    ]
}

fn build() -> Result<()> {
    checks::run(cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))
}

fn tests(cluster: &Cluster) -> Result<()> {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--quiet", "--no-fail-fast"]);
    checks::run(
        tests
            .env("TESTKIT_POSTGRES", cluster.url())
            .env("TESTKIT_PARTS", parts::folder())
            .env("TESTKIT_SCREENSHOTS", target().join("screenshots"))
            .env("CARGO_TARGET_DIR", target()),
    )
}

/// `cargo xtask parts`
pub(crate) fn parts_only() -> Result<()> {
    summary(&[step("real parts, installed", parts::install)])?;
    say(&format!("export TESTKIT_PARTS={}", parts::folder().display()));
    Ok(())
}

fn step(name: &'static str, work: impl FnOnce() -> Result<()>) -> Done {
    say(&format!("\n── {name}"));
    let started = Instant::now();
    let result = work();
    if let Err(error) = &result {
        say(&format!("   failed: {error:#}"));
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
        let mark = if result.is_ok() { "ok    " } else { "FAILED" };
        say(&format!("   {mark}  {:>6.1} s  {name}", took.as_secs_f64()));
    }
    let failed = done.iter().filter(|done| done.result.is_err()).count();
    say(&format!("\n{} passed, {failed} failed", done.len() - failed));
    if failed > 0 {
        bail!("{failed} of {} steps failed", done.len());
    }
    Ok(())
}
