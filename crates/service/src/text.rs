//! Short texts that people write, each with its rule.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Invalid;

/// One line of text without control characters, trimmed, 1 to `MAX` characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type)]
#[serde(try_from = "String", into = "String")]
#[sqlx(transparent)]
pub struct Line<const MAX: usize>(String);

/// What organizations and teams are called.
pub type Name = Line<64>;

impl<const MAX: usize> Line<MAX> {
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        let problem = |code, detail: String| {
            Err(Invalid {
                field: None,
                code,
                detail,
            })
        };
        match text.chars().count() {
            0 => problem("blank", "This field must not be blank.".to_owned()),
            length if length > MAX => problem("max_length", format!("Must have at most {MAX} characters.")),
            _ if text.chars().any(char::is_control) => problem(
                "invalid_input",
                "Must be a single line without control characters.".to_owned(),
            ),
            _ => Ok(Self(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> TryFrom<String> for Line<MAX> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text).map_err(|invalid| invalid.detail)
    }
}

impl<const MAX: usize> From<Line<MAX>> for String {
    fn from(line: Line<MAX>) -> Self {
        line.0
    }
}

impl<const MAX: usize> fmt::Display for Line<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize> JsonSchema for Line<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Line{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": MAX,
            // One line: no control characters, and something besides white space.
            "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$",
        })
    }
}

/// Reads a field that may be null as well as left out: `Some(None)` is null.
pub(crate) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads a text that may be null as well as left out: null is the empty text.
pub(crate) fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(Option::deserialize(deserializer)?.unwrap_or_default()))
}

/// What somebody is called by: one line, something, not endless.
pub(crate) fn given_name(field: &'static str, text: Option<&str>) -> crate::Result<String> {
    let text = text.ok_or_else(|| crate::Error::invalid(field, "required", "This field is required."))?;
    let line = Line::<128>::new(text).map_err(|invalid| crate::Error::invalid(field, invalid.code, invalid.detail))?;
    Ok(line.0)
}

/// The limit that the schema has, for texts that do not come through the API.
pub(crate) fn at_most(field: &'static str, text: Option<&str>, most: usize) -> crate::Result<()> {
    if text.is_some_and(|text| text.chars().count() > most) {
        let detail = format!("Must have at most {most} characters.");
        return Err(crate::Error::invalid(field, "max_length", detail));
    }
    Ok(())
}

/// A name that a stranger gives, cut to what we keep of names.
pub(crate) fn one_line(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).take(128).collect();
    clean.trim().to_owned()
}

/// An email address. Two that differ in case alone are the same, and so are two whose domains are one name in DNS.
#[derive(Debug, Clone, Serialize, Deserialize, sqlx::Type)]
#[serde(try_from = "String", into = "String")]
#[sqlx(transparent)]
pub struct Email(String);

impl Email {
    const MAX: usize = 254;

    pub fn new(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        let problem = |code, detail: &str| {
            Err(Invalid {
                field: None,
                code,
                detail: detail.to_owned(),
            })
        };
        if text.chars().count() > Self::MAX {
            return problem("max_length", "An email address can have at most 254 characters.");
        }
        match text.split_once('@') {
            Some((local, domain)) if is_local_part(local) && is_domain(domain) => Ok(Self(text.to_owned())),
            _ => problem(
                "invalid_input",
                "Enter a valid email address, such as name@example.com.",
            ),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in which addresses are compared: in lower case, with the domain as DNS knows it.
    pub fn key(&self) -> String {
        let (local, _) = self.0.split_once('@').unwrap_or_default();
        format!("{}@{}", local.to_lowercase(), self.domain())
    }

    /// What the keys of all addresses on a domain look like to `LIKE`. The domain is written as DNS knows it, and so has no
    /// character that means something there.
    pub(crate) fn keys_on(domain: &str) -> String {
        format!("%@{domain}")
    }

    /// The domain, as DNS knows it.
    pub fn domain(&self) -> String {
        let (_, domain) = self.0.split_once('@').unwrap_or_default();
        idna::domain_to_ascii(domain).unwrap_or_else(|_| domain.to_lowercase())
    }
}

fn is_local_part(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && !text
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || "<>()[],;:\\\"@".contains(c))
}

fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

impl TryFrom<String> for Email {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text).map_err(|invalid| invalid.detail)
    }
}

impl From<Email> for String {
    fn from(email: Email) -> Self {
        email.0
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_trimmed_and_bounded() {
        assert_eq!(Name::new("  Acme \t").expect("fits").as_str(), "Acme");
        assert_eq!(Name::new(" \n ").expect_err("blank").code, "blank");
        assert_eq!(
            Name::new(&"é".repeat(64))
                .expect("64 characters")
                .as_str()
                .chars()
                .count(),
            64
        );
        assert_eq!(Name::new(&"x".repeat(65)).expect_err("long").code, "max_length");
        assert_eq!(Name::new("two\nlines").expect_err("two lines").code, "invalid_input");
    }

    #[test]
    fn addresses_are_told_from_other_text() {
        for good in ["a@b", "Ann.Lee+tag@example.com", "x@localhost", "é@exämple.com"] {
            assert!(Email::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "@b.c", "a@", "a b@c.d", "a@b@c", "a@-b.c", "a@b..c", "a\n@b.c"] {
            assert!(Email::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_has_one_key_however_it_is_written() {
        for (written, key) in [
            ("Ann.Lee+tag@Example.COM", "ann.lee+tag@example.com"),
            ("ann@bücher.example", "ann@xn--bcher-kva.example"),
            ("ANN@BÜCHER.Example", "ann@xn--bcher-kva.example"),
            ("Ann@XN--Bcher-KVA.example", "ann@xn--bcher-kva.example"),
            ("ann@ｂüｃｈｅｒ.example", "ann@xn--bcher-kva.example"),
            ("Zoë@example.com", "zoë@example.com"),
            ("x@localhost", "x@localhost"),
        ] {
            let email = Email::new(written).expect(written);
            assert_eq!(email.key(), key, "{written}");
            assert!(key.ends_with(&Email::keys_on(&email.domain())[1..]), "{written}");
        }
    }
}
