//! Metadata as administrators upload it.

use auth::saml::{Rule, read_metadata};

use super::fixtures::{at, fixture};

fn bare(pem: &str) -> String {
    let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    lines.join("\n")
}

fn key(attributes: &str, certificate: &str) -> String {
    format!(
        "<md:KeyDescriptor{attributes}><ds:KeyInfo xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\"><ds:X509Data>\
         <ds:X509Certificate>\n{}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>",
        bare(certificate)
    )
}

fn service(binding: &str, location: &str) -> String {
    format!(
        "<md:SingleSignOnService Binding=\"urn:oasis:names:tc:SAML:2.0:bindings:{binding}\" Location=\"{location}\"/>"
    )
}

fn entity(inside: &str) -> String {
    format!(
        "<md:EntityDescriptor xmlns:md=\"urn:oasis:names:tc:SAML:2.0:metadata\" entityID=\"https://idp.test\" \
         validUntil=\"2026-12-24T00:00:00Z\"><!-- ours --><md:IDPSSODescriptor \
         protocolSupportEnumeration=\"urn:oasis:names:tc:SAML:2.0:protocol\">{inside}</md:IDPSSODescriptor>\
         </md:EntityDescriptor>"
    )
}

fn usual() -> String {
    let services =
        service("HTTP-POST", "https://idp.test/post") + &service("HTTP-Redirect", "https://idp.test/sso?a=1&amp;b=2");
    let keys = key(" use=\"signing\"", fixture!("rsa.crt")) + &key("", fixture!("p256.crt"));
    entity(&(keys + &key(" use=\"encryption\"", fixture!("other.crt")) + &services))
}

fn list(inside: &str) -> String {
    format!(
        "<md:EntitiesDescriptor xmlns:md=\"urn:oasis:names:tc:SAML:2.0:metadata\" \
         validUntil=\"2026-12-01T00:00:00Z\">{inside}</md:EntitiesDescriptor>"
    )
}

#[track_caller]
fn rule(xml: &str) -> Rule {
    read_metadata(xml.as_bytes()).expect_err("refused").rule
}

#[test]
fn metadata_gives_what_a_connection_needs() {
    let found = read_metadata(usual().as_bytes()).expect("metadata");
    assert_eq!(found.entity_id, "https://idp.test");
    assert_eq!(found.sso_url, "https://idp.test/sso?a=1&b=2");
    assert_eq!(found.valid_until, Some(at("2026-12-24T00:00:00Z")));
    let subjects: Vec<&str> = found.certificates.iter().map(|info| info.subject.as_str()).collect();
    assert_eq!(subjects, ["CN=rsa,O=Fixture", "CN=p256,O=Fixture"]);
}

#[test]
fn a_list_with_one_provider_will_do() {
    let sp = auth::saml::metadata(&super::sp());
    let sp = sp.split_once("?>").expect("a declaration").1;
    let found = read_metadata(list(&format!("{}{sp}", usual())).as_bytes()).expect("metadata");
    assert_eq!(found.entity_id, "https://idp.test");
    assert_eq!(found.valid_until, Some(at("2026-12-01T00:00:00Z")));
    assert_eq!(rule(&list(&usual().repeat(2))), Rule::SeveralProviders);
    assert_eq!(rule(&list("")), Rule::NotMetadata);
    assert_eq!(rule(&list(sp)), Rule::NotMetadata);
}

#[test]
fn a_byte_order_mark_and_a_declaration_do_not_matter() {
    let xml = format!("\u{feff}<?xml version='1.0' encoding='utf-8'?>\r\n{}", usual());
    assert!(read_metadata(xml.as_bytes()).is_ok());
}

#[test]
fn a_key_that_is_too_weak_is_left_out_as_long_as_another_is_there() {
    let services = service("HTTP-Redirect", "https://idp.test/sso");
    let both = entity(&(key("", fixture!("rsa1024.crt")) + &key("", fixture!("rsa.crt")) + &services));
    assert_eq!(
        read_metadata(both.as_bytes())
            .expect("metadata")
            .certificates
            .iter()
            .count(),
        1
    );
    let weak = entity(&(key("", fixture!("rsa1024.crt")) + &services));
    assert_eq!(rule(&weak), Rule::CertificateMissing);
    assert_eq!(rule(&entity(&services)), Rule::CertificateMissing);
    let encryption = entity(&(key(" use=\"encryption\"", fixture!("rsa.crt")) + &services));
    assert_eq!(rule(&encryption), Rule::CertificateMissing);
}

#[test]
fn what_is_not_usable_metadata_is_refused() {
    let keys = key("", fixture!("rsa.crt"));
    assert_eq!(
        rule(&entity(
            &(keys.clone() + &service("HTTP-POST", "https://idp.test/post"))
        )),
        Rule::SsoUrlMissing
    );
    assert_eq!(
        rule(&usual().replace("entityID=\"https://idp.test\"", "entityID=\" \"")),
        Rule::NotMetadata
    );
    assert_eq!(
        rule(&usual().replace("SAML:2.0:protocol", "SAML:1.1:protocol")),
        Rule::NotMetadata
    );
    assert_eq!(rule(&usual().replace("2026-12-24T00:00:00Z", "soon")), Rule::Malformed);
    assert_eq!(rule("<a/>"), Rule::NotMetadata);
    assert_eq!(rule("no xml"), Rule::NotXml);
    assert_eq!(rule(&format!("<!DOCTYPE x>{}", usual())), Rule::Doctype);
    assert_eq!(rule(&format!("{}{}", usual(), " ".repeat(600_000))), Rule::TooLarge);
    let split = usual().replace("<ds:X509Certificate>\n", "<ds:X509Certificate>\nAAAA<!-- -->");
    assert_eq!(rule(&split), Rule::Malformed);
}
