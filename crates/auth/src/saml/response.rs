//! From a posted form field to a verified assertion.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roxmltree::Node;

use super::assertion::{self, Assertion};
use super::expected::{Expected, MAX_RESPONSE, must_answer, must_be_issuer};
use super::namespace::{SAML, SAMLP};
use super::refusal::{Refusal, Rule, shown};
use super::xml::{self, Comments};
use super::{shape, signature};

/// The same in base64, with room for line breaks.
const MAX_ENCODED: usize = MAX_RESPONSE / 3 * 4 + MAX_RESPONSE / 16;

const SUCCESS: &str = "urn:oasis:names:tc:SAML:2.0:status:Success";

/// What a response says of itself. **Nothing of it is verified**: it serves to find the stored request, no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified {
    pub in_response_to: Option<String>,
    pub issuer: Option<String>,
}

/// Looks which request a response claims to answer, and who claims to have sent it.
pub fn unverified(saml_response: &str) -> Result<Unverified, Refusal> {
    let text = xml::text(decode(saml_response)?, Comments::Refused)?;
    let document = xml::parse(&text)?;
    let response = shape::response(&document)?;
    let issuer = match xml::optional(response, SAML, "Issuer")? {
        Some(issuer) => Some(xml::content(issuer)?.into_owned()),
        None => None,
    };
    Ok(Unverified {
        in_response_to: xml::attribute(response, "InResponseTo").map(str::to_owned),
        issuer,
    })
}

/// Verifies the form field `SAMLResponse`. Whatever is not provably right is refused.
pub fn verify(saml_response: &str, expected: &Expected<'_>) -> Result<Assertion, Refusal> {
    let text = xml::text(decode(saml_response)?, Comments::Refused)?;
    let document = xml::parse(&text)?;
    // A provider that could not sign somebody in says so without an assertion; that is the better message.
    must_be_success(shape::response(&document)?)?;
    let shape = shape::check(&document)?;
    let response = verified(shape.response, expected)?;
    let assertion = verified(shape.assertion, expected)?;
    if response.is_none() && assertion.is_none() {
        return Err(signature_missing());
    }
    read(shape.response, response, assertion, expected).map_err(Refusal::of_signed)
}

/// Reads what was signed: the response, the assertion, or both.
fn read(
    unsigned: Node<'_, '_>,
    response: Option<String>,
    assertion: Option<String>,
    expected: &Expected<'_>,
) -> Result<Assertion, Refusal> {
    match (response, assertion) {
        (None, None) => Err(signature_missing()),
        (None, Some(assertion)) => {
            check(unsigned, false, expected)?;
            assertion::read(xml::parse(&assertion)?.root_element(), expected)
        }
        (Some(response), assertion) => {
            let signed = xml::parse(&response)?;
            check(signed.root_element(), true, expected)?;
            match assertion {
                Some(assertion) => assertion::read(xml::parse(&assertion)?.root_element(), expected),
                None => assertion::read(shape::check(&signed)?.assertion, expected),
            }
        }
    }
}

/// The bytes that the element's own signature covers, if it has one. One that does not verify refuses the whole.
fn verified(node: Node<'_, '_>, expected: &Expected<'_>) -> Result<Option<String>, Refusal> {
    if shape::is_signed(node)? {
        signature::verified_bytes(node, &expected.idp.certificates, expected.now).map(Some)
    } else {
        Ok(None)
    }
}

fn decode(saml_response: &str) -> Result<Vec<u8>, Refusal> {
    let too_large = || {
        Refusal::new(
            Rule::TooLarge,
            format!("the response is larger than {MAX_RESPONSE} bytes"),
        )
    };
    if saml_response.len() > MAX_ENCODED {
        return Err(too_large());
    }
    let compact: String = saml_response.split_ascii_whitespace().collect();
    let bytes = STANDARD
        .decode(compact)
        .map_err(|_| Refusal::new(Rule::NotBase64, "the field SAMLResponse is not base64"))?;
    if bytes.len() > MAX_RESPONSE {
        return Err(too_large());
    }
    Ok(bytes)
}

/// What the response says beside the assertion.
fn check(response: Node<'_, '_>, is_signed: bool, expected: &Expected<'_>) -> Result<(), Refusal> {
    must_be_success(response)?;
    if let Some(issuer) = xml::optional(response, SAML, "Issuer")? {
        must_be_issuer(issuer, expected)?;
    }
    must_be_destination(response, is_signed, expected)?;
    must_answer(xml::attribute(response, "InResponseTo"), expected)
}

fn must_be_success(response: Node<'_, '_>) -> Result<(), Refusal> {
    let status = xml::only(response, SAMLP, "Status")?;
    let code = xml::only(status, SAMLP, "StatusCode")?;
    let value = xml::attribute(code, "Value").unwrap_or_default();
    if value == SUCCESS {
        return Ok(());
    }
    let reason = match xml::optional(code, SAMLP, "StatusCode")? {
        Some(second) => xml::attribute(second, "Value").unwrap_or_default(),
        None => "",
    };
    let message = match xml::optional(status, SAMLP, "StatusMessage")? {
        Some(message) => xml::content(message)?.into_owned(),
        None => String::new(),
    };
    let (value, reason, message) = (shown(value), shown(reason), shown(&message));
    let detail =
        format!("the identity provider denied the sign-in: status {value}, reason {reason}, message {message}");
    Err(Refusal::new(Rule::StatusNotSuccess, detail))
}

/// A signed response must say where it goes, or it could be passed on to us by another service provider.
fn must_be_destination(response: Node<'_, '_>, is_signed: bool, expected: &Expected<'_>) -> Result<(), Refusal> {
    let destination = xml::attribute(response, "Destination");
    let fits = match destination {
        Some(destination) => destination == expected.sp.acs_url,
        None => !is_signed,
    };
    if fits {
        return Ok(());
    }
    let (found, wanted) = (shown(destination.unwrap_or_default()), shown(&expected.sp.acs_url));
    let detail = format!("the destination is {found}; configure {wanted} at the identity provider");
    Err(Refusal::new(Rule::DestinationMismatch, detail))
}

fn signature_missing() -> Refusal {
    let detail = "neither the response nor the assertion is signed; turn signing on at the identity provider";
    Refusal::new(Rule::SignatureMissing, detail)
}
