//! Long lists, a page at a time.

use askama::Template;
use askama::filters::HtmlSafe;
use service::Window;
use url::form_urlencoded::Serializer;

/// As many as one can look over.
const PER_PAGE: i64 = 50;
/// Nobody gets there by clicking.
const LAST: i64 = 1_000_000;

/// Which page is wanted; the first unless told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageNumber(i64);

impl PageNumber {
    pub(crate) fn read(text: &str) -> Self {
        Self(text.parse().unwrap_or(1).clamp(1, LAST))
    }

    pub(crate) fn window(self) -> Window {
        Window::new(Some(PER_PAGE), Some(self.offset()))
    }

    fn offset(self) -> i64 {
        (self.0 - 1) * PER_PAGE
    }
}

/// What stands below a list: how much of it this is, and the way on.
#[derive(Debug, Clone, Template)]
#[template(path = "pages.html")]
pub(crate) struct Pages {
    first: i64,
    last: i64,
    count: i64,
    previous: Option<String>,
    next: Option<String>,
}

/// Its template escapes what it holds.
impl HtmlSafe for Pages {}

impl Pages {
    /// `filters` go along from page to page; empty ones say nothing.
    pub(crate) fn new(path: &str, filters: &[(&str, &str)], place: PageNumber, count: i64) -> Self {
        let at = |page: i64| {
            let number = (page > 1).then(|| page.to_string());
            let number = number.as_deref().map(|number| ("page", number));
            with_query(path, filters.iter().copied().chain(number))
        };
        let last = (place.offset() + PER_PAGE).min(count);
        Self {
            first: (place.offset() + 1).min(count),
            last,
            count,
            previous: (place.0 > 1).then(|| at(place.0 - 1)),
            next: (last < count).then(|| at(place.0 + 1)),
        }
    }
}

/// A path with what stands behind the question mark, if anything does.
pub(crate) fn with_query<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_no_number_is_the_first_page() {
        for text in ["", "x", "0", "-3", "1"] {
            assert_eq!(PageNumber::read(text), PageNumber(1), "{text}");
        }
        assert_eq!(PageNumber::read("3").window(), Window::new(Some(50), Some(100)));
        assert_eq!(PageNumber::read("9223372036854775807"), PageNumber(LAST));
    }

    #[test]
    fn filters_go_along() {
        let pages = Pages::new("/m/", &[("search", "a b"), ("level", "")], PageNumber(2), 120);
        assert_eq!((pages.first, pages.last), (51, 100));
        assert_eq!(pages.previous.as_deref(), Some("/m/?search=a+b"));
        assert_eq!(pages.next.as_deref(), Some("/m/?search=a+b&page=3"));
        let only = Pages::new("/m/", &[], PageNumber(1), 50);
        assert_eq!((only.previous, only.next), (None, None));
    }
}
