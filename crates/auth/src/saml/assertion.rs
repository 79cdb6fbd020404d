//! The assertion: whom it is about, for whom it is meant, and when it counts. Reads verified bytes only.

use chrono::{DateTime, Utc};
use roxmltree::Node;

use super::expected::{Expected, must_answer, must_be_issuer};
use super::namespace::SAML;
use super::refusal::{Refusal, Rule, shown};
use super::{SKEW, attributes, email, xml};

const BEARER: &str = "urn:oasis:names:tc:SAML:2.0:cm:bearer";
const TRANSIENT: &str = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient";
const FIRST_NAME: &[&str] = &[
    "givenname",
    "given_name",
    "firstname",
    "first_name",
    "user.firstname",
    "urn:oid:2.5.4.42",
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname",
];
const LAST_NAME: &[&str] = &[
    "surname",
    "sn",
    "familyname",
    "family_name",
    "lastname",
    "last_name",
    "user.lastname",
    "urn:oid:2.5.4.4",
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/surname",
];

/// Who signed in, as a trusted identity provider says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    pub id: String,
    pub name_id: String,
    /// What the provider knows the person by, at every sign-in the same.
    pub subject: String,
    /// As the provider spells it.
    pub email: String,
    /// Empty if the provider does not say.
    pub first_name: String,
    /// Empty if the provider does not say.
    pub last_name: String,
    /// When the provider wants the session to end, if it says.
    pub session_not_on_or_after: Option<DateTime<Utc>>,
    /// Until when the id must be remembered, so that a second use is noticed. From then on it is refused as expired.
    pub remember_until: DateTime<Utc>,
    /// The request that it answers. None if unsolicited.
    pub in_response_to: Option<String>,
}

/// Reads an assertion from bytes whose signature was verified.
pub(super) fn read(assertion: Node<'_, '_>, expected: &Expected<'_>) -> Result<Assertion, Refusal> {
    must_be_issuer(xml::only(assertion, SAML, "Issuer")?, expected)?;
    let id = xml::attribute(assertion, "ID").filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| xml::malformed(assertion, "has no ID"))?;
    if xml::attribute(assertion, "Version") != Some("2.0") {
        return Err(xml::malformed(assertion, "is not of version 2.0"));
    }
    let subject = only_subject(assertion)?;
    let confirmed_until = confirm(subject, expected)?;
    let valid_until = conditions(xml::only(assertion, SAML, "Conditions")?, expected)?;
    let session_not_on_or_after = session_end(assertion, expected)?;
    let (name_id, is_transient) = name_id(subject)?;
    let found = attributes::read(assertion)?;
    let email = email::choose(&found, &name_id)?;
    Ok(Assertion {
        id: id.to_owned(),
        // A transient name is another one each time, so the address has to do.
        subject: if is_transient {
            email.to_lowercase()
        } else {
            name_id.clone()
        },
        email,
        name_id,
        first_name: attributes::first_value(&found, FIRST_NAME),
        last_name: attributes::first_value(&found, LAST_NAME),
        session_not_on_or_after,
        remember_until: confirmed_until.min(valid_until) + SKEW,
        in_response_to: expected.request_id.map(str::to_owned),
    })
}

fn only_subject<'a, 'i>(assertion: Node<'a, 'i>) -> Result<Node<'a, 'i>, Refusal> {
    match xml::children(assertion, SAML, "Subject")?[..] {
        [subject] => Ok(subject),
        _ => Err(subject_invalid("the assertion must have exactly one Subject")),
    }
}

/// The name, and whether it is made up for this sign-in only.
fn name_id(subject: Node<'_, '_>) -> Result<(String, bool), Refusal> {
    let [name_id] = xml::children(subject, SAML, "NameID")?[..] else {
        return Err(subject_invalid("the subject must have exactly one NameID"));
    };
    let value = xml::content(name_id)?;
    if value.is_empty() || value.len() > 1024 || value.chars().any(char::is_control) {
        return Err(subject_invalid(
            "the NameID is empty, too long, or has control characters",
        ));
    }
    let is_transient = xml::attribute(name_id, "Format") == Some(TRANSIENT);
    Ok((value.into_owned(), is_transient))
}

/// One bearer confirmation must be for us, now, and for this request. Other methods prove nothing in a browser.
/// Returns until when it counts.
fn confirm(subject: Node<'_, '_>, expected: &Expected<'_>) -> Result<DateTime<Utc>, Refusal> {
    let confirmations = xml::children(subject, SAML, "SubjectConfirmation")?;
    let bearers = confirmations
        .into_iter()
        .filter(|it| xml::attribute(*it, "Method") == Some(BEARER));
    let [bearer] = bearers.collect::<Vec<_>>()[..] else {
        return Err(subject_invalid(
            "the subject must have exactly one SubjectConfirmation with the method bearer",
        ));
    };
    let data = xml::only(bearer, SAML, "SubjectConfirmationData")?;
    must_be_recipient(data, expected)?;
    must_answer(xml::attribute(data, "InResponseTo"), expected)?;
    required_end(data, expected.now)
}

fn must_be_recipient(data: Node<'_, '_>, expected: &Expected<'_>) -> Result<(), Refusal> {
    let found = xml::attribute(data, "Recipient").unwrap_or_default();
    if found == expected.sp.acs_url {
        return Ok(());
    }
    let (found, wanted) = (shown(found), shown(&expected.sp.acs_url));
    let detail = format!("the recipient is {found}; configure {wanted} at the identity provider");
    Err(Refusal::new(Rule::RecipientMismatch, detail))
}

/// Every condition must hold, and one that is not understood does not hold. Returns the end of validity.
fn conditions(conditions: Node<'_, '_>, expected: &Expected<'_>) -> Result<DateTime<Utc>, Refusal> {
    let end = required_end(conditions, expected.now)?;
    let mut has_audience = false;
    for condition in xml::elements(conditions)? {
        match condition.tag_name().name() {
            _ if condition.tag_name().namespace() != Some(SAML) => return Err(unknown_condition(condition)),
            "AudienceRestriction" => {
                must_be_audience(condition, expected)?;
                has_audience = true;
            }
            // One use is all that any assertion gets, and we vouch to nobody else.
            "OneTimeUse" | "ProxyRestriction" => {}
            _ => return Err(unknown_condition(condition)),
        }
    }
    if has_audience {
        Ok(end)
    } else {
        Err(audience_mismatch(&[], expected))
    }
}

fn must_be_audience(restriction: Node<'_, '_>, expected: &Expected<'_>) -> Result<(), Refusal> {
    let mut found = Vec::new();
    for audience in xml::children(restriction, SAML, "Audience")? {
        found.push(xml::content(audience)?);
    }
    if found.iter().any(|audience| *audience == expected.sp.entity_id) {
        return Ok(());
    }
    let found: Vec<&str> = found.iter().map(AsRef::as_ref).collect();
    Err(audience_mismatch(&found, expected))
}

fn audience_mismatch(found: &[&str], expected: &Expected<'_>) -> Refusal {
    let (found, wanted) = (shown(&found.join(", ")), shown(&expected.sp.entity_id));
    let detail =
        format!("the assertion is meant for {found}; configure the audience {wanted} at the identity provider");
    Refusal::new(Rule::AudienceMismatch, detail)
}

/// The earliest end of session that a statement asks for. At least one must say that somebody signed in.
fn session_end(assertion: Node<'_, '_>, expected: &Expected<'_>) -> Result<Option<DateTime<Utc>>, Refusal> {
    let statements = xml::children(assertion, SAML, "AuthnStatement")?;
    if statements.is_empty() {
        return Err(xml::malformed(assertion, "has no AuthnStatement, so nobody signed in"));
    }
    let mut earliest: Option<DateTime<Utc>> = None;
    for statement in statements {
        if let Some(end) = time(statement, "SessionNotOnOrAfter")? {
            must_not_be_over(end, expected.now)?;
            earliest = Some(earliest.map_or(end, |other| other.min(end)));
        }
    }
    Ok(earliest)
}

fn required_end(node: Node<'_, '_>, now: DateTime<Utc>) -> Result<DateTime<Utc>, Refusal> {
    if let Some(start) = time(node, "NotBefore")?
        && now < start - SKEW
    {
        let detail = format!("the assertion is valid from {start}, but it is {now}; check the clocks");
        return Err(Refusal::new(Rule::NotYetValid, detail));
    }
    let end = time(node, "NotOnOrAfter")?
        .ok_or_else(|| Refusal::new(Rule::Expired, "the assertion has no expiration (NotOnOrAfter)"))?;
    must_not_be_over(end, now)?;
    Ok(end)
}

fn must_not_be_over(end: DateTime<Utc>, now: DateTime<Utc>) -> Result<(), Refusal> {
    if now < end + SKEW {
        return Ok(());
    }
    let detail = format!("the assertion expired at {end}, and it is {now}; sign in again, or check the clocks");
    Err(Refusal::new(Rule::Expired, detail))
}

fn time(node: Node<'_, '_>, name: &str) -> Result<Option<DateTime<Utc>>, Refusal> {
    xml::attribute(node, name)
        .map(|text| parse_time(node, text))
        .transpose()
}

pub(super) fn parse_time(node: Node<'_, '_>, text: &str) -> Result<DateTime<Utc>, Refusal> {
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| xml::malformed(node, "has an invalid time"))?;
    Ok(time.to_utc())
}

fn subject_invalid(detail: &str) -> Refusal {
    Refusal::new(Rule::SubjectInvalid, detail)
}

fn unknown_condition(condition: Node<'_, '_>) -> Refusal {
    let name = shown(condition.tag_name().name());
    Refusal::new(
        Rule::UnknownCondition,
        format!("the assertion has the condition {name}, which is not understood"),
    )
}
