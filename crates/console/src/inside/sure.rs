//! Asks once more before something that cannot be undone, and says what goes with it.

use askama::Template;

use super::frame::Frame;
use crate::curl::AsCurl;
use crate::failure::Problems;
use crate::field::Field;

#[derive(Template)]
#[template(path = "inside/sure.html")]
pub(super) struct SurePage {
    pub(super) frame: Frame,
    pub(super) alerts: Vec<String>,
    pub(super) heading: String,
    pub(super) text: String,
    /// What goes with it, a line each.
    pub(super) losses: Vec<String>,
    /// What has to be typed, and where.
    pub(super) typed: Option<(String, Field)>,
    pub(super) button: &'static str,
    pub(super) back: String,
    pub(super) curl: AsCurl,
}

/// The name, typed: a click too many cannot do that.
const FIELD: &str = "confirmation";

pub(super) fn typed_name(name: &str, problems: &Problems) -> (String, Field) {
    let field = Field::text(FIELD, "Type the name to go on", "off").at_most(200);
    (name.to_owned(), field.judged(problems))
}

/// Nothing is asked of the service before the name is right.
pub(super) fn is_confirmed(name: &str, typed: &str) -> Result<(), service::Error> {
    if typed.trim() == name.trim() {
        return Ok(());
    }
    let detail = "this is not the name: type it as it stands above";
    Err(service::Error::invalid(FIELD, "not_confirmed", detail))
}
