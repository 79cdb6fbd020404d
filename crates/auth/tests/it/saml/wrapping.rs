//! Signature wrapping: a genuine signature is kept, and something else is put where a careless reader looks.
//!
//! The eight shapes are those of "On Breaking SAML" (Somorovsky and others, 2012).

use auth::saml::Rule;

use super::rule;
use super::signer::{SAML, Signed, Template, subject};

const VICTIM: &str = "owner@corp.test";

fn genuine(signed: Signed) -> Template {
    Template {
        signed,
        ..Template::default()
    }
}

/// What the attacker wants to be read: unsigned, with ids of its own.
fn evil() -> Template {
    let mut evil = Template {
        response_id: "_evil_response".to_owned(),
        assertion_id: "_evil_assertion".to_owned(),
        ..genuine(Signed::Nothing)
    };
    evil.subject = evil.subject.replace("anna@corp.test", VICTIM);
    evil.statements = evil.statements.replace("anna@corp.test", VICTIM);
    evil
}

/// The genuine response signature, with something put before its end.
fn response_signature(inside: &str) -> String {
    let template = genuine(Signed::Response);
    let content = template.response("", &template.assertion(""));
    let signature = template.signature("#_response1", &content);
    signature.replace("</ds:Signature>", &format!("{inside}</ds:Signature>"))
}

/// The genuine assertion signature, with something put before its end.
fn assertion_signature(inside: &str) -> String {
    let signature = genuine(Signed::Assertion).signature_of_assertion();
    signature.replace("</ds:Signature>", &format!("{inside}</ds:Signature>"))
}

fn signed_assertion() -> String {
    let template = genuine(Signed::Assertion);
    template.assertion(&template.signature_of_assertion())
}

fn unsigned_assertion() -> String {
    genuine(Signed::Assertion).assertion("")
}

fn unsigned_response() -> String {
    genuine(Signed::Nothing).xml()
}

#[test]
fn xsw1_the_response_is_copied_into_its_signature() {
    let xml = evil().response(&response_signature(&unsigned_response()), &evil().assertion(""));
    assert_eq!(rule(&xml), Rule::SeveralAssertions);
}

#[test]
fn xsw2_the_response_is_copied_beside_its_signature() {
    let before = unsigned_response() + &response_signature("");
    let xml = evil().response(&before, &evil().assertion(""));
    assert_eq!(rule(&xml), Rule::SeveralAssertions);
}

#[test]
fn xsw3_an_assertion_stands_before_the_signed_one() {
    let xml = evil().response("", &(evil().assertion("") + &signed_assertion()));
    assert_eq!(rule(&xml), Rule::SeveralAssertions);
}

#[test]
fn xsw4_an_assertion_holds_the_signed_one() {
    let xml = evil().response("", &evil().assertion(&signed_assertion()));
    assert_eq!(rule(&xml), Rule::SeveralAssertions);
}

#[test]
fn xsw5_the_signature_moves_to_another_assertion() {
    let xml = evil().response(
        "",
        &(evil().assertion(&assertion_signature("")) + &unsigned_assertion()),
    );
    assert_eq!(rule(&xml), Rule::SeveralAssertions);
}

#[test]
fn xsw6_the_signed_assertion_moves_into_the_signature() {
    let xml = evil().response("", &evil().assertion(&assertion_signature(&unsigned_assertion())));
    assert_eq!(rule(&xml), Rule::SeveralAssertions);
}

#[test]
fn xsw7_the_other_assertion_hides_in_extensions() {
    let extensions = format!("<samlp:Extensions>{}</samlp:Extensions>", evil().assertion(""));
    let xml = evil().response(&extensions, &signed_assertion());
    assert_eq!(rule(&xml), Rule::SeveralAssertions);
}

#[test]
fn xsw8_the_signed_assertion_hides_in_an_object() {
    let object = format!("<ds:Object>{}</ds:Object>", unsigned_assertion());
    let xml = evil().response("", &evil().assertion(&assertion_signature(&object)));
    assert_eq!(rule(&xml), Rule::SeveralAssertions);
}

/// Even if nothing were known of a second assertion: a signature does not fit where it was not made for.
#[test]
fn a_signature_that_covers_another_element_is_refused() {
    let xml = evil().response("", &evil().assertion(&assertion_signature("")));
    assert_eq!(rule(&xml), Rule::ReferenceMismatch);
    for reference in [
        "",
        "_assertion1",
        "#_response1",
        "#xpointer(/)",
        "#_assertion1 ",
        "#",
        "file:///etc/passwd",
    ] {
        let template = Template {
            reference: Some(reference.to_owned()),
            ..genuine(Signed::Assertion)
        };
        assert_eq!(rule(&template.xml()), Rule::ReferenceMismatch, "{reference}");
    }
}

#[test]
fn an_assertion_that_is_spelled_otherwise_is_still_an_assertion() {
    let other_case = evil().assertion("").replace("saml:Assertion", "saml:assertion");
    let other_namespace = evil().assertion("").replace(SAML, "urn:evil");
    for hidden in [other_case, other_namespace] {
        for assertions in [hidden.clone() + &signed_assertion(), signed_assertion() + &hidden] {
            assert_eq!(rule(&evil().response("", &assertions)), Rule::SeveralAssertions);
        }
    }
}

#[test]
fn an_assertion_that_is_no_child_of_the_response_is_refused() {
    let extensions = format!("<samlp:Extensions>{}</samlp:Extensions>", signed_assertion());
    assert_eq!(rule(&evil().response(&extensions, "")), Rule::AssertionMissing);
    assert_eq!(rule(&evil().response("", "")), Rule::AssertionMissing);
    assert_eq!(rule(&signed_assertion()), Rule::NotResponse);
}

#[test]
fn a_response_in_the_response_is_refused() {
    let extensions = "<samlp:Extensions><samlp:Response></samlp:Response></samlp:Extensions>";
    assert_eq!(
        rule(&evil().response(extensions, &signed_assertion())),
        Rule::SeveralAssertions
    );
}

#[test]
fn an_id_that_occurs_twice_is_refused_in_every_spelling() {
    for name in ["ID", "Id", "id", "xml:id", "x:ID"] {
        let twin = format!(r#"<x:y xmlns:x="urn:x" {name}="_assertion1"></x:y>"#);
        let extensions = format!("<samlp:Extensions>{twin}</samlp:Extensions>");
        assert_eq!(
            rule(&evil().response(&extensions, &signed_assertion())),
            Rule::DuplicateId,
            "{name}"
        );
    }
    let mut same = genuine(Signed::Assertion);
    same.response_id.clone_from(&same.assertion_id);
    assert_eq!(rule(&same.xml()), Rule::DuplicateId);
}

#[test]
fn stray_and_repeated_signatures_are_refused() {
    let assertion = genuine(Signed::Assertion);
    let twice = assertion_signature("") + &assertion_signature("");
    assert_eq!(
        rule(&assertion.response("", &assertion.assertion(&twice))),
        Rule::SeveralSignatures
    );
    let extensions = format!("<samlp:Extensions>{}</samlp:Extensions>", assertion_signature(""));
    assert_eq!(
        rule(&assertion.response(&extensions, &assertion.assertion(""))),
        Rule::SignatureMalformed
    );
    let foreign = assertion_signature("").replace("http://www.w3.org/2000/09/xmldsig#\"", "urn:x\"");
    assert_eq!(
        rule(&assertion.response("", &assertion.assertion(&foreign))),
        Rule::SignatureMalformed
    );
}

/// The response is signed, and the attacker adds to the assertion inside of it.
#[test]
fn a_second_subject_in_a_signed_response_breaks_its_signature() {
    let genuine = genuine(Signed::Response).xml();
    let second = subject(VICTIM, "");
    let xml = genuine.replace("<saml:Conditions", &format!("{second}<saml:Conditions"));
    assert_eq!(rule(&xml), Rule::SignatureInvalid);
}

#[test]
fn one_signature_that_holds_does_not_save_another_that_does_not() {
    let both = genuine(Signed::Both);
    let broken = both.signature("#_assertion1", "something else");
    let assertion = both.assertion(&broken);
    let response = both.signature("#_response1", &both.response("", &assertion));
    assert_eq!(rule(&both.response(&response, &assertion)), Rule::SignatureInvalid);
}

#[test]
fn something_in_the_signature_beside_its_parts_is_refused() {
    let assertion = genuine(Signed::Assertion);
    for extra in [
        "<ds:Object></ds:Object>",
        "<ds:KeyInfo></ds:KeyInfo><ds:KeyInfo></ds:KeyInfo>",
        "text",
    ] {
        let xml = assertion.response("", &assertion.assertion(&assertion_signature(extra)));
        assert!(
            matches!(rule(&xml), Rule::SignatureMalformed | Rule::Malformed),
            "{extra}"
        );
    }
    let beside = format!("<x></x>{}", assertion_signature(""));
    let xml = assertion.response("", &assertion.assertion(&beside));
    assert_eq!(rule(&xml), Rule::SignatureInvalid);
}
