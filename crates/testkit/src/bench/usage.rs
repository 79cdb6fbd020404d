//! What processes have used so far, as Linux counts it.

use std::fs;

use anyhow::Context;

/// User and system time of all threads of a process, in seconds; of one thread alone if this is `PROCESS/task/THREAD`. Linux counts in
/// hundredths.
pub fn cpu_seconds(process: &str) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after_name = stat.rsplit(')').next().context("a name in parentheses")?;
    let mut ticks = 0.0;
    for number in after_name.split_whitespace().skip(11).take(2) {
        ticks += number.parse::<f64>()?;
    }
    Ok(ticks / 100.0)
}

/// The most memory that this process ever had, in megabytes.
pub(super) fn peak_megabytes() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.split_whitespace().next());
    Ok(kilobytes.context("Linux tells the peak")?.parse::<f64>()? / 1000.0)
}
