//! A file to be changed: its text, what the loader has to say of it, and the same in colors.

use askama::Template;
use askama::filters::HtmlSafe;
use service::Error;

use super::highlight::Listing;
use crate::failure::Problems;
use crate::show;

/// As much as the API takes.
pub(super) const MAX_SOURCE: usize = 1024 * 1024;

#[derive(Debug, Template)]
#[template(path = "organization/apps/editor.html")]
pub(super) struct Editor {
    name: &'static str,
    label: String,
    text: String,
    rows: usize,
    is_focused: bool,
    faults: Vec<Fault>,
    listing: Option<Listing>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Editor {}

/// What the loader found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// None: it cannot be said which.
    pub(super) file: Option<String>,
    line: Option<usize>,
    pub(super) text: String,
}

impl Fault {
    /// All that are about code; the rest is said elsewhere.
    pub(super) fn all(problems: &Problems) -> Vec<Self> {
        problems
            .each()
            .filter_map(|(field, detail)| Self::read(field?, detail))
            .collect()
    }

    /// The field is `source__index.ts`, and the words begin with `index.ts:2:22: `.
    fn read(field: &str, detail: &str) -> Option<Self> {
        let file = field.strip_prefix("source__");
        if file.is_none() && field != "source" {
            return None;
        }
        let place = file.and_then(|file| detail.strip_prefix(file)?.strip_prefix(':'));
        let line = place.and_then(|place| place.split(':').next()?.parse().ok());
        Some(Self {
            file: file.map(str::to_owned),
            line,
            // What begins with the name of a file stays as it is.
            text: file.map_or_else(|| show::sentence(detail), |_| detail.to_owned()),
        })
    }
}

impl Editor {
    /// `faults` are those of this file.
    pub(super) fn new(name: &'static str, file: &str, text: impl Into<String>, faults: Vec<Fault>) -> Self {
        let text = text.into();
        Self {
            name,
            label: file.to_owned(),
            rows: text.lines().count().clamp(12, 32),
            is_focused: !faults.is_empty(),
            listing: (!faults.is_empty())
                .then(|| listing(name, file, &text, &faults))
                .flatten(),
            text,
            faults,
        }
    }

    /// With the code highlighted, also when all is well.
    pub(super) fn highlighted(mut self) -> Self {
        self.listing = listing(self.name, &self.label, &self.text, &self.faults);
        self
    }

    fn described_by(&self) -> String {
        if self.faults.is_empty() {
            String::new()
        } else {
            format!("{}-problem", self.name)
        }
    }
}

fn listing(name: &'static str, file: &str, text: &str, faults: &[Fault]) -> Option<Listing> {
    let marked: Vec<usize> = faults.iter().filter_map(|fault| fault.line).collect();
    Listing::new(name, file, text, &marked)
}

/// What is wrong, but with no file, and with none of these fields.
pub(super) fn besides(problems: &Problems, fields: &[&str]) -> Vec<String> {
    let is_shown = |field: &str| field.starts_with("source") || fields.contains(&field);
    let others = problems.each().filter(|(field, _)| !field.is_some_and(is_shown));
    others.map(|(_, detail)| show::sentence(detail)).collect()
}

/// What somebody typed: browsers end lines in a way of their own.
pub(super) fn typed(text: &str) -> Result<String, Error> {
    let text = text.replace("\r\n", "\n");
    if text.len() > MAX_SOURCE {
        let detail = format!("this is too long: the limit is {MAX_SOURCE} bytes");
        return Err(Error::invalid("source", "max_length", detail));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_the_line_are_found_in_what_the_loader_says() {
        let found = Fault::read("source__lib/a.ts", "lib/a.ts:12:3: Unexpected token").unwrap();
        assert_eq!((found.file.as_deref(), found.line), (Some("lib/a.ts"), Some(12)));
        let without = Fault::read("source__plugin.json", "plugin.json: no JSON").unwrap();
        assert_eq!((without.file.as_deref(), without.line), (Some("plugin.json"), None));
        assert_eq!(Fault::read("source", "too slow").unwrap().file, None);
        assert_eq!(Fault::read("name", "too long"), None);
    }
}
