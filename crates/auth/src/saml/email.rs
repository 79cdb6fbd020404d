//! Which address an assertion is about.

use super::attributes::Attributes;
use super::refusal::{Refusal, Rule};

const NAMES: &[&str] = &[
    "email",
    "mail",
    "emailaddress",
    "email_address",
    "user.email",
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
    "urn:oid:0.9.2342.19200300.100.1.3",
    "urn:oid:1.2.840.113549.1.9.1",
];

/// The address from the attributes, else from the `NameID`. Two different ones are refused: which person would it be?
pub(super) fn choose(attributes: &Attributes, name_id: &str) -> Result<String, Refusal> {
    let mut addresses = attributes
        .iter()
        .filter(|(name, value)| NAMES.contains(&name.as_str()) && !value.is_empty())
        .map(|(_, value)| value.as_str());
    let address = addresses.next().unwrap_or(name_id);
    if addresses.any(|other| !other.eq_ignore_ascii_case(address)) {
        let detail = "the assertion has several different email addresses; send one";
        return Err(Refusal::new(Rule::SeveralEmails, detail));
    }
    if !looks_like_address(address) {
        let detail = "the assertion has no email address; send it as the attribute \"email\" or as the NameID";
        return Err(Refusal::new(Rule::NoEmail, detail));
    }
    Ok(address.to_owned())
}

/// One `@` between two parts of plain characters. Whether the domain may be used is decided by whoever asks.
fn looks_like_address(text: &str) -> bool {
    let is_plain = |part: &str| {
        let odd = |c: char| c.is_whitespace() || c.is_control() || "<>()[]\\,;:\"@".contains(c);
        !part.is_empty() && !part.contains(odd)
    };
    text.len() <= 254
        && text
            .split_once('@')
            .is_some_and(|(local, domain)| is_plain(local) && is_plain(domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn an_attribute_wins_over_the_name_id() {
        let attributes = vec![attribute("mail", "a@x.org"), attribute("email", "A@x.org")];
        assert_eq!(choose(&attributes, "b@x.org").unwrap(), "a@x.org");
        assert_eq!(choose(&vec![], "b@x.org").unwrap(), "b@x.org");
    }

    #[test]
    fn several_addresses_are_refused() {
        let attributes = vec![attribute("mail", "a@x.org"), attribute("email", "b@x.org")];
        assert_eq!(choose(&attributes, "a@x.org").unwrap_err().rule, Rule::SeveralEmails);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "anna",
            "@x.org",
            "a@",
            "a@b@x.org",
            "a b@x.org",
            "a@x.org,b@x.org",
            "a@x.org\u{0}",
            "<a@x.org>",
        ] {
            assert_eq!(choose(&vec![], text).unwrap_err().rule, Rule::NoEmail, "{text:?}");
        }
    }
}
