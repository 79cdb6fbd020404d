//! Values to be pasted elsewhere.

use askama::Template;
use askama::filters::HtmlSafe;

/// A value to be pasted elsewhere.
#[derive(Debug, Template)]
#[template(path = "organization/domains/value.html")]
pub(super) struct Value {
    id: &'static str,
    label: &'static str,
    /// What others call it.
    also: &'static str,
    text: String,
}

/// Its template escapes what it holds.
impl HtmlSafe for Value {}

impl Value {
    pub(super) fn new(id: &'static str, label: &'static str, also: &'static str, text: impl Into<String>) -> Self {
        Self {
            id,
            label,
            also,
            text: text.into(),
        }
    }
}
