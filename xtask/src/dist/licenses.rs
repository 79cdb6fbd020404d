//! The licenses of the crates in the binary, with their texts, as these licenses ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{cargo, process};

/// How the files begin that hold a license or what must be said with it.
const FILES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// A list of crates with their licenses, and then each text once, with the crates it came with.
pub(super) fn third_party(triple: &str) -> Result<String> {
    let mut metadata = cargo();
    metadata.args([
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        triple,
    ]);
    let metadata: Value = serde_json::from_str(&process::output(&mut metadata)?)?;
    let used = used_by_server(&metadata)?;
    let mut list = String::from("Hedgerow contains these crates:\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in array(&metadata["packages"]).filter(|package| is_foreign(package, &used)) {
        let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
        writeln!(
            list,
            "{name}: {}",
            package["license"].as_str().unwrap_or("see its license file")
        )?;
        let manifest = Path::new(text(&package["manifest_path"]));
        for file in license_files(manifest.parent().context("a manifest is in a folder")?)? {
            let text = String::from_utf8_lossy(&fs::read(file)?).trim().to_owned();
            texts.entry(text).or_default().push(name.clone());
        }
    }
    for (text, names) in texts {
        write!(list, "\n{}\n{}\n\n{text}\n", "-".repeat(80), names.join(", "))?;
    }
    Ok(list)
}

/// Of this package, and from a registry.
fn is_foreign(package: &Value, used: &BTreeSet<&str>) -> bool {
    !package["source"].is_null() && used.contains(text(&package["id"]))
}

/// The ids of what the server is linked with; what only builds and tests need is not in the binary.
fn used_by_server(metadata: &Value) -> Result<BTreeSet<&str>> {
    let server = array(&metadata["packages"]).find(|package| package["name"] == "server");
    let nodes: BTreeMap<&str, &Value> = array(&metadata["resolve"]["nodes"])
        .map(|node| (text(&node["id"]), node))
        .collect();
    let mut used = BTreeSet::new();
    let mut next = vec![text(&server.context("there is no package `server`")?["id"])];
    while let Some(id) = next.pop() {
        if used.insert(id) {
            let node = nodes.get(id).with_context(|| format!("{id} is not resolved"))?;
            let linked = |dependency: &&Value| array(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
            next.extend(
                array(&node["deps"])
                    .filter(linked)
                    .map(|dependency| text(&dependency["pkg"])),
            );
        }
    }
    Ok(used)
}

fn license_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_license = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && FILES.iter().any(|start| name.starts_with(start))
    };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(is_license)
        .collect();
    files.sort();
    Ok(files)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
