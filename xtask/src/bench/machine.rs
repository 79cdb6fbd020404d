//! What the numbers were measured on.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::process;

/// Facts about the machine and this checkout, as pairs for a table.
pub(super) fn facts(root: &Path, work_dir: &Path) -> Result<Vec<(&'static str, String)>> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let load = fs::read_to_string("/proc/loadavg")?;
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
    let disk = process::output(Command::new("stat").args(["-f", "-c", "%T"]).arg(work_dir))?;
    Ok(vec![
        ("Date", run("date", &["-u", "+%Y-%m-%d"])?),
        ("Commit", commit(&run)),
        ("Processor", format!("{model}, {cores} cores")),
        ("Memory", format!("{:.0} GiB", kilobytes / 1024.0 / 1024.0)),
        ("Disk", format!("{}, writes flushed", disk.trim())),
        ("Kernel", run("uname", &["-sr"])?),
        ("Load before", load.split(' ').next().unwrap_or("unknown").to_owned()),
        ("Rust", run("rustc", &["--version"])?),
    ])
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
    fn a_value_is_found_behind_its_name() {
        assert_eq!(value_of("a : 1\nMemTotal:   24 kB\n", "MemTotal"), Some("24 kB"));
        assert_eq!(value_of("", "MemTotal"), None);
    }
}
