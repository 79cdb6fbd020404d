//! The page of invariants: a numbered list, and below each sentence the tests that prove it, as `crate::name`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::Result;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::files::files_of;
use crate::root;

/// Invariants that no test is named for, and tests that are not there.
pub(super) fn without_test(text: &str) -> Result<Vec<String>> {
    let invariants = invariants(text);
    let mut known: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut problems = Vec::new();
    if invariants.is_empty() {
        problems.push("the page of invariants lists none".to_owned());
    }
    for (index, tests) in invariants.iter().enumerate() {
        let number = index + 1;
        if tests.is_empty() {
            problems.push(format!("invariant {number} names no test"));
        }
        for test in tests {
            let (krate, name) = test.split_once("::").unwrap_or(("", test));
            let known = match known.entry(krate) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(tests_of(krate)?),
            };
            if !known.contains(name) {
                problems.push(format!("invariant {number}: there is no test {test}"));
            }
        }
    }
    Ok(problems)
}

/// The tests below each item of the outer list.
fn invariants(text: &str) -> Vec<Vec<String>> {
    let (mut found, mut depth) = (Vec::<Vec<String>>::new(), 0);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::List(_)) => depth += 1,
            Event::End(TagEnd::List(_)) => depth -= 1,
            Event::Start(Tag::Item) if depth == 1 => found.push(Vec::new()),
            Event::Code(code) if depth == 2 => {
                if let Some(tests) = found.last_mut() {
                    tests.push(code.to_string());
                }
            }
            _ => {}
        }
    }
    found
}

/// The functions in the test code of a crate.
fn tests_of(krate: &str) -> Result<BTreeSet<String>> {
    let folder = root().join("crates").join(krate);
    if krate.is_empty() || !folder.is_dir() {
        return Ok(BTreeSet::new());
    }
    let mut names = BTreeSet::new();
    for file in files_of(&folder, "rs", true)? {
        let text = fs::read_to_string(&file)?;
        let is_test = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs";
        let tests = if file.strip_prefix(&folder)?.iter().any(is_test) {
            Some(text.as_str())
        } else {
            text.split_once("#[cfg(test)]").map(|(_, tests)| tests)
        };
        names.extend(tests.into_iter().flat_map(functions));
    }
    Ok(names)
}

fn functions(text: &str) -> impl Iterator<Item = String> {
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    text.split("fn ")
        .skip(1)
        .filter_map(move |rest| rest.split(is_end).next())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invariant_needs_a_test_that_exists() {
        let page = "Text.\n\n1. `a::b` always holds.\n   - `api::the_last_owner_stays`\n2. So does this.\n3. And this.\n   - `api::nobody_wrote_it`\n   - `nowhere::test`\n";
        assert_eq!(
            without_test(page).unwrap(),
            [
                "invariant 2 names no test",
                "invariant 3: there is no test api::nobody_wrote_it",
                "invariant 3: there is no test nowhere::test",
            ]
        );
    }
}
