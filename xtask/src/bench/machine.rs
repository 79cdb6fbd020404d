//! What the numbers were measured on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;

/// The share of the processor that others may take while we measure.
const QUIET: f64 = 0.05;
const QUIET_TRIES: usize = 15;

/// Facts about the machine and this checkout, as pairs for a table.
pub(super) fn facts(root: &Path, work_dir: &Path) -> Result<Vec<(&'static str, String)>> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let run = |program: &str, arguments: &[&str]| -> Result<String> {
        Ok(
            process::output(Command::new(program).current_dir(root).args(arguments))?
                .trim()
                .to_owned(),
        )
    };
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let model = value_of(&cpu, "model name").unwrap_or("unknown");
    let kilobytes: f64 = value_of(&memory, "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or(0.0);
    let disk = process::output(Command::new("df").arg("--output=fstype").arg(work_dir))?;
    Ok(vec![
        ("Date", run("date", &["-u", "+%Y-%m-%d"])?),
        ("Commit", commit(&run)),
        ("Processor", format!("{model}, {cores} cores")),
        ("Memory", format!("{:.0} GiB", kilobytes / 1024.0 / 1024.0)),
        (
            "File system",
            disk.lines().last().unwrap_or("unknown").trim().to_owned(),
        ),
        ("Kernel", run("uname", &["-sr"])?),
        ("Rust", run("rustc", &["--version"])?),
    ])
}

/// Waits for other programs to leave the processor alone; returns the share of it they still take.
pub(super) fn wait_for_quiet() -> Result<f64> {
    let mut share = busy_share()?;
    for _ in 0..QUIET_TRIES {
        if share < QUIET {
            return Ok(share);
        }
        process::pause(Duration::from_secs(1));
        share = busy_share()?;
    }
    crate::say(&format!(
        "other programs take {:.0} % of the processor: the numbers will be too low",
        share * 100.0
    ));
    Ok(share)
}

fn busy_share() -> Result<f64> {
    let before = times()?;
    process::pause(Duration::from_secs(1));
    Ok(others(before, times()?, 0.0))
}

/// Busy and all time of the processor since the machine started, in hundredths of a second.
pub(super) fn times() -> Result<(f64, f64)> {
    processor_times(&fs::read_to_string("/proc/stat")?)
}

/// The share of the processor that was taken between two moments, but for these seconds of our own.
pub(super) fn others(before: (f64, f64), after: (f64, f64), own_seconds: f64) -> f64 {
    let (busy, all) = (after.0 - before.0, after.1 - before.1);
    if all > 0.0 {
        ((busy - own_seconds * 100.0) / all).max(0.0)
    } else {
        0.0
    }
}

/// Busy and all time, from the line `cpu USER NICE SYSTEM IDLE IOWAIT …`.
fn processor_times(stat: &str) -> Result<(f64, f64)> {
    let line = stat
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("cpu "))
        .context("no processor in /proc/stat")?;
    let times: Vec<f64> = line.split_whitespace().filter_map(|time| time.parse().ok()).collect();
    let all: f64 = times.iter().sum();
    let idle: f64 = times.iter().skip(3).take(2).sum();
    Ok((all - idle, all))
}

/// The short hash; uncommitted changes are marked, as nobody else can measure them.
fn commit(run: &dyn Fn(&str, &[&str]) -> Result<String>) -> String {
    let Ok(hash) = run("git", &["rev-parse", "--short", "HEAD"]) else {
        return "none yet".into();
    };
    let is_clean = run("git", &["status", "--porcelain"]).is_ok_and(|changes| changes.is_empty());
    if is_clean { hash } else { format!("{hash}-dirty") }
}

fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_time_is_not_busy() -> Result<()> {
        assert_eq!(processor_times("cpu  10 0 5 80 5 0 0 0\ncpu0 1\n")?, (15.0, 100.0));
        assert!(processor_times("").is_err());
        Ok(())
    }

    #[test]
    fn our_own_time_is_not_that_of_others() {
        let share = others((0.0, 100.0), (150.0, 300.0), 1.0);
        assert!((share - 0.25).abs() < 1e-9, "{share}");
        assert!(others((5.0, 9.0), (5.0, 9.0), 0.0).abs() < 1e-9);
    }

    #[test]
    fn a_value_is_found_behind_its_name() {
        assert_eq!(value_of("a : 1\nMemTotal:   24 kB\n", "MemTotal"), Some("24 kB"));
        assert_eq!(value_of("", "MemTotal"), None);
    }
}
