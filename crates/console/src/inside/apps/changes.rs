//! What other code changes, told before it is taken over; and what is said when it cannot be.

use apps::FileChange;
use askama::Template;
use askama::filters::HtmlSafe;
use service::pipeline::Difference;

use super::capabilities::told;
use crate::failure::Problems;
use crate::show;

/// A list for each way in which something is different. Empty ones are left out.
#[derive(Debug, Template)]
#[template(path = "inside/apps/changes.html")]
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
        let words = |names: &[String]| names.iter().map(|name| told(name)).collect();
        let all = [
            ("Can do from now on", "tag-good", words(&difference.added_capabilities)),
            (
                "Cannot do any more",
                "tag-warning",
                words(&difference.removed_capabilities),
            ),
            ("Asks for, too", "tag-good", difference.added_fields.clone()),
            (
                "Does not ask for any more",
                "tag-warning",
                difference.removed_fields.clone(),
            ),
            ("Asks for in another way", "", difference.changed_fields.clone()),
            ("Can reach, too", "tag-warning", difference.added_hosts.clone()),
            ("Can no longer reach", "", difference.removed_hosts.clone()),
            (
                "Files that are different",
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
        Some(field) if field.starts_with("source") => format!("The code cannot be used. {detail}"),
        _ => show::sentence(detail),
    };
    others.map(words).collect()
}
