//! The metrics that alerts and the dashboard use, compared with those that the server exports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::root;

const PREFIX: &str = "hedgerow_";
/// The macros that register a metric.
const KINDS: [&str; 3] = ["counter!(", "gauge!(", "histogram!("];
const OF_HISTOGRAMS: [&str; 3] = ["_bucket", "_sum", "_count"];
const USERS: [&str; 2] = [
    "packaging/grafana/hedgerow.json",
    "packaging/prometheus/hedgerow.rules.yml",
];

/// Names and the macro they are registered with.
type Metrics = BTreeMap<String, &'static str>;

/// Every metric that is used is exported, and the dashboard shows every one that is.
pub(crate) fn compare() -> Result<()> {
    let exported = exported()?;
    for file in USERS {
        for name in used(&fs::read_to_string(root().join(file))?) {
            ensure!(
                is_exported(&name, &exported),
                "{file} uses {name}, which the server does not export"
            );
        }
    }
    let shown = used(&fs::read_to_string(root().join(USERS[0]))?);
    for name in exported.keys() {
        let is_shown = shown.iter().any(|shown| shown.starts_with(name.as_str()));
        ensure!(is_shown, "the dashboard {} does not show {name}", USERS[0]);
    }
    Ok(())
}

/// What a running server really exports is what was found in the source.
pub(crate) fn compare_with_page(page: &str) -> Result<()> {
    let exported = exported()?;
    let names: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with(PREFIX))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    ensure!(
        names.contains(&"hedgerow_http_requests_total") && names.contains(&"hedgerow_build_info"),
        "the server exports no metrics:\n{page}"
    );
    for name in names {
        ensure!(
            is_exported(name, &exported),
            "{name} is exported, but not found in the source"
        );
    }
    Ok(())
}

fn is_exported(name: &str, exported: &Metrics) -> bool {
    let of_histogram = |suffix: &str| {
        let kind = name.strip_suffix(suffix).and_then(|base| exported.get(base));
        kind.is_some_and(|kind| *kind == "histogram!(")
    };
    // A histogram has no series of its bare name.
    exported.get(name).is_some_and(|kind| *kind != "histogram!(") || OF_HISTOGRAMS.into_iter().any(of_histogram)
}

/// Every word that begins like a metric.
fn used(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words
        .filter(|word| word.starts_with(PREFIX))
        .map(str::to_owned)
        .collect()
}

/// What the crates register, by their source.
fn exported() -> Result<Metrics> {
    let mut metrics = Metrics::new();
    for crate_ in fs::read_dir(root().join("crates"))?.flatten() {
        let source = crate_.path().join("src");
        if source.is_dir() {
            read_folder(&source, &mut metrics)?;
        }
    }
    ensure!(!metrics.is_empty(), "no metric is registered anywhere");
    Ok(metrics)
}

fn read_folder(folder: &Path, metrics: &mut Metrics) -> Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_folder(&path, metrics)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            registered(&fs::read_to_string(&path)?, metrics);
        }
    }
    Ok(())
}

fn registered(source: &str, metrics: &mut Metrics) {
    for kind in KINDS {
        for (at, _) in source.match_indices(kind) {
            // `describe_counter!` only explains one.
            let is_description = source[..at].ends_with('_');
            let rest = source[at + kind.len()..].trim_start().strip_prefix('"');
            let name = rest.and_then(|rest| rest.split('"').next());
            if let Some(name) = name.filter(|name| name.starts_with(PREFIX) && !is_description) {
                metrics.insert(name.to_owned(), kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_and_the_dashboard_use_metrics_that_exist() -> Result<()> {
        compare()
    }

    #[test]
    fn registered_metrics_are_told_from_described_ones() {
        let mut metrics = Metrics::new();
        registered(
            "metrics::describe_counter!(\"hedgerow_a\", \"A.\"); metrics::counter!(\n    \"hedgerow_b_total\");\n\
             histogram!(\"hedgerow_c_seconds\"); const STAGE: &str = \"hedgerow_stage\";",
            &mut metrics,
        );
        assert!(is_exported("hedgerow_b_total", &metrics) && is_exported("hedgerow_c_seconds_bucket", &metrics));
        for name in [
            "hedgerow_a",
            "hedgerow_b_total_sum",
            "hedgerow_c_seconds",
            "hedgerow_stage",
        ] {
            assert!(!is_exported(name, &metrics), "{name}");
        }
    }

    #[test]
    fn names_are_found_in_expressions() {
        let found = used("sum(rate(hedgerow_a_total{job=\"hedgerow\"}[5m])) / hedgerow_b");
        assert_eq!(found, ["hedgerow_a_total", "hedgerow_b"]);
    }
}
