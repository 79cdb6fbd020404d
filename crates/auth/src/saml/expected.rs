//! What a response must fit to, and its assertion as well.

use chrono::{DateTime, Utc};
use roxmltree::Node;

use super::refusal::{Refusal, Rule, shown};
use super::{IdentityProvider, ServiceProvider, xml};

/// The largest response that is looked at, in bytes.
pub const MAX_RESPONSE: usize = 256 * 1024;

/// What a response must fit to.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    pub sp: &'a ServiceProvider,
    pub idp: &'a IdentityProvider,
    /// The id of the request that this browser started. None if the response must be unsolicited.
    pub request_id: Option<&'a str>,
    /// Whether a response that answers no request is accepted (sign-in that begins at the identity provider).
    pub allows_unsolicited: bool,
    pub now: DateTime<Utc>,
}

pub(super) fn must_be_issuer(issuer: Node<'_, '_>, expected: &Expected<'_>) -> Result<(), Refusal> {
    let found = xml::content(issuer)?;
    if found == expected.idp.entity_id {
        return Ok(());
    }
    let (found, wanted) = (shown(&found), shown(&expected.idp.entity_id));
    let detail = format!("the issuer is {found}, but the configured entity ID of the identity provider is {wanted}");
    Err(Refusal::new(Rule::IssuerMismatch, detail))
}

/// An answer must fit the request of this browser; without a request it must not claim to answer one.
pub(super) fn must_answer(in_response_to: Option<&str>, expected: &Expected<'_>) -> Result<(), Refusal> {
    match (in_response_to, expected.request_id) {
        (Some(found), Some(wanted)) if found == wanted => Ok(()),
        (None, None) if expected.allows_unsolicited => Ok(()),
        (None, None) => {
            let detail = "the response matches no request; start at our sign-in page, or allow IdP-initiated sign-in";
            Err(Refusal::new(Rule::Unsolicited, detail))
        }
        (found, _) => {
            let found = shown(found.unwrap_or_default());
            let detail = format!("the response is for the request {found}, which this browser did not start");
            Err(Refusal::new(Rule::InResponseToMismatch, detail))
        }
    }
}
