//! The documentation as a whole: every page is in the table of contents, every link leads somewhere, and every test and file that
//! a page names exists.

mod files;
mod invariants;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::root;
use files::files_of;
use page::Page;

/// The folder that mdBook builds the site from.
const SITE: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";
const INVARIANTS: &str = "docs/invariants.md";
const SETTINGS: &str = "docs/settings.md";
/// Pages that name source files, as `crate/file.rs` or from the root.
const NAMING_FILES: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals.md"];

type Pages = BTreeMap<PathBuf, Page>;

pub(crate) fn check() -> Result<()> {
    let pages = pages()?;
    let mut problems = not_in_summary(&pages)?;
    problems.extend(dead_links(&pages, |path| root().join(path).exists()));
    problems.extend(invariants::without_test(&fs::read_to_string(root().join(INVARIANTS))?)?);
    problems.extend(missing_files(&pages));
    problems.extend(missing_settings(&pages)?);
    ensure!(
        problems.is_empty(),
        "the documentation is not whole:\n{}",
        problems.join("\n")
    );
    Ok(())
}

/// All Markdown of the repository, by its path from the root.
fn pages() -> Result<Pages> {
    let mut files = files_of(&root(), "md", false)?;
    for folder in [SITE, "bench", ".github"] {
        files.extend(files_of(&root().join(folder), "md", true)?);
    }
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let path = file.strip_prefix(root())?.to_owned();
        Ok((path, Page::parse(&text)))
    };
    files.into_iter().map(read).collect()
}

/// Pages of the site that nobody finds, since mdBook builds only what the summary lists.
fn not_in_summary(pages: &Pages) -> Result<Vec<String>> {
    let summary = Path::new(SUMMARY);
    let listed: Vec<PathBuf> = pages
        .get(summary)
        .with_context(|| format!("{SUMMARY} is missing"))?
        .links
        .iter()
        .map(|link| target(summary, link).0)
        .collect();
    let is_lost = |path: &&PathBuf| path.starts_with(SITE) && path.as_path() != summary && !listed.contains(path);
    let lost = pages.keys().filter(is_lost);
    Ok(lost
        .map(|path| format!("{SUMMARY} does not list {}", path.display()))
        .collect())
}

/// Links to files or headings that do not exist, and links that lead out of the site.
fn dead_links(pages: &Pages, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, page) in pages {
        for link in page
            .links
            .iter()
            .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (target, anchor) = target(path, link);
            let why = if !exists(&target) {
                "does not exist"
            } else if path.starts_with(SITE) && !target.starts_with(SITE) {
                "is not part of the site"
            } else if anchor.is_some_and(|anchor| pages.get(&target).is_none_or(|page| !page.anchors.contains(anchor)))
            {
                "has no such heading"
            } else {
                continue;
            };
            problems.push(format!("{}: {link} {why}", path.display()));
        }
    }
    problems
}

/// Where a link on a page leads: a path from the root, and the heading there if one is named.
fn target<'a>(page: &Path, link: &'a str) -> (PathBuf, Option<&'a str>) {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    if path.is_empty() {
        return (page.to_owned(), anchor);
    }
    let mut target = page.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            Component::CurDir => {}
            part => target.push(part),
        }
    }
    (target, anchor)
}

/// Source files that were moved or renamed since a page named them.
fn missing_files(pages: &Pages) -> Vec<String> {
    let mut problems = Vec::new();
    for name in NAMING_FILES {
        let codes = pages.get(Path::new(name)).map(|page| page.codes.as_slice());
        for code in codes.unwrap_or_default().iter().filter(|code| is_source_file(code)) {
            let in_crate = code
                .split_once('/')
                .map(|(krate, file)| format!("crates/{krate}/src/{file}"));
            if ![Some(code.clone()), in_crate]
                .into_iter()
                .flatten()
                .any(|path| root().join(path).exists())
            {
                problems.push(format!("{name}: {code} does not exist"));
            }
        }
    }
    problems
}

/// Settings of the server that the page of settings does not list.
fn missing_settings(pages: &Pages) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let listed = pages.get(Path::new(SETTINGS)).map(|page| page.codes.as_slice());
    for file in files_of(&root().join("crates/server/src/settings"), "rs", true)? {
        let text = fs::read_to_string(file)?;
        let names = text.split("env = \"").skip(1).filter_map(|rest| rest.split('"').next());
        let unlisted = names.filter(|name| !listed.unwrap_or_default().iter().any(|code| code == name));
        problems.extend(unlisted.map(|name| format!("{SETTINGS} does not list {name}")));
    }
    Ok(problems)
}

/// Patterns such as `{sqlite,postgres}` and placeholders such as `things` in recipes are not looked for.
fn is_source_file(code: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_/.-".contains(c);
    code.contains('/')
        && Path::new(code).extension().is_some_and(|ending| ending == "rs")
        && code.chars().all(plain)
        && !code.contains("things")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_is_whole() {
        if let Err(error) = check() {
            panic!("{error}");
        }
    }

    #[test]
    fn dead_links_are_found() {
        let page = |text: &str| Page::parse(text);
        let pages = Pages::from([
            (
                PathBuf::from("README.md"),
                page("# Hedge\n[a](docs/a.md#one) [s](SECURITY.md) [w](https://example.com/x)"),
            ),
            (
                PathBuf::from("docs/a.md"),
                page("# One\n[b](b/b.md) [gone](c.md) [up](../README.md) [here](#one) [no](#two)"),
            ),
            (
                PathBuf::from("docs/b/b.md"),
                page("# B\n[a](../a.md#one) [a](../a.md#three)"),
            ),
        ]);
        let problems = dead_links(&pages, |path| pages.contains_key(path));
        assert_eq!(
            problems,
            [
                "README.md: SECURITY.md does not exist",
                "docs/a.md: c.md does not exist",
                "docs/a.md: ../README.md is not part of the site",
                "docs/a.md: #two has no such heading",
                "docs/b/b.md: ../a.md#three has no such heading",
            ]
        );
    }

    #[test]
    fn a_page_that_the_summary_forgets_is_found() {
        let pages = Pages::from([
            (PathBuf::from(SUMMARY), Page::parse("- [A](a.md)")),
            (PathBuf::from("docs/a.md"), Page::parse("# A")),
            (PathBuf::from("docs/d/b.md"), Page::parse("# B")),
        ]);
        assert_eq!(
            not_in_summary(&pages).unwrap(),
            ["docs/SUMMARY.md does not list docs/d/b.md"]
        );
    }
}
