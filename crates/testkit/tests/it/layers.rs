//! Modules in layers: of two, at most one imports the other, by whatever way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders that are in layers, and how their modules are imported.
const IN_LAYERS: [(&str, &str); 1] = [("../api/src/http", "crate::http::")];

#[test]
fn modules_do_not_import_each_other_in_a_circle() {
    for (folder, prefix) in IN_LAYERS {
        let mut left = imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), prefix);
        assert!(
            left.len() > 1 && left.values().any(|imports| !imports.is_empty()),
            "{folder}"
        );
        loop {
            let lowest: Vec<String> = left
                .iter()
                .filter(|(_, imports)| imports.iter().all(|import| !left.contains_key(import)))
                .map(|(name, _)| name.clone())
                .collect();
            if lowest.is_empty() {
                break;
            }
            left.retain(|name, _| !lowest.contains(name));
        }
        assert!(
            left.is_empty(),
            "{folder}: these import each other in a circle: {left:?}"
        );
    }
}

fn imports(folder: &Path, prefix: &str) -> BTreeMap<String, BTreeSet<String>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files
        .map(|path| (name(&path), imports_of(&fs::read_to_string(&path).unwrap(), prefix)))
        .filter(|(name, _)| name != "mod")
        .map(|(own, imports)| (own.clone(), imports.into_iter().filter(|name| *name != own).collect()))
        .collect()
}

/// What is named behind the prefix, alone or in braces. What tests import, and comments, do not count.
fn imports_of(text: &str, prefix: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code: Vec<&str> = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join(" ").replace("super::", prefix);
    let is_name = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    code.split(prefix)
        .skip(1)
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap().split(',').collect(),
            None => vec![rest],
        })
        .map(|path| {
            path.trim()
                .chars()
                .take_while(|char| is_name(*char))
                .collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn imports_are_found_alone_and_in_braces() {
    let text = "use crate::http::error::Problem;\nuse crate::http::{body, json};\n// crate::http::page\nuse super::host;\n\
                #[cfg(test)]\nmod tests {\n use crate::http::query;\n}";
    let found = imports_of(text, "crate::http::");
    assert_eq!(found.iter().collect::<Vec<_>>(), ["body", "error", "host", "json"]);
}
