//! Who may import whom. A new crate, or a new arrow, is a decision: write it here and into ARCHITECTURE.md.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Each crate of ours and those it may import, tests aside.
const MAY_IMPORT: [(&str, &[&str]); 16] = [
    (
        "api",
        &["apps", "events", "exports", "identity", "service", "untrusted_json"],
    ),
    (
        "apps",
        &["boxed", "events", "outbound", "sandbox", "service", "untrusted_json"],
    ),
    ("auth", &["untrusted_json"]),
    ("boxed", &[]),
    (
        "console",
        &["apps", "auth", "exports", "identity", "service", "untrusted_json"],
    ),
    ("events", &["boxed", "hogql", "outbound", "untrusted_json"]),
    ("exports", &["boxed", "events", "hogql", "outbound", "service"]),
    ("hogql", &[]),
    ("identity", &["auth", "boxed", "outbound", "service"]),
    ("outbound", &[]),
    ("sandbox", &["untrusted_json"]),
    (
        "server",
        &[
            "api", "apps", "auth", "console", "events", "exports", "hogql", "identity", "outbound", "sandbox",
            "service",
        ],
    ),
    ("service", &["auth", "boxed", "hogql", "untrusted_json"]),
    (
        "testkit",
        &[
            "api", "apps", "auth", "events", "exports", "hogql", "identity", "outbound", "sandbox", "service",
        ],
    ),
    ("untrusted_json", &[]),
    ("xtask", &[]),
];

/// Dependencies that only the listed crates can import.
const ONLY_IN: [(&str, &[&str]); 16] = [
    ("sqlx", &["service", "testkit"]),
    ("axum", &["api", "console", "server", "testkit"]),
    ("aide", &["api"]),
    ("argon2", &["auth"]),
    // One parser for what identity providers send: two can be made to disagree.
    ("roxmltree", &["auth"]),
    // One guarded way out: see the crate `outbound`.
    ("reqwest", &["outbound"]),
    ("hickory-resolver", &["outbound"]),
    ("lettre", &["outbound"]),
    ("arrow", &["events", "exports", "testkit"]),
    ("object_store", &["exports"]),
    ("parquet", &["events", "exports"]),
    ("rusqlite", &["events", "testkit"]),
    ("sqlparser", &["hogql"]),
    ("tokio-postgres", &["exports"]),
    // What the authors of apps wrote is parsed and run in a process of its own.
    ("oxc", &["sandbox"]),
    ("rquickjs", &["sandbox"]),
];

fn imports() -> BTreeMap<String, Vec<String>> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let output = command.output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let imports = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap();
        all.iter().filter(|import| import["kind"].is_null()).map(name).collect()
    };
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (name(package), imports(package)))
        .collect()
}

#[test]
fn crates_import_only_what_they_may() {
    let imports = imports();
    let known: Vec<&str> = MAY_IMPORT.iter().map(|(name, _)| *name).collect();
    assert_eq!(imports.keys().collect::<Vec<_>>(), known, "a crate came or went");
    for (name, allowed) in MAY_IMPORT {
        let ours = imports[name].iter().filter(|import| known.contains(&import.as_str()));
        for import in ours {
            assert!(allowed.contains(&import.as_str()), "{name} must not import {import}");
        }
    }
}

#[test]
fn heavy_crates_stay_behind_one_door() {
    for (import, allowed) in ONLY_IN {
        for (name, imports) in imports() {
            let is_allowed = allowed.contains(&name.as_str());
            assert!(
                is_allowed || !imports.contains(&import.to_owned()),
                "{name} must not import {import}"
            );
        }
    }
}
