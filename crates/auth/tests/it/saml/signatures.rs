//! Signatures that are missing, forged, weakened, or made with a key that nobody trusts.

use auth::saml::{Rule, verify};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::fixtures::{PLAIN, at, expected, fixture, idp, sp};
use super::signer::{self, DIGEST_SHA1, ENVELOPED, EXCLUSIVE, Signed, Template, algorithm};
use super::{outcome, rule};

/// Sets one field of the template, signs, and tells which rule it breaks.
fn broken(change: impl FnOnce(&mut Template)) -> Rule {
    let mut template = Template::default();
    change(&mut template);
    rule(&template.xml())
}

#[test]
fn nothing_unsigned_is_accepted() {
    assert_eq!(broken(|it| it.signed = Signed::Nothing), Rule::SignatureMissing);
}

#[test]
fn another_key_is_refused() {
    for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
        let template = Template {
            signed,
            key: fixture!("other.key"),
            ..Template::default()
        };
        assert_eq!(rule(&template.xml()), Rule::SignatureInvalid);
    }
}

#[test]
fn a_certificate_in_the_response_is_not_trusted() {
    let template = Template {
        key: fixture!("other.key"),
        ..Template::default()
    };
    let certificate: String = fixture!("other.crt")
        .lines()
        .filter(|line| !line.starts_with("---"))
        .collect();
    let key_info = format!(
        "<ds:KeyInfo><ds:X509Data><ds:X509Certificate>{certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>"
    );
    let xml = template
        .xml()
        .replace("</ds:Signature>", &format!("{key_info}</ds:Signature>"));
    assert_eq!(rule(&xml), Rule::SignatureInvalid);
    // And one that says nothing true does not hurt a genuine signature.
    let xml = Template::default()
        .xml()
        .replace("</ds:Signature>", &format!("{key_info}</ds:Signature>"));
    assert!(outcome(&xml).is_ok());
}

#[test]
fn every_change_of_the_signed_part_is_noticed() {
    for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
        let xml = Template {
            signed,
            ..Template::default()
        }
        .xml();
        let changes = [
            (">anna@corp.test<", ">owner@corp.test<"),
            (">anna@corp.test</saml:NameID>", ">anna@corp.test </saml:NameID>"),
            ("ID=\"_assertion1\"", "ID=\"_assertion2\""),
            ("12:05:00Z", "12:55:00Z"),
            ("https://hedgerow.test/saml<", "https://other.test/saml<"),
            ("<saml:Subject>", "<saml:Subject x=\"y\">"),
            (
                "<saml:Subject>",
                "<saml:Subject><saml:NameID>owner@corp.test</saml:NameID>",
            ),
        ];
        for (from, to) in changes {
            assert!(xml.contains(from), "{from}");
            let rule = rule(&xml.replace(from, to));
            assert!(
                matches!(rule, Rule::SignatureInvalid | Rule::ReferenceMismatch),
                "{from}: {rule}"
            );
        }
    }
}

#[test]
fn a_changed_signature_or_digest_is_refused() {
    let xml = Template::default().xml();
    for name in ["DigestValue", "SignatureValue"] {
        let open = format!("<ds:{name}>");
        let start = xml.find(&open).expect("an element") + open.len();
        let first = &xml[start..=start];
        let other = if first == "A" { "B" } else { "A" };
        let changed = format!("{}{other}{}", &xml[..start], &xml[start + 1..]);
        assert_eq!(rule(&changed), Rule::SignatureInvalid, "{name}");
        let end = xml.find(&format!("</ds:{name}>")).expect("an end");
        let emptied = format!("{}{}", &xml[..start], &xml[end..]);
        let expected = if name == "DigestValue" {
            Rule::SignatureInvalid
        } else {
            Rule::SignatureMalformed
        };
        assert_eq!(rule(&emptied), expected, "{name}");
    }
}

#[test]
fn weak_and_unknown_signature_algorithms_are_refused() {
    for uri in [
        "http://www.w3.org/2000/09/xmldsig#rsa-sha1",
        "http://www.w3.org/2000/09/xmldsig#dsa-sha1",
        "http://www.w3.org/2001/04/xmldsig-more#rsa-md5",
        "http://www.w3.org/2000/09/xmldsig#hmac-sha1",
        "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha1",
        "http://www.w3.org/2007/05/xmldsig-more#sha256-rsa-MGF1",
        "urn:none",
        "",
    ] {
        assert_eq!(
            broken(|it| it.signature_method = uri.to_owned()),
            Rule::AlgorithmRefused,
            "{uri}"
        );
    }
}

#[test]
fn an_hmac_with_the_certificate_as_its_key_is_refused() {
    let template = Template {
        signature_method: "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256".to_owned(),
        ..Template::default()
    };
    let content = template.assertion("");
    let info = template.signed_info("#_assertion1", &content);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, fixture!("rsa.crt").as_bytes());
    let value = STANDARD.encode(ring::hmac::sign(&key, info.as_bytes()));
    let signature = template.signature("#_assertion1", &content);
    let start = signature.find("<ds:SignatureValue>").expect("a value");
    let forged = format!(
        "{}<ds:SignatureValue>{value}</ds:SignatureValue></ds:Signature>",
        &signature[..start]
    );
    assert_eq!(
        rule(&template.response("", &template.assertion(&forged))),
        Rule::AlgorithmRefused
    );
}

#[test]
fn a_method_that_does_not_fit_the_key_is_refused() {
    for method in ["rsa-sha384", "rsa-sha512", "ecdsa-sha256", "ecdsa-sha384"] {
        let uri = format!("http://www.w3.org/2001/04/xmldsig-more#{method}");
        assert_eq!(
            broken(|it| it.signature_method = uri),
            Rule::SignatureInvalid,
            "{method}"
        );
    }
}

#[test]
fn weak_and_unknown_digests_are_refused() {
    for uri in [
        DIGEST_SHA1,
        "http://www.w3.org/2001/04/xmldsig-more#md5",
        "urn:none",
        "",
    ] {
        assert_eq!(
            broken(|it| it.digest_method = uri.to_owned()),
            Rule::AlgorithmRefused,
            "{uri}"
        );
    }
}

#[test]
fn no_transform_but_the_two_is_accepted() {
    let (enveloped, exclusive) = (algorithm("Transform", ENVELOPED), algorithm("Transform", EXCLUSIVE));
    let xpath = "<ds:Transform Algorithm=\"http://www.w3.org/TR/1999/REC-xpath-19991116\"><ds:XPath>not(//x)</ds:XPath>\
                 </ds:Transform>";
    let xslt = algorithm("Transform", "http://www.w3.org/TR/1999/REC-xslt-19991116");
    let inclusive = algorithm("Transform", "http://www.w3.org/TR/2001/REC-xml-c14n-20010315");
    let cases = [
        String::new(),
        enveloped.clone(),
        exclusive.clone(),
        format!("{exclusive}{enveloped}"),
        format!("{exclusive}{exclusive}"),
        format!("{}{exclusive}", enveloped.replace("></", "><ds:XPath></ds:XPath></")),
        format!("{enveloped}{exclusive}{exclusive}"),
        format!("{enveloped}{xpath}"),
        format!("{enveloped}{xpath}{exclusive}"),
        format!("{enveloped}{xslt}"),
        format!("{enveloped}{inclusive}"),
        format!(
            "{enveloped}{}",
            algorithm("Transform", "http://www.w3.org/2001/10/xml-exc-c14n#WithComments")
        ),
    ];
    for transforms in cases {
        assert_eq!(
            broken(|it| it.transforms.clone_from(&transforms)),
            Rule::AlgorithmRefused,
            "{transforms}"
        );
    }
}

#[test]
fn no_other_canonicalization_is_accepted() {
    for uri in [
        "http://www.w3.org/TR/2001/REC-xml-c14n-20010315",
        "http://www.w3.org/2006/12/xml-c14n11",
        "",
    ] {
        let method = algorithm("CanonicalizationMethod", uri);
        assert_eq!(
            broken(|it| it.canonicalization = method),
            Rule::AlgorithmRefused,
            "{uri}"
        );
    }
}

#[test]
fn two_signed_infos_or_references_are_refused() {
    let template = Template::default();
    let xml = template.xml();
    let other = template.signed_info("#_assertion1", "other");
    let twice = xml.replace("<ds:SignatureValue>", &format!("{other}<ds:SignatureValue>"));
    assert_eq!(rule(&twice), Rule::SeveralSignatures);
    let before = xml.replace("<ds:SignedInfo>", &format!("{other}<ds:SignedInfo>"));
    assert_eq!(rule(&before), Rule::SeveralSignatures);
    let reference = "<ds:Reference URI=\"#_assertion1\"></ds:Reference></ds:SignedInfo>";
    assert_eq!(
        rule(&xml.replace("</ds:SignedInfo>", reference)),
        Rule::SignatureMalformed
    );
}

#[test]
fn a_digest_with_a_comment_or_an_element_in_it_is_refused() {
    let xml = Template::default().xml();
    let comment = xml.replace("<ds:DigestValue>", "<ds:DigestValue><!--AAAA-->");
    assert_eq!(rule(&comment), Rule::Comment);
    let element = xml.replace("<ds:DigestValue>", "<ds:DigestValue><x>AAAA</x>");
    assert_eq!(rule(&element), Rule::SignatureInvalid);
}

#[test]
fn a_certificate_counts_only_while_it_is_valid() {
    let sp = sp();
    for certificate in [fixture!("rsa-expired.crt"), fixture!("rsa-future.crt")] {
        let idp = idp(PLAIN, certificate);
        let refusal = verify(&Template::default().encoded(), &expected(&sp, &idp)).expect_err("refused");
        assert_eq!(refusal.rule, Rule::CertificateExpired);
    }
    // A valid certificate of another key does not lend its validity.
    let idp = idp(PLAIN, &[fixture!("rsa-expired.crt"), fixture!("other.crt")].concat());
    let refusal = verify(&Template::default().encoded(), &expected(&sp, &idp)).expect_err("refused");
    assert_eq!(refusal.rule, Rule::CertificateExpired);
}

#[test]
fn genuine_responses_are_refused_when_the_certificate_has_run_out() {
    let (sp, idp) = (sp(), idp(PLAIN, fixture!("rsa.crt")));
    let mut expected = expected(&sp, &idp);
    expected.now = at("2036-01-01T00:00:01Z");
    let refusal = verify(&Template::default().encoded(), &expected).expect_err("refused");
    assert_eq!(refusal.rule, Rule::CertificateExpired);
}

#[test]
fn a_signature_by_an_elliptic_curve_is_bound_to_its_content_too() {
    let xml = fixture!("ecdsa-p256.xml").replace("anna@corp.test", "owner@corp.test");
    let (sp, idp) = (sp(), idp(PLAIN, fixture!("p256.crt")));
    let refusal = verify(&signer::encode(&xml), &expected(&sp, &idp)).expect_err("refused");
    assert_eq!(refusal.rule, Rule::SignatureInvalid);
}

/// The all-zero signature that some verifiers took for valid (CVE-2022-21449).
#[test]
fn an_elliptic_signature_of_zeros_is_refused() {
    let xml = fixture!("ecdsa-p256.xml");
    let start = xml.find("<ds:SignatureValue>").expect("a value") + "<ds:SignatureValue>".len();
    let end = xml.find("</ds:SignatureValue>").expect("an end");
    let forged = format!("{}{}{}", &xml[..start], STANDARD.encode([0; 64]), &xml[end..]);
    let (sp, idp) = (sp(), idp(PLAIN, fixture!("p256.crt")));
    let refusal = verify(&signer::encode(&forged), &expected(&sp, &idp)).expect_err("refused");
    assert_eq!(refusal.rule, Rule::SignatureInvalid);
}

/// CVE-2025-66568: a canonical form that fails must not be taken for an empty one, whose digest anybody can have signed.
#[test]
fn a_signed_digest_of_nothing_vouches_for_nothing() {
    for signed in [Signed::Assertion, Signed::Response, Signed::Both] {
        let empty = Template {
            signed,
            digested: Some(""),
            ..Template::default()
        };
        assert_eq!(rule(&empty.xml()), Rule::SignatureInvalid, "{signed:?}");
        // The signature over the digest is genuine; only the canonical form cannot be made.
        let long = format!(" xmlns:p=\"urn:{}\">", "u".repeat(100_000));
        let crowd = format!("{}</saml:Subject>", "<p:b></p:b>".repeat(20));
        let failing = empty
            .xml()
            .replacen("Version=\"2.0\">", &format!("Version=\"2.0\"{long}"), 2)
            .replacen("</saml:Subject>", &crowd, 1);
        assert_eq!(rule(&failing), Rule::TooComplex, "{signed:?}");
    }
}
