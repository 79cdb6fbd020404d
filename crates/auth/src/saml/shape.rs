//! The shape that a response must have before anything in it is believed.
//!
//! Reading only verified bytes already defeats wrapped signatures. These rules are the second lock: a document with a
//! second assertion, a stray signature or an id that occurs twice was made to confuse somebody.

use std::collections::HashSet;

use roxmltree::{Document, Node};

use super::namespace::{DS, SAML, SAMLP};
use super::refusal::{Refusal, Rule, shown};
use super::xml;

/// The response and the one assertion in it.
pub(super) struct Shape<'a, 'i> {
    pub response: Node<'a, 'i>,
    pub assertion: Node<'a, 'i>,
}

/// The root, if it is a SAML 2.0 response.
pub(super) fn response<'a, 'i>(document: &'a Document<'i>) -> Result<Node<'a, 'i>, Refusal> {
    let root = document.root_element();
    if xml::is(root, SAMLP, "Response") && xml::attribute(root, "Version") == Some("2.0") {
        return Ok(root);
    }
    let name = shown(root.tag_name().name());
    Err(Refusal::new(
        Rule::NotResponse,
        format!("the document is {name}, not a SAML 2.0 Response"),
    ))
}

/// The one assertion of a response, wherever else one might hide.
pub(super) fn check<'a, 'i>(document: &'a Document<'i>) -> Result<Shape<'a, 'i>, Refusal> {
    let response = response(document)?;
    refuse_encryption(document)?;
    refuse_equal_ids(document)?;
    let assertion = only_assertion(response)?;
    refuse_stray_signatures(response, assertion)?;
    Ok(Shape { response, assertion })
}

pub(super) fn is_signed(node: Node<'_, '_>) -> Result<bool, Refusal> {
    Ok(!xml::children(node, DS, "Signature")?.is_empty())
}

fn refuse_encryption(document: &Document<'_>) -> Result<(), Refusal> {
    let is_encrypted = |node: Node<'_, '_>| node.is_element() && node.tag_name().name().starts_with("Encrypted");
    if document.descendants().any(is_encrypted) {
        let detail = "the response is encrypted, which is not supported; turn assertion encryption off at the identity \
                      provider (the connection itself is encrypted)";
        return Err(Refusal::new(Rule::Encrypted, detail));
    }
    Ok(())
}

/// No value may be an id twice, in whatever spelling or namespace: `ID`, `Id`, `xml:id`.
fn refuse_equal_ids(document: &Document<'_>) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    let attributes = document.descendants().flat_map(|node| node.attributes());
    for id in attributes.filter(|attribute| attribute.name().eq_ignore_ascii_case("id")) {
        if !seen.insert(id.value()) {
            let detail = format!("the ID {} occurs twice", shown(id.value()));
            return Err(Refusal::new(Rule::DuplicateId, detail));
        }
    }
    Ok(())
}

/// Names are compared without their namespace and case, so that none passes as something else.
fn named<'a, 'i>(root: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    root.descendants()
        .filter(move |node| node.is_element() && node.tag_name().name().eq_ignore_ascii_case(name))
}

fn only_assertion<'a, 'i>(response: Node<'a, 'i>) -> Result<Node<'a, 'i>, Refusal> {
    if named(response, "Response").count() != 1 {
        return Err(Refusal::new(
            Rule::SeveralAssertions,
            "the response has another response in it",
        ));
    }
    let assertions: Vec<_> = named(response, "Assertion").collect();
    match assertions[..] {
        [] => Err(Refusal::new(Rule::AssertionMissing, "the response has no assertion")),
        [assertion] if xml::is(assertion, SAML, "Assertion") && assertion.parent() == Some(response) => Ok(assertion),
        [_] => Err(Refusal::new(
            Rule::AssertionMissing,
            "the assertion is not a child of the response",
        )),
        _ => Err(Refusal::new(
            Rule::SeveralAssertions,
            "the response has more than one assertion; one is accepted",
        )),
    }
}

fn refuse_stray_signatures(response: Node<'_, '_>, assertion: Node<'_, '_>) -> Result<(), Refusal> {
    let mut parents = Vec::new();
    for signature in named(response, "Signature") {
        let is_placed = [Some(response), Some(assertion)].contains(&signature.parent());
        if !is_placed || !xml::is(signature, DS, "Signature") {
            let detail = "a signature is not directly in the response or in the assertion";
            return Err(Refusal::new(Rule::SignatureMalformed, detail));
        }
        if parents.contains(&signature.parent()) {
            return Err(Refusal::new(
                Rule::SeveralSignatures,
                "an element has more than one signature",
            ));
        }
        parents.push(signature.parent());
    }
    if named(response, "SignedInfo").count() > parents.len() {
        return Err(Refusal::new(
            Rule::SeveralSignatures,
            "a signature has more than one SignedInfo",
        ));
    }
    Ok(())
}
