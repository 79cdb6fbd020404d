//! Asks once more before something that cannot be undone, and says what goes with it.

use askama::Template;

use super::frame::Frame;
use crate::curl::AsCurl;
use crate::failure::Problems;
use crate::field::Field;

#[derive(Template)]
#[template(path = "organization/confirm.html")]
pub(super) struct ConfirmPage {
    pub(super) frame: Frame,
    pub(super) alerts: Vec<String>,
    pub(super) heading: String,
    pub(super) text: String,
    /// What goes with it, a line each.
    pub(super) losses: Vec<String>,
    /// Where the name has to be typed.
    pub(super) typed: Option<Field>,
    pub(super) button: &'static str,
    pub(super) back: String,
    pub(super) curl: AsCurl,
}

/// The name, typed: a click too many cannot do that.
const FIELD: &str = "confirmation";

pub(super) fn typed_name(name: &str, problems: &Problems) -> Field {
    let label = format!("Type “{}” to confirm", name.trim());
    Field::text(FIELD, label, "off").at_most(200).judged(problems)
}

/// Nothing is asked of the service before the name is right.
pub(super) fn is_confirmed(name: &str, typed: &str) -> Result<(), service::Error> {
    if typed.trim() == name.trim() {
        return Ok(());
    }
    let detail = "this doesn't match: type the name exactly as shown";
    Err(service::Error::invalid(FIELD, "not_confirmed", detail))
}
