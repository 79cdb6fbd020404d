//! Documents that aim at the parser: entities, declarations, comments, encodings, and sheer size.

use std::time::Duration;

use auth::saml::{Rule, unverified};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::signer::{Signed, Template, encode};
use super::{outcome_of, rule};

fn genuine() -> String {
    Template::default().xml()
}

#[test]
fn a_doctype_is_refused_wherever_it_stands() {
    let xxe = r#"<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>"#;
    let external = r#"<!DOCTYPE r SYSTEM "https://evil.test/x.dtd">"#;
    let laughs = "<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]>";
    for doctype in [xxe, external, laughs, "<!doctype html>", "<!ENTITY x \"y\">"] {
        assert_eq!(rule(&format!("{doctype}{}", genuine())), Rule::Doctype);
        let declared = format!("<?xml version=\"1.0\"?>\n{doctype}{}", genuine());
        assert_eq!(rule(&declared), Rule::Doctype);
        assert_eq!(
            rule(&genuine().replace("<saml:Subject>", &format!("{doctype}<saml:Subject>"))),
            Rule::Doctype
        );
    }
}

#[test]
fn entities_other_than_the_five_are_refused() {
    for entity in ["&x;", "&nbsp;", "&#0;", "&#xFFFF;", "&", "&#x110000;"] {
        let xml = genuine().replace("anna@corp.test", &format!("anna{entity}@corp.test"));
        assert_eq!(rule(&xml), Rule::NotXml, "{entity}");
    }
}

/// CVE-2017-11427 and its kin: the first piece of a text that a comment splits.
#[test]
fn comments_are_refused_wherever_they_stand() {
    let places = [
        "anna@corp.test",
        "<saml:Subject>",
        "<ds:DigestValue>",
        "<ds:SignedInfo>",
        "<samlp:Status>",
    ];
    for place in places {
        let after = genuine().replacen(place, &format!("{place}<!---->"), 1);
        assert_eq!(rule(&after), Rule::Comment, "{place}");
    }
    let mut victim = Template::default();
    victim.subject = victim
        .subject
        .replace("anna@corp.test", "owner@corp.test<!-- -->.evil.test");
    assert_eq!(rule(&victim.xml()), Rule::Comment);
    assert_eq!(rule(&format!("<!-- -->{}", genuine())), Rule::Comment);
}

#[test]
fn cdata_and_processing_instructions_are_refused() {
    let cdata = genuine().replace(">anna@corp.test<", "><![CDATA[anna@corp.test]]><");
    assert_eq!(rule(&cdata), Rule::Cdata);
    let instruction = genuine().replace(">anna@corp.test<", ">anna<?x y?>@corp.test<");
    assert_eq!(rule(&instruction), Rule::ProcessingInstruction);
    let stylesheet = format!("<?xml version=\"1.0\"?><?xml-stylesheet href=\"x\"?>{}", genuine());
    assert_eq!(rule(&stylesheet), Rule::ProcessingInstruction);
}

#[test]
fn xinclude_is_refused() {
    let include = r#"<x:include xmlns:x="http://www.w3.org/2001/XInclude" href="file:///etc/passwd"></x:include>"#;
    assert_eq!(
        rule(&genuine().replace("<saml:Subject>", &format!("{include}<saml:Subject>"))),
        Rule::Xinclude
    );
}

#[test]
fn only_utf8_is_read() {
    let latin1 = genuine().replace("Åkesson", "?").into_bytes();
    let latin1: Vec<u8> = latin1
        .into_iter()
        .map(|byte| if byte == b'?' { 0xC5 } else { byte })
        .collect();
    assert_eq!(
        outcome_of(&STANDARD.encode(latin1)).expect_err("refused").rule,
        Rule::NotXml
    );
    let utf16: Vec<u8> = genuine().encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        outcome_of(&STANDARD.encode(utf16)).expect_err("refused").rule,
        Rule::NotXml
    );
    for declaration in [
        "version=\"1.0\" encoding=\"UTF-7\"",
        "version='1.1'",
        "version='1.0' encoding='latin1'",
        "",
    ] {
        assert_eq!(
            rule(&format!("<?xml {declaration}?>{}", genuine())),
            Rule::NotXml,
            "{declaration}"
        );
    }
}

#[test]
fn what_is_not_well_formed_is_refused() {
    for xml in [
        "",
        " ",
        "hello",
        "<",
        "<a",
        "<a></b>",
        "<a/><b/>",
        "<a x='1' x='2'/>",
        "<p:a/>",
        "<a>\u{0}</a>",
    ] {
        assert_eq!(rule(xml), Rule::NotXml, "{xml}");
    }
    assert_eq!(outcome_of("%%%").expect_err("refused").rule, Rule::NotBase64);
    assert_eq!(rule("<a/>"), Rule::NotResponse);
}

#[test]
fn another_kind_of_response_is_refused() {
    let xml = genuine();
    assert_eq!(
        rule(&xml.replace("samlp:Response", "samlp:LogoutResponse")),
        Rule::NotResponse
    );
    assert_eq!(rule(&xml.replace("2.0:protocol", "1.1:protocol")), Rule::NotResponse);
    assert_eq!(
        rule(&xml.replacen("Version=\"2.0\"", "Version=\"1.1\"", 1)),
        Rule::NotResponse
    );
}

/// Another verifier does not take it for a namespace, so what is signed would not be the same to both.
#[test]
fn a_declaration_with_a_prefix_is_refused() {
    for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
        let template = Template {
            signed,
            ..Template::default()
        };
        for element in ["<ds:CanonicalizationMethod ", "<saml:Assertion ", "<samlp:Response "] {
            for attribute in ["x:xmlns=\"urn:x\" ", "ds:xmlns = 'urn:x' "] {
                let xml = template.xml().replacen(element, &format!("{element}{attribute}"), 1);
                assert_eq!(rule(&xml), Rule::NotXml, "{element}{attribute}");
            }
        }
    }
}

/// Refusing must cost next to nothing, whatever is sent.
#[track_caller]
fn refused_quickly(saml_response: &str, expected: &[Rule]) {
    let refused = || {
        let start = time_on_processor();
        let refusal = outcome_of(saml_response).expect_err("refused");
        assert!(expected.contains(&refusal.rule), "{refusal}");
        time_on_processor().saturating_sub(start)
    };
    let elapsed = refused().min(refused()).min(refused());
    // As shipped it is a tenth of what it takes unoptimised.
    let limit = Duration::from_millis(if cfg!(debug_assertions) { 250 } else { 50 });
    assert!(elapsed < limit, "{elapsed:?}");
}

/// What this thread has used, so that a busy machine does not fail the test.
fn time_on_processor() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts");
    let nanoseconds = times
        .split(' ')
        .next()
        .and_then(|field| field.parse().ok())
        .expect("a number");
    Duration::from_nanos(nanoseconds)
}

#[test]
fn size_is_refused_before_anything_is_looked_at() {
    refused_quickly(&"A".repeat(10_000_000), &[Rule::TooLarge]);
    refused_quickly(&encode(&"<a>".repeat(100_000)), &[Rule::TooLarge]);
    let padded = genuine().replace("<saml:Subject>", &format!("{}<saml:Subject>", " ".repeat(260 * 1024)));
    refused_quickly(&encode(&padded), &[Rule::TooLarge]);
}

#[test]
fn bombs_of_every_kind_are_refused_quickly() {
    let big = 250_000;
    let repeated = |count: usize, piece: fn(usize) -> String| (0..count).map(piece).collect::<Vec<_>>().concat();
    let attributes = repeated(big / 8, |n| format!(" a{n}=''"));
    let namespaces = repeated(big / 16, |n| format!(" xmlns:a{n}='x'"));
    let scopes = repeated(49, |n| format!(" xmlns:a{n}='x'"));
    let inner = "<b xmlns:a1='y'/>".repeat(1900);
    let cut = |text: String| text.chars().take(big).collect::<String>();
    let rules = [Rule::TooComplex, Rule::NotXml, Rule::NotResponse];
    for bomb in [
        "<a>".repeat(big / 3),
        "<a/>".repeat(big / 4),
        format!("<a>{}</a>", "<b/>".repeat(big / 5)),
        cut(format!("<a{attributes}")),
        cut(format!("<a{namespaces}")),
        format!("<a{scopes}>{inner}</a>"),
        format!("<a>{}</a>", "&amp;".repeat(big / 6)),
        format!("<a b='{}'/>", "&#9;".repeat(big / 5)),
        "<".repeat(big),
        "\r".repeat(big),
    ] {
        refused_quickly(&encode(&bomb), &rules);
        assert!(unverified(&encode(&bomb)).is_err());
    }
}

/// Found in review: each of the small elements would repeat the long namespace, before any signature is verified.
#[test]
fn a_document_that_grows_in_its_canonical_form_is_refused_quickly() {
    let long = format!(" xmlns:p=\"urn:{}\"><saml:Issuer", "u".repeat(100_000));
    let crowd = format!("{}</ds:Transforms>", "<p:b/>".repeat(9_000));
    let bomb = genuine()
        .replacen("><saml:Issuer", &long, 2)
        .replacen("</ds:Transforms>", &crowd, 1);
    refused_quickly(&encode(&bomb), &[Rule::TooComplex]);
    let refusal = super::outcome(&bomb).expect_err("refused");
    assert!(refusal.detail.contains("canonical"), "{refusal}");
}

/// Found in review: for each of many elements all listed prefixes were looked up, before any signature is verified.
#[test]
fn a_list_of_prefixes_is_not_looked_through_for_every_element() {
    let bomb = |length: usize| {
        let prefixes: Vec<String> = (0..40).map(|n| format!("{}{n}", "p".repeat(length))).collect();
        let declared: Vec<String> = prefixes
            .iter()
            .map(|prefix| format!(" xmlns:{prefix}='urn:x'"))
            .collect();
        let scope = format!("{}><saml:Issuer", declared.concat());
        let list = format!(
            "<x:InclusiveNamespaces xmlns:x='http://www.w3.org/2001/10/xml-exc-c14n#' PrefixList='{}'/></ds:CanonicalizationMethod>",
            prefixes.join(" ")
        );
        let crowd = format!("{}</ds:Transforms>", "<a/>".repeat(1_500));
        let bomb = genuine()
            .replacen("><saml:Issuer", &scope, 1)
            .replacen("</ds:CanonicalizationMethod>", &list, 1)
            .replacen("</ds:Transforms>", &crowd, 1);
        encode(&bomb)
    };
    refused_quickly(&bomb(80), &[Rule::SignatureInvalid]);
    refused_quickly(&bomb(2_000), &[Rule::TooComplex]);
}

/// Canonical XML has no form for them, and other verifiers refuse them.
#[test]
fn a_relative_namespace_is_refused() {
    for uri in [
        "relative",
        "urn",
        "1:a",
        "http://ww&#xD;w.w3.org/",
        "urn:a b",
        "urn:\u{a0}",
        "#a",
        "http://w]]x",
    ] {
        for declaration in [format!("xmlns:x=\"{uri}\" "), format!("xmlns:x = '{uri}' ")] {
            let xml = genuine().replacen("<samlp:Response ", &format!("<samlp:Response {declaration}"), 1);
            assert_eq!(rule(&xml), Rule::NotXml, "{declaration}");
        }
    }
}

#[test]
fn a_deep_document_is_refused() {
    let deep = format!("{}{}", "<x>".repeat(60), "</x>".repeat(60));
    let extensions = format!("<samlp:Extensions>{deep}</samlp:Extensions><samlp:Status>");
    assert_eq!(
        rule(&genuine().replace("<samlp:Status>", &extensions)),
        Rule::TooComplex
    );
}

/// Oddities that the parser tolerates must not reach what is read: the canonical form has them sorted out.
#[test]
fn namespaces_cannot_be_bent() {
    for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
        let xml = Template {
            signed,
            ..Template::default()
        }
        .xml();
        for (from, to) in [
            (
                "xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" ID",
                "xmlns:saml=\"urn:x\" ID",
            ),
            ("<saml:Subject>", "<saml:Subject xmlns:saml=\"urn:x\">"),
            ("<saml:Subject>", "<saml:Subject xmlns:saml=\"\">"),
            ("<saml:NameID>", "<NameID>"),
        ] {
            let bent = xml.replacen(from, to, 1);
            assert!(bent != xml && super::outcome(&bent).is_err(), "{to}");
        }
    }
}
