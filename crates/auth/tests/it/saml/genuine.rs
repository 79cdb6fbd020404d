//! What must be accepted, made by two stacks: our own signer, and lxml with signxml.

use auth::saml::{Assertion, unverified, verify};

use super::fixtures::{PLAIN, REQUEST, at, expected, fixture, idp, sp};
use super::signer::{Signed, Template, encode};

fn accepted(xml: &str, entity_id: &str, certificates: &str) -> Assertion {
    let (sp, idp) = (sp(), idp(entity_id, certificates));
    verify(&encode(xml), &expected(&sp, &idp)).unwrap_or_else(|refusal| panic!("{refusal:?}\n{xml}"))
}

fn anna(name_id: &str, remember_until: &str) -> Assertion {
    Assertion {
        id: "_assertion1".to_owned(),
        name_id: name_id.to_owned(),
        subject: name_id.to_owned(),
        email: "anna@corp.test".to_owned(),
        first_name: "Anna".to_owned(),
        last_name: "Åkesson & Søn".to_owned(),
        session_not_on_or_after: None,
        remember_until: at(remember_until),
        in_response_to: Some(REQUEST.to_owned()),
    }
}

#[test]
fn what_signxml_has_signed_is_accepted() {
    let rsa = fixture!("rsa.crt");
    let cases = [
        (fixture!("assertion-signed.xml"), rsa),
        (fixture!("response-signed.xml"), rsa),
        (fixture!("both-signed.xml"), rsa),
        (fixture!("rsa-sha384.xml"), rsa),
        (fixture!("rsa-sha512.xml"), rsa),
        (fixture!("ecdsa-p256.xml"), fixture!("p256.crt")),
        (fixture!("ecdsa-p384.xml"), fixture!("p384.crt")),
    ];
    for (xml, certificate) in cases {
        assert_eq!(
            accepted(xml, PLAIN, certificate),
            anna("anna@corp.test", "2026-11-15T12:06:00.123Z")
        );
    }
}

#[test]
fn the_shapes_of_well_known_providers_are_accepted() {
    let cases = [
        (
            fixture!("okta.xml"),
            "http://www.okta.com/exk1fixture",
            "anna@corp.test",
        ),
        (
            fixture!("entra.xml"),
            "https://sts.windows.net/00000000-0000-0000-0000-000000000001/",
            "Zk3x-opaque-subject",
        ),
        (
            fixture!("google.xml"),
            "https://accounts.google.com/o/saml2?idpid=C0fixture",
            "anna@corp.test",
        ),
        (
            fixture!("keycloak.xml"),
            "https://keycloak.test/realms/corp",
            "G-1b2c-3d4e",
        ),
    ];
    for (xml, entity_id, name_id) in cases {
        let assertion = accepted(xml, entity_id, fixture!("rsa.crt"));
        assert_eq!(assertion, anna(name_id, "2026-11-15T12:06:00.123Z"));
    }
}

#[test]
fn what_our_signer_has_signed_is_accepted() {
    for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
        let template = Template {
            signed,
            ..Template::default()
        };
        let assertion = accepted(&template.xml(), PLAIN, fixture!("rsa.crt"));
        assert_eq!(assertion.email, "anna@corp.test");
        assert_eq!(assertion.remember_until, at("2026-11-15T12:06:00Z"));
    }
}

/// A transient name is another one at each sign-in, so it tells nothing about who somebody is.
#[test]
fn the_subject_is_the_address_where_the_name_is_transient() {
    for (format, subject) in [("transient", "anna@corp.test"), ("persistent", "_made_up")] {
        let mut template = Template::default();
        let format = format!("<saml:NameID Format=\"urn:oasis:names:tc:SAML:2.0:nameid-format:{format}\">_made_up<");
        let (start, rest) = template.subject.split_once("<saml:NameID>").expect("a name");
        let (_, end) = rest.split_once('<').expect("an end");
        template.subject = format!("{start}{format}{end}");
        let assertion = accepted(&template.xml(), PLAIN, fixture!("rsa.crt"));
        assert_eq!(assertion.name_id, "_made_up");
        assert_eq!(assertion.subject, subject);
    }
}

#[test]
fn windows_line_ends_and_wrapped_base64_do_not_matter() {
    let xml = fixture!("both-signed.xml").replace('\n', "\r\n");
    accepted(&xml, PLAIN, fixture!("rsa.crt"));
    let encoded = encode(&xml);
    let lines: Vec<&[u8]> = encoded.as_bytes().chunks(76).collect();
    let wrapped = String::from_utf8(lines.join(&b"\r\n"[..])).expect("ascii");
    let (sp, idp) = (sp(), idp(PLAIN, fixture!("rsa.crt")));
    assert!(verify(&wrapped, &expected(&sp, &idp)).is_ok());
}

/// XML turns every line end into one character before anything else, even behind a reference to another one.
#[test]
fn a_line_end_behind_a_reference_is_one_character() {
    let mut template = Template::default();
    template.statements = template.statements.replace("Åkesson", "Åkesson\n");
    accepted(
        &template.xml().replace("Åkesson\n", "Åkesso&#110;\r"),
        PLAIN,
        fixture!("rsa.crt"),
    );
    accepted(
        &template.xml().replace("Åkesson\n", "Åkesso&#110;\r\n"),
        PLAIN,
        fixture!("rsa.crt"),
    );
}

#[test]
fn any_of_several_certificates_may_have_signed() {
    let all = [fixture!("other.crt"), fixture!("p256.crt"), fixture!("rsa.crt")].concat();
    accepted(&Template::default().xml(), PLAIN, &all);
    let with_expired = [fixture!("rsa-expired.crt"), fixture!("rsa.crt")].concat();
    accepted(&Template::default().xml(), PLAIN, &with_expired);
}

#[test]
fn an_unsolicited_response_is_accepted_where_it_is_allowed() {
    let template = unsolicited();
    let (sp, idp) = (sp(), idp(PLAIN, fixture!("rsa.crt")));
    let mut expected = expected(&sp, &idp);
    expected.request_id = None;
    expected.allows_unsolicited = true;
    let assertion = verify(&template.encoded(), &expected).expect("accepted");
    assert_eq!(assertion.in_response_to, None);
}

fn unsolicited() -> Template {
    let mut template = Template {
        in_response_to: String::new(),
        ..Template::default()
    };
    template.subject = template.subject.replace(&format!(r#" InResponseTo="{REQUEST}""#), "");
    template
}

#[test]
fn the_claimed_request_and_issuer_can_be_looked_up_first() {
    let claims = unverified(&encode(fixture!("okta.xml"))).expect("readable");
    assert_eq!(claims.in_response_to.as_deref(), Some(REQUEST));
    assert_eq!(claims.issuer.as_deref(), Some("http://www.okta.com/exk1fixture"));
    let claims = unverified(&unsolicited().encoded()).expect("readable");
    assert_eq!(claims.in_response_to, None);
}

#[test]
fn the_end_of_the_session_is_the_earliest_that_is_named() {
    let mut template = Template::default();
    template.statements = template.statements.replace(
        "<saml:AuthnStatement AuthnInstant=\"2026-11-15T12:00:00Z\">",
        "<saml:AuthnStatement AuthnInstant=\"2026-11-15T12:00:00Z\" SessionNotOnOrAfter=\"2026-11-15T20:00:00Z\">",
    );
    let assertion = accepted(&template.xml(), PLAIN, fixture!("rsa.crt"));
    assert_eq!(assertion.session_not_on_or_after, Some(at("2026-11-15T20:00:00Z")));
}
