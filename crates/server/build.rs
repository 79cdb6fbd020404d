//! Tells the binary which commit it is built from, and when. Runs again when `HEAD` moves, not with every build.

use std::io::{Result, Write, stdout};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const UNKNOWN: &str = "unknown";
const SECONDS_PER_DAY: i64 = 86_400;
/// Each exists or not, depending on what git has done before; one of them changes with every commit and checkout.
const MOVED_WITH_HEAD: [&str; 3] = ["HEAD", "logs/HEAD", "packed-refs"];

fn main() -> Result<()> {
    let in_git = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let from_git = || in_git.then(|| git(&["rev-parse", "--short=12", "HEAD"])).flatten();
    let commit = given("SOURCE_COMMIT").map(|commit| commit.chars().take(12).collect());
    let commit: String = commit.or_else(from_git).unwrap_or_else(|| UNKNOWN.to_owned());
    let epoch = given("SOURCE_DATE_EPOCH").and_then(|seconds| seconds.parse().ok());
    let date = date(epoch.unwrap_or_else(now));
    let version = env!("CARGO_PKG_VERSION");

    let mut out = stdout().lock();
    writeln!(out, "cargo::rustc-env=BUILD_COMMIT={commit}")?;
    writeln!(out, "cargo::rustc-env=BUILD_VERSION={version} ({commit} {date})")?;
    writeln!(out, "cargo::rerun-if-changed=build.rs")?;
    for variable in ["SOURCE_COMMIT", "SOURCE_DATE_EPOCH"] {
        writeln!(out, "cargo::rerun-if-env-changed={variable}")?;
    }
    if in_git {
        let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
        let names = MOVED_WITH_HEAD.into_iter().chain(branch.as_deref());
        // A path that is not there would make every build run this again.
        let paths = names.filter_map(|name| git(&["rev-parse", "--git-path", name]));
        for path in paths.filter(|path| Path::new(path).exists()) {
            writeln!(out, "cargo::rerun-if-changed={path}")?;
        }
    }
    Ok(())
}

fn given(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// What git says; none without git, or outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[expect(clippy::disallowed_methods, reason = "a build has no clock of its own")]
fn now() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or_default()
}

/// The date in UTC, as `2026-11-17`. Years are counted from March, so that leap days come last.
fn date(seconds: i64) -> String {
    let days = seconds.div_euclid(SECONDS_PER_DAY) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
