//! The documentation at `/docs/`, as it was when the server was built: pages of the console link to what explains them,
//! without the internet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use url::Url;

use crate::failure::Failure;
use crate::page::page;
use crate::state::Console;

/// Every page and picture, by its path below `docs/`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/documents.rs"));
/// The table of contents, as mdBook reads it.
const CONTENTS: &str = "SUMMARY.md";
/// Of a table without a header.
const MAX_COLUMNS: usize = 8;
/// The same for everybody, and the same until the server is upgraded.
const CACHED: &str = "public, max-age=3600";

static SITE: LazyLock<Site> = LazyLock::new(Site::new);

struct Site {
    contents: String,
    /// By their paths.
    pages: BTreeMap<String, Document>,
}

#[derive(Debug, PartialEq, Eq)]
struct Document {
    title: String,
    html: String,
}

#[derive(Template)]
#[template(path = "documentation.html")]
struct DocumentPage<'a> {
    title: &'a str,
    contents: String,
    html: &'a str,
}

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/docs/", get(async || show("")))
        .route("/docs/{*path}", get(async |Path(path): Path<String>| show(&path)))
}

fn show(path: &str) -> Response {
    if let Some((_, picture)) = FILES.iter().find(|(name, _)| *name == path && !is_page(name)) {
        let kind = if path.rsplit('.').next() == Some("svg") {
            "image/svg+xml"
        } else {
            "image/png"
        };
        return (
            [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, CACHED)],
            *picture,
        )
            .into_response();
    }
    let address = format!("/docs/{path}");
    let Some(document) = SITE.pages.get(&address) else {
        return Failure::NoSuchPage.into_response();
    };
    let link = format!("href=\"{address}\"");
    let shown = page(&DocumentPage {
        title: &document.title,
        contents: SITE
            .contents
            .replacen(&link, &format!("{link} aria-current=\"page\""), 1),
        html: &document.html,
    });
    ([(header::CACHE_CONTROL, CACHED)], shown).into_response()
}

fn is_page(name: &str) -> bool {
    name.strip_suffix(".md").is_some()
}

impl Site {
    fn new() -> Self {
        let documents = FILES.iter().filter(|(name, _)| is_page(name));
        let (contents, pages): (Vec<_>, Vec<_>) = documents
            .map(|(name, bytes)| (*name, String::from_utf8_lossy(bytes)))
            .partition(|(name, _)| *name == CONTENTS);
        Self {
            contents: contents.iter().map(|(_, text)| contents_of(text)).collect(),
            pages: pages
                .iter()
                .map(|(name, text)| (address_of(name), Document::parse(name, text)))
                .collect(),
        }
    }
}

/// Its headings are no headings of the page beside it.
fn contents_of(text: &str) -> String {
    let events = Parser::new(text).map(|mut event| match event {
        Event::Start(Tag::Heading { .. }) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::Heading(_)) => Event::End(TagEnd::Paragraph),
        _ => {
            adapt(CONTENTS, &mut event);
            event
        }
    });
    let mut html = String::new();
    html::push_html(&mut html, events);
    html
}

impl Document {
    fn parse(name: &str, text: &str) -> Self {
        let mut events: Vec<Event> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
        let mut anchors = BTreeSet::new();
        let mut title = String::new();
        for place in 0..events.len() {
            let heading = || heading_at(&events[place..]);
            match &events[place] {
                Event::Start(Tag::Heading { .. }) => {
                    let words = heading();
                    let anchor = unused(&anchors, anchor(&words));
                    anchors.insert(anchor.clone());
                    if title.is_empty() {
                        title = words;
                    }
                    if let Event::Start(Tag::Heading { id, .. }) = &mut events[place] {
                        *id = Some(CowStr::from(anchor));
                    }
                }
                Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::Table(_)) => adapt(name, &mut events[place]),
                _ => {}
            }
        }
        let mut html = String::new();
        html::push_html(&mut html, events.into_iter());
        Self {
            title,
            html: without_empty_headers(html),
        }
    }
}

/// Markdown has no tables without a header. One with nothing in it would be read aloud as a header.
fn without_empty_headers(mut html: String) -> String {
    for columns in 1..=MAX_COLUMNS {
        let empty = format!("<thead><tr>{}</tr></thead>", "<th></th>".repeat(columns));
        html = html.replace(&empty, "");
    }
    html.replace("<th></th>", "<td></td>")
}

/// Links lead to pages of the site, and nothing has a style inside, which the browser would refuse.
fn adapt(name: &str, event: &mut Event) {
    match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            *dest_url = CowStr::from(resolved(name, dest_url));
        }
        Event::Start(Tag::Table(alignments)) => alignments.fill(pulldown_cmark::Alignment::None),
        _ => {}
    }
}

/// Where a link of a page leads: to another page of the site, or out of it.
fn resolved(name: &str, link: &str) -> String {
    // The host is never shown; it makes relative links absolute.
    let target = Url::parse("http://docs.invalid/")
        .and_then(|site| site.join(name))
        .and_then(|page| page.join(link));
    match target {
        Ok(target) if target.host_str() == Some("docs.invalid") => {
            let fragment = target.fragment().map(|fragment| format!("#{fragment}"));
            address_of(target.path().trim_start_matches('/')) + &fragment.unwrap_or_default()
        }
        _ => link.to_owned(),
    }
}

/// `saml.md` is at `/docs/saml/`, and `destinations/index.md` at `/docs/destinations/`.
fn address_of(name: &str) -> String {
    match (name.strip_suffix("index.md"), name.strip_suffix(".md")) {
        (Some(folder), _) => format!("/docs/{folder}"),
        (None, Some(page)) => format!("/docs/{page}/"),
        (None, None) => format!("/docs/{name}"),
    }
}

fn heading_at(events: &[Event]) -> String {
    let inside = events
        .iter()
        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    inside
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect()
}

/// The name that GitHub and mdBook give to a heading, too.
fn anchor(heading: &str) -> String {
    let kept = |char: char| match char {
        char if char.is_alphanumeric() || char == '_' || char == '-' => Some(char.to_ascii_lowercase()),
        char if char.is_whitespace() => Some('-'),
        _ => None,
    };
    heading.trim().chars().filter_map(kept).collect()
}

fn unused(anchors: &BTreeSet<String>, anchor: String) -> String {
    let numbered = (1..).map(|number| format!("{anchor}-{number}"));
    std::iter::once(anchor.clone())
        .chain(numbered)
        .find(|name| !anchors.contains(name))
        .unwrap_or(anchor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_pages_lead_to_pages_of_the_site() {
        for (name, link, leads_to) in [
            ("index.md", "saml.md", "/docs/saml/"),
            ("saml.md", "index.md", "/docs/"),
            ("destinations/s3.md", "../exports.md#runs", "/docs/exports/#runs"),
            ("exports.md", "destinations/index.md", "/docs/destinations/"),
            ("saml.md", "#set-up", "/docs/saml/#set-up"),
            ("index.md", "screenshots/overview.png", "/docs/screenshots/overview.png"),
            ("index.md", "https://example.com/a.md", "https://example.com/a.md"),
        ] {
            assert_eq!(resolved(name, link), leads_to, "{name} {link}");
        }
    }

    #[test]
    fn headings_can_be_linked_to_and_tables_have_no_style_inside() {
        let document = Document::parse("a.md", "# A `b`\n\n## Twice\n\n## Twice\n\n| n |\n|--:|\n| 1 |\n");
        assert_eq!(document.title, "A b");
        for part in [
            "<h1 id=\"a-b\">",
            "<h2 id=\"twice\">",
            "<h2 id=\"twice-1\">",
            "<td>1</td>",
        ] {
            assert!(document.html.contains(part), "{part}: {}", document.html);
        }
        assert!(!document.html.contains("style="), "{}", document.html);
    }

    #[test]
    fn tables_have_no_empty_headers() {
        let document = Document::parse("a.md", "| | |\n|---|---|\n| 1 | 2 |\n\n| | b |\n|---|---|\n| 3 | 4 |\n");
        assert_eq!(document.html.matches("<thead>").count(), 1, "{}", document.html);
        assert!(document.html.contains("<td></td><th>b</th>"), "{}", document.html);
    }

    #[test]
    fn every_link_of_the_site_leads_somewhere() {
        let known = |address: &str| {
            let (path, fragment) = address.split_once('#').unwrap_or((address, ""));
            let is_picture = FILES.iter().any(|(name, _)| path == format!("/docs/{name}"));
            let id = format!(" id=\"{fragment}\"");
            let page = SITE.pages.get(path);
            is_picture || page.is_some_and(|page| fragment.is_empty() || page.html.contains(&id))
        };
        let all = SITE.pages.values().map(|page| &page.html).chain([&SITE.contents]);
        let mut count = 0;
        for link in all.flat_map(|html| html.split("=\"/docs/").skip(1)) {
            let address = format!("/docs/{}", link.split('"').next().unwrap_or_default());
            assert!(known(&address), "{address}");
            count += 1;
        }
        assert!(count > 100, "{count}");
        assert!(SITE.pages.len() > 30, "{}", SITE.pages.len());
    }
}
