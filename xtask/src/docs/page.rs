//! What is checked of a page: its links, its headings, and what it writes as code.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

pub(super) struct Page {
    pub(super) links: Vec<String>,
    pub(super) anchors: BTreeSet<String>,
    pub(super) codes: Vec<String>,
}

impl Page {
    pub(super) fn parse(text: &str) -> Self {
        let (mut links, mut anchors, mut codes) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let repeated = (1..).map(|n| format!("{anchor}-{n}"));
                    let free = std::iter::once(anchor.clone())
                        .chain(repeated)
                        .find(|name| !anchors.contains(name));
                    anchors.extend(free);
                }
                Event::Text(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    codes.push(code.into_string());
                }
                _ => {}
            }
        }
        Self { links, anchors, codes }
    }
}

/// The name that GitHub and mdBook give to a heading.
fn anchor(heading: &str) -> String {
    let keep = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    };
    heading.trim().chars().filter_map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_names_that_links_use() {
        let page =
            Page::parse("# Set up SAML\n## `enforce_2fa`: who, when?\n## Twice\n## Twice\n```\n# no heading\n```");
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["enforce_2fa-who-when", "set-up-saml", "twice", "twice-1"]);
    }

    #[test]
    fn links_are_found_in_tables_and_not_in_code() {
        let page = Page::parse("| a |\n|---|\n| [x](x.md) ![y](y.png) |\n\n`[z](z.md)`");
        assert_eq!(page.links, ["x.md", "y.png"]);
        assert_eq!(page.codes, ["[z](z.md)"]);
    }
}
