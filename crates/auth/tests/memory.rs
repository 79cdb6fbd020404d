//! What refusing a hostile SAML response costs in memory. A binary with one test: the figure is the whole process's.

use auth::saml::unverified;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const MAX: u64 = 16 * 1024 * 1024;

/// Bytes, as the kernel counts them.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(field)).expect("a field");
    let kilobytes = line
        .split_whitespace()
        .nth(1)
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a number") * 1024
}

/// How far memory rose above what it was before.
fn rise(saml_response: &str) -> u64 {
    // From now on the peak is counted from here.
    std::fs::write("/proc/self/clear_refs", "5").expect("one's own counter");
    let before = status("VmRSS:");
    assert!(unverified(saml_response).is_err(), "refused");
    status("VmHWM:").saturating_sub(before)
}

#[test]
fn refusing_a_hostile_response_takes_at_most_16_megabytes() {
    let size = 250_000;
    let repeated = |count: usize, piece: fn(usize) -> String| (0..count).map(piece).collect::<Vec<_>>().concat();
    let namespaces = repeated(49, |number| format!(" xmlns:a{number}='x'"));
    let attributes = repeated(size / 10, |number| format!(" a{number}=''"));
    let laughs = "<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]><l>&b;</l>";
    for bomb in [
        "<a>".repeat(size / 3),
        format!("<a>{}</a>", "<b/>".repeat(size / 5)),
        format!("<a{attributes}/>"),
        format!("<a{namespaces}>{}</a>", "<b xmlns:a1='y'/>".repeat(10_000)),
        format!("<a>{}</a>", "&amp;".repeat(size / 6)),
        format!("<a b='{}'/>", "&#9;".repeat(size / 5)),
        laughs.to_owned(),
        "<".repeat(size),
        "A".repeat(10_000_000),
    ] {
        let start: String = bomb.chars().take(20).collect();
        let rise = rise(&STANDARD.encode(bomb));
        assert!(rise < MAX, "{rise} bytes for {start}…");
    }
}
