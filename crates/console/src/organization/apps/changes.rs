//! What other code changes, told before it is taken over; and what is said when it cannot be.

use std::collections::BTreeSet;

use apps::FileChange;
use askama::Template;
use askama::filters::HtmlSafe;
use serde_json::Value;
use service::pipeline::{Difference, FieldChange};

use super::capabilities::describe;
use crate::failure::Problems;
use crate::show;

/// A list for each way in which something is different. Empty ones are left out.
#[derive(Debug, Template)]
#[template(path = "organization/apps/changes.html")]
pub(super) struct Changes {
    lists: Vec<List>,
}

#[derive(Debug)]
struct List {
    title: &'static str,
    class: &'static str,
    items: Vec<String>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Changes {}

impl Changes {
    pub(super) fn new(difference: &Difference, files: &[FileChange]) -> Self {
        let words = |names: &[String]| names.iter().map(|name| describe(name)).collect();
        let all = [
            ("Added capabilities", "tag-good", words(&difference.added_capabilities)),
            (
                "Removed capabilities",
                "tag-warning",
                words(&difference.removed_capabilities),
            ),
            (
                "Added settings",
                "tag-good",
                fields(difference, &difference.added_fields),
            ),
            ("Removed settings", "tag-warning", difference.removed_fields.clone()),
            (
                "Changed settings",
                "tag-warning",
                fields(difference, &difference.changed_fields),
            ),
            ("Added hosts", "tag-warning", difference.added_hosts.clone()),
            ("Removed hosts", "", difference.removed_hosts.clone()),
            (
                "Changed files",
                "",
                files.iter().map(|file| file.name.clone()).collect(),
            ),
        ];
        let list =
            |(title, class, items): (_, _, Vec<String>)| (!items.is_empty()).then_some(List { title, class, items });
        Self {
            lists: all.into_iter().filter_map(list).collect(),
        }
    }
}

/// Each of these fields, with what is said of it before and after.
fn fields(difference: &Difference, keys: &[String]) -> Vec<String> {
    let changed = difference
        .field_changes
        .iter()
        .filter(|change| keys.contains(&change.key));
    changed.map(told_of).collect()
}

/// As `url: default "https://a.example" → "https://b.example"`.
fn told_of(change: &FieldChange) -> String {
    let names = [&change.before, &change.after].into_iter().filter_map(Value::as_object);
    let names: BTreeSet<&String> = names
        .flat_map(|entry| entry.keys())
        .filter(|name| *name != "key")
        .collect();
    let side = |entry: &Value, name: &str| entry.get(name).map_or_else(|| "not set".to_owned(), Value::to_string);
    let parts = names.into_iter().filter_map(|name| {
        let (before, after) = (side(&change.before, name), side(&change.after, name));
        match change.before {
            Value::Null => Some(format!("{name} {after}")),
            _ => (before != after).then(|| format!("{name} {before} → {after}")),
        }
    });
    let parts: Vec<String> = parts.collect();
    format!("{}: {}", change.key, parts.join(", "))
}

/// All that is wrong. What the loader says begins with the name of a file, and stays as it is.
pub(super) fn said(problems: &Problems) -> Vec<String> {
    said_besides(problems, &[])
}

/// The same, without what is said beside these fields.
pub(super) fn said_besides(problems: &Problems, fields: &[&str]) -> Vec<String> {
    let others = problems
        .each()
        .filter(|(field, _)| field.is_none_or(|field| !fields.contains(&field)));
    let words = |(field, detail): (Option<&str>, &str)| match field {
        Some(field) if field.starts_with("source") => format!("Validation failed. {detail}"),
        _ => show::sentence(detail),
    };
    others.map(words).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_shows_what_is_said_of_it_before_and_after() {
        let told = |before: Value, after: Value| {
            let key = "url".to_owned();
            told_of(&FieldChange { key, before, after })
        };
        let (a, b) = (
            json!({ "key": "url", "type": "string", "default": "a" }),
            json!({ "key": "url", "type": "string", "default": "b" }),
        );
        assert_eq!(told(a.clone(), b), r#"url: default "a" → "b""#);
        assert_eq!(
            told(a, json!({ "key": "url", "type": "string" })),
            r#"url: default "a" → not set"#
        );
        assert_eq!(
            told(Value::Null, json!({ "key": "url", "secret": true })),
            "url: secret true"
        );
    }
}
