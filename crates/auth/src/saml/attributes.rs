//! What an assertion says of a person beside the name.

use roxmltree::Node;

use super::namespace::SAML;
use super::refusal::Refusal;
use super::xml;

/// Names in lower case with their values, as far as a value is text.
pub(super) type Attributes = Vec<(String, String)>;

pub(super) fn read(assertion: Node<'_, '_>) -> Result<Attributes, Refusal> {
    let mut found = Attributes::new();
    for statement in xml::children(assertion, SAML, "AttributeStatement")? {
        for attribute in xml::children(statement, SAML, "Attribute")? {
            let name = xml::attribute(attribute, "Name")
                .unwrap_or_default()
                .to_ascii_lowercase();
            for value in xml::children(attribute, SAML, "AttributeValue")? {
                // Structured values belong to attributes that nobody here reads.
                if value.children().all(|child| child.is_text()) {
                    found.push((name.clone(), xml::content(value)?.into_owned()));
                }
            }
        }
    }
    Ok(found)
}

/// A name is for display, so the first one will do.
pub(super) fn first_value(attributes: &Attributes, names: &[&str]) -> String {
    let is_wanted = |(name, value): &&(String, String)| names.contains(&name.as_str()) && !value.is_empty();
    let value = attributes.iter().find(is_wanted).map_or("", |(_, value)| value);
    value
        .chars()
        .filter(|character| !character.is_control())
        .take(150)
        .collect()
}
