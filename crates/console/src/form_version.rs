//! What a form was typed over, so that nobody puts back what somebody else has just replaced.

use askama::Template;
use askama::filters::HtmlSafe;
use serde::Deserialize;
use service::Time;

/// When the thing was last changed, as the page saw it. Goes with the form as a hidden field and comes back with what was
/// typed; the use case compares it with what is there by then. A script may leave it out, and replaces whatever is there.
#[derive(Debug, Clone, Default, Deserialize, Template)]
#[serde(transparent)]
#[template(path = "form_version.html")]
pub(crate) struct FormVersion {
    text: String,
}

/// Its template escapes what it holds.
impl HtmlSafe for FormVersion {}

impl FormVersion {
    pub(crate) fn of(updated_at: Time) -> Self {
        Self {
            text: updated_at.to_rfc3339(),
        }
    }

    /// For a form whose fields are kept by their names.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// For a use case's `precondition`.
    pub(crate) fn fits(&self, updated_at: Time) -> bool {
        self.text.is_empty() || self.text == updated_at.to_rfc3339()
    }
}

/// From such a form.
impl From<&str> for FormVersion {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_fits_until_it_is_changed() {
        let then: Time = "2026-11-15T09:30:00.000001Z".parse().unwrap();
        let seen = FormVersion::of(then);
        assert!(seen.fits(then) && FormVersion::default().fits(then));
        assert!(!seen.fits(then + chrono::TimeDelta::microseconds(1)) && !FormVersion::from("x").fits(then));
        let field = seen.render().unwrap();
        let sent = field.split('"').nth(5).unwrap();
        assert!(
            field.starts_with("<input type=\"hidden\" name=\"seen\" value=\"") && FormVersion::from(sent).fits(then)
        );
    }
}
