//! Exclusive XML canonicalization 1.0 of one element, without comments (there are none, see [`super::xml`]).

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Attribute, Node};

use super::expected::MAX_RESPONSE;
use super::refusal::{Refusal, Rule};
use super::xml;

/// A namespace is declared once in a document, but canonically again on each element that uses it: a small document can
/// have a huge form. Nothing genuine is more than a little longer than it was.
const MAX_LENGTH: usize = 2 * MAX_RESPONSE;

/// How an element is written: which prefixes are always declared, and which child is left out.
pub(super) struct Canonical<'a, 'i> {
    /// `InclusiveNamespaces`: prefixes that are declared although only values mention them. Empty is the default one.
    pub inclusive: BTreeSet<String>,
    /// The enveloped signature, which cannot sign itself.
    pub without: Option<Node<'a, 'i>>,
}

/// The namespaces that the written ancestors have declared, by prefix.
type Declared<'a> = BTreeMap<&'a str, &'a str>;

impl<'a, 'i> Canonical<'a, 'i> {
    /// The bytes of an element that a signature is made over.
    ///
    /// They are read back and written once more. If that gives other bytes, then the parser and this writer disagree on
    /// what the document says, and nothing in it can be trusted.
    pub(super) fn bytes(&self, node: Node<'a, 'i>) -> Result<String, Refusal> {
        let bytes = self.write(node)?;
        let document = xml::parse(&bytes)?;
        let again = Canonical {
            inclusive: self.inclusive.clone(),
            without: None,
        };
        if again.write(document.root_element())? == bytes {
            Ok(bytes)
        } else {
            Err(Refusal::new(Rule::NotXml, "the document has no stable canonical form"))
        }
    }

    fn write(&self, node: Node<'a, 'i>) -> Result<String, Refusal> {
        let mut out = String::new();
        self.element(node, &Declared::new(), &mut out)?;
        Ok(out)
    }

    fn element(&self, node: Node<'a, 'i>, declared: &Declared<'a>, out: &mut String) -> Result<(), Refusal> {
        if out.len() > MAX_LENGTH {
            return Err(Refusal::new(
                Rule::TooComplex,
                "the document is far larger in its canonical form",
            ));
        }
        let name = written_name(node);
        let new = self.new_declarations(node, declared);
        out.push('<');
        out.push_str(name);
        for (prefix, uri) in &new {
            let colon = if prefix.is_empty() { "" } else { ":" };
            attribute(&format!("xmlns{colon}{prefix}"), uri, out);
        }
        for (written, value) in sorted_attributes(node) {
            attribute(written, value, out);
        }
        out.push('>');
        let mut inside = declared.clone();
        inside.extend(new);
        for child in node.children().filter(|child| Some(*child) != self.without) {
            if child.is_element() {
                self.element(child, &inside, out)?;
            } else if let Some(text) = child.text() {
                escape_text(text, out);
            }
        }
        out.push_str("</");
        out.push_str(name);
        out.push('>');
        Ok(())
    }

    /// The prefixes that this element uses, or must declare, and that no written ancestor has declared alike.
    fn new_declarations(&self, node: Node<'a, 'i>, declared: &Declared<'a>) -> Declared<'a> {
        let mut new = Declared::new();
        let used = std::iter::once(prefix(written_name(node))).chain(
            node.attributes()
                .map(|attribute| prefix(attribute_name(node, &attribute)))
                .filter(|p| !p.is_empty()),
        );
        for prefix in used {
            new.insert(prefix, in_scope(node, prefix).unwrap_or_default());
        }
        // Below an element that was written, nothing comes into scope unless it is declared: a list is looked through once, not for
        // each of ten thousand elements.
        if declared.is_empty() || !has_namespaces_of_parent(node) {
            for namespace in node.namespaces() {
                let prefix = namespace.name().unwrap_or_default();
                if self.inclusive.contains(prefix) {
                    new.insert(prefix, in_scope(node, prefix).unwrap_or_default());
                }
            }
        }
        // The prefix `xml` is never declared, and no default namespace is the state that a document begins with.
        new.retain(|prefix, uri| *prefix != "xml" && declared.get(prefix).copied().unwrap_or_default() != *uri);
        new
    }
}

/// The tree has the same list for both if the element declares none.
fn has_namespaces_of_parent(node: Node<'_, '_>) -> bool {
    let Some(parent) = node.parent_element() else {
        return false;
    };
    let (own, of_parent) = (node.namespaces(), parent.namespaces());
    own.len() == of_parent.len() && own.zip(of_parent).all(|(one, other)| std::ptr::eq(one, other))
}

fn in_scope<'a>(node: Node<'a, '_>, prefix: &str) -> Option<&'a str> {
    let prefix = if prefix.is_empty() { None } else { Some(prefix) };
    node.lookup_namespace_uri(prefix)
}

/// Attributes without a namespace first, then by namespace and name.
fn sorted_attributes<'a>(node: Node<'a, '_>) -> Vec<(&'a str, &'a str)> {
    let mut attributes: Vec<_> = node.attributes().collect();
    attributes.sort_by_key(|attribute| (attribute.namespace().unwrap_or_default(), attribute.name()));
    attributes
        .iter()
        .map(|attribute| (attribute_name(node, attribute), attribute.value()))
        .collect()
}

/// The name with its prefix. The tree has no prefixes, so it is read where the document has it.
fn written_name<'a>(node: Node<'a, '_>) -> &'a str {
    name_at(node, node.range().start + 1)
}

fn attribute_name<'a>(node: Node<'a, '_>, attribute: &Attribute<'_, '_>) -> &'a str {
    name_at(node, attribute.range().start)
}

fn name_at<'a>(node: Node<'a, '_>, start: usize) -> &'a str {
    let rest = &node.document().input_text()[start..];
    let end = rest.find([' ', '\t', '\n', '\r', '/', '>', '=']).unwrap_or(rest.len());
    &rest[..end]
}

fn prefix(name: &str) -> &str {
    name.split_once(':').map_or("", |(prefix, _)| prefix)
}

fn attribute(name: &str, value: &str, out: &mut String) {
    out.push(' ');
    out.push_str(name);
    out.push_str("=\"");
    escape_attribute(value, out);
    out.push('"');
}

fn escape_text(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#xD;"),
            other => out.push(other),
        }
    }
}

pub(super) fn escape_attribute(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#x9;"),
            '\n' => out.push_str("&#xA;"),
            '\r' => out.push_str("&#xD;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(xml: &str, inclusive: &[&str]) -> String {
        let document = roxmltree::Document::parse(xml).expect("well-formed");
        let inclusive = inclusive.iter().map(|&prefix| prefix.to_owned()).collect();
        let target = document
            .descendants()
            .find(|node| node.has_tag_name("t") || node.tag_name().name() == "t");
        Canonical {
            inclusive,
            without: None,
        }
        .write(target.expect("an element t"))
        .expect("short")
    }

    #[test]
    fn only_namespaces_in_use_are_declared() {
        let xml = r#"<a:r xmlns:a="A" xmlns:b="B" xmlns="D"><a:t b:x="1"><b:u/><v xmlns:c="C"/></a:t></a:r>"#;
        let expected = r#"<a:t xmlns:a="A" xmlns:b="B" b:x="1"><b:u></b:u><v xmlns="D"></v></a:t>"#;
        assert_eq!(canonical(xml, &[]), expected);
    }

    #[test]
    fn listed_prefixes_are_declared_where_they_come_into_scope() {
        let xml = r#"<r xmlns:xs="S"><t><u xmlns:xs="S" xmlns:y="Y"/></t></r>"#;
        assert_eq!(canonical(xml, &["xs"]), r#"<t xmlns:xs="S"><u></u></t>"#);
        assert_eq!(canonical(xml, &["y"]), r#"<t><u xmlns:y="Y"></u></t>"#);
        let xml = r#"<r xmlns="D" xmlns:p="P"><p:t><u/></p:t></r>"#;
        assert_eq!(canonical(xml, &[""]), r#"<p:t xmlns="D" xmlns:p="P"><u></u></p:t>"#);
    }

    #[test]
    fn the_default_namespace_is_undeclared_only_where_it_was_declared() {
        let xml = r#"<t xmlns="D"><u xmlns=""><w xmlns="D"/></u></t>"#;
        assert_eq!(
            canonical(xml, &[]),
            r#"<t xmlns="D"><u xmlns=""><w xmlns="D"></w></u></t>"#
        );
        assert_eq!(canonical(r#"<r xmlns="D"><t xmlns=""/></r>"#, &[]), "<t></t>");
    }

    #[test]
    fn attributes_are_sorted_and_escaped() {
        let xml = "<t xmlns:z='A' xmlns:a='Z' z:b='1' a:a='2' y='&lt;&#9;&#10;&#13;\"&amp;>' b='3' xml:lang='en'/>";
        let expected = "<t xmlns:a=\"Z\" xmlns:z=\"A\" b=\"3\" y=\"&lt;&#x9;&#xA;&#xD;&quot;&amp;>\" z:b=\"1\" \
                        a:a=\"2\" xml:lang=\"en\"></t>";
        assert_eq!(canonical(xml, &[]), expected);
    }

    /// 120 random elements that libxml2 canonicalized; see `make.py` beside the file.
    #[test]
    fn libxml2_writes_the_same_bytes() {
        let cases = include_str!("../../tests/fixtures/saml/canonical.txt");
        for case in cases.split('\u{1d}') {
            let [xml, prefixes, expected] = case.split('\u{1e}').collect::<Vec<_>>()[..] else {
                panic!("a case has three parts: {case}");
            };
            let text = xml::text(xml.into(), xml::Comments::Refused).expect("accepted");
            let document = xml::parse(&text).expect("well-formed");
            let target = document.root_element().first_element_child().expect("an element");
            let inclusive = prefixes.split_whitespace().map(str::to_owned).collect();
            let canonical = Canonical {
                inclusive,
                without: None,
            };
            assert_eq!(canonical.bytes(target).expect("stable"), expected, "{xml}");
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            canonical("<t>a&#13;&gt;&lt;&amp;&quot;'é</t>", &[]),
            "<t>a&#xD;&gt;&lt;&amp;\"'é</t>"
        );
    }
}
