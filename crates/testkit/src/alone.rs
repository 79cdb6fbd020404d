//! Tests that measure their process, which they would otherwise share with all tests of their binary.

use std::process::Command;

const ALONE: &str = "TESTKIT_ALONE";

/// Whether this process runs nothing but `test`. If not, starts one that does, and fails unless the test passes there: the caller
/// then has nothing left to do.
pub fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("the test knows where it is");
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("the test starts again");
    let shown = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}{}", shown[0], shown[1]);
    assert!(shown[0].contains("1 passed"), "there is no test `{test}`");
    false
}

/// The memory of this process, in bytes.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// The most memory that this process has had, in bytes.
pub fn peak() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .expect("a field");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>();
    kilobytes.expect("a number") * 1024
}
