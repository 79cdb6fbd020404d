//! Fuzzes the SAML verifier: `cargo run --release -p auth --example fuzz_saml -- 200000 1` (runs, seed).

#[path = "../tests/it/saml/fixtures.rs"]
mod fixtures;
#[path = "../tests/it/saml/fuzz.rs"]
mod fuzz;
#[path = "../tests/it/saml/judge.rs"]
mod judge;
#[path = "../tests/it/saml/mutation.rs"]
mod mutation;
#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/saml/signer.rs"]
mod signer;

use std::io::{Write as _, stderr, stdout};
use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Ok(runs), Ok(seed)) = (
        arguments.next().unwrap_or(Ok(10_000)),
        arguments.next().unwrap_or(Ok(1)),
    ) else {
        writeln!(stderr(), "usage: fuzz_saml [runs] [seed]")?;
        return Ok(ExitCode::FAILURE);
    };
    let step = (runs / 10).max(1);
    let summary = fuzz::run(runs, seed, |so_far| {
        if so_far.runs % step == 0 {
            // Progress is a courtesy: a closed terminal must not end the run.
            let _ = writeln!(
                stderr(),
                "{} of {runs} runs, {} failures",
                so_far.runs,
                so_far.failures.len()
            );
        }
    });
    report(&summary, seed)?;
    let judge = judge::Judge::new();
    let disputed: Vec<&String> = summary.doubtful.iter().filter(|xml| !judge.agrees(xml)).collect();
    writeln!(
        stdout(),
        "{:>9} of {} changed and accepted documents are refused by xmlsec1: {disputed:?}",
        disputed.len(),
        summary.doubtful.len()
    )?;
    let is_clean = summary.failures.is_empty() && summary.sessions == 0 && disputed.is_empty();
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(summary: &fuzz::Summary, seed: u64) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "seed {seed}: {} runs", summary.runs)?;
    writeln!(
        out,
        "{:>9} accepted, each with exactly the assertion of a genuine response",
        summary.accepted
    )?;
    writeln!(out, "{:>9} of them would have opened a session", summary.sessions)?;
    for (rule, count) in &summary.refused {
        writeln!(out, "{count:>9} refused: {rule}")?;
    }
    for failure in &summary.failures {
        writeln!(out, "FAILURE {failure}")?;
    }
    Ok(())
}
