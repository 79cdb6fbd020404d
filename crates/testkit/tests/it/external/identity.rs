//! The identity providers, visited without a browser.

use serde_json::Value;
use testkit::external::{
    OidcOptions, OidcProvider, Person, SamlIdp, SamlOptions, Signed, SimpleSamlIdp, SimpleSamlOptions, Visitor,
};

use super::python;

const ACS: &str = "http://127.0.0.1:9/complete/saml/";
const AUDIENCE: &str = "http://127.0.0.1:9/saml/metadata";
const CALLBACK: &str = "http://127.0.0.1:9/complete/oidc/";

/// A request as the redirect binding wants it: deflated, in base 64, in the query.
fn with_request(sso_url: &str) -> String {
    let code = r#"
import base64, sys, zlib
from urllib.parse import urlencode
url, acs, issuer = sys.argv[1:]
xml = f'''<samlp:AuthnRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_asked" Version="2.0"
 IssueInstant="2026-01-01T00:00:00Z" AssertionConsumerServiceURL="{acs}"><saml:Issuer
 xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">{issuer}</saml:Issuer></samlp:AuthnRequest>'''
deflate = zlib.compressobj(wbits=-15)
request = base64.b64encode(deflate.compress(xml.encode()) + deflate.flush()).decode()
print(url + "?" + urlencode({"SAMLRequest": request, "RelayState": "a&b=\"c d\""}), end="")
"#;
    String::from_utf8(python(code, &[sso_url, ACS, AUDIENCE]).stdout).unwrap()
}

fn decoded(base64: &str) -> String {
    let code = "import base64, sys; print(base64.b64decode(sys.argv[1]).decode(), end='')";
    String::from_utf8(python(code, &[base64]).stdout).unwrap()
}

/// A certificate without its first and last line, as it stands in XML.
fn bare(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with("-----")).collect()
}

fn zoe() -> Person {
    Person::new("zoe@example.test", "Zoë", "O'Neill & Sons")
}

#[test]
fn a_saml_request_is_answered_for_whoever_fills_in_the_form() {
    let idp = SamlIdp::start(SamlOptions::default());
    let answer = idp.answer(&with_request(&idp.sso_url()), &zoe());
    assert_eq!(answer.acs, ACS);
    assert_eq!(answer.relay_state.as_deref(), Some("a&b=\"c d\""));
    let xml = decoded(&answer.response);
    for part in [
        "InResponseTo=\"_asked\"".to_owned(),
        format!("Destination=\"{ACS}\""),
        format!("Recipient=\"{ACS}\""),
        format!("<saml:Audience>{AUDIENCE}</saml:Audience>"),
        format!("{}</saml:Issuer>", idp.entity_id()),
        "<saml:Attribute Name=\"email\"".to_owned(),
        "<saml:Attribute Name=\"givenname\"".to_owned(),
        "<saml:Attribute Name=\"surname\"".to_owned(),
        ">Zoë</saml:AttributeValue>".to_owned(),
        ">O'Neill &amp; Sons</saml:AttributeValue>".to_owned(),
        ">zoe@example.test</saml:NameID>".to_owned(),
        "xmldsig-more#rsa-sha256".to_owned(),
        bare(&idp.certificate_pem()),
    ] {
        assert!(xml.contains(&part), "{part} is not in {xml}");
    }
}

#[test]
fn a_saml_provider_can_begin_by_itself_and_change_its_key() {
    let idp = SamlIdp::start(SamlOptions {
        issuer: Some("urn:example:idp".to_owned()),
        audience: Some(AUDIENCE.to_owned()),
        acs: Some(ACS.to_owned()),
        signed: Signed::Both,
        ..SamlOptions::default()
    });
    let before = decoded(&idp.answer(&idp.sso_url(), &zoe()).response);
    assert!(!before.contains("InResponseTo"), "{before}");
    assert!(before.contains("urn:example:idp</saml:Issuer>"), "{before}");
    assert_eq!(before.matches(&bare(&idp.certificate_pem())).count(), 2);

    idp.roll_over();
    let after = decoded(&idp.answer(&idp.sso_url(), &zoe()).response);
    assert_eq!(after.matches(&bare(&idp.second_certificate_pem())).count(), 2);
    assert!(!after.contains(&bare(&idp.certificate_pem())), "{after}");
}

#[test]
fn a_saml_provider_shows_its_metadata_and_needs_no_form_for_a_fixed_user() {
    let idp = SamlIdp::start(SamlOptions {
        user: Some(zoe()),
        ..SamlOptions::default()
    });
    let mut visitor = Visitor::default();
    let metadata = visitor.get(&idp.metadata_url()).body;
    assert!(
        metadata.contains(&format!("entityID=\"{}\"", idp.entity_id())),
        "{metadata}"
    );
    assert!(
        metadata.contains(&format!("Location=\"{}\"", idp.sso_url())),
        "{metadata}"
    );
    assert!(metadata.contains(&bare(&idp.certificate_pem())), "{metadata}");
    let page = visitor.get(&with_request(&idp.sso_url()));
    assert_eq!(page.action().as_deref(), Some(ACS));
    assert!(page.fields().contains_key("SAMLResponse"));
}

#[test]
fn a_second_saml_provider_answers_the_same_request() {
    let mut options = SimpleSamlOptions {
        audience: AUDIENCE.to_owned(),
        acs: ACS.to_owned(),
        user: zoe(),
        signed: Signed::Both,
        encrypted_for: None,
    };
    let idp = SimpleSamlIdp::start(&options);
    let answer = idp.answer(&with_request(&idp.sso_url()));
    assert_eq!(answer.acs, ACS);
    assert_eq!(answer.relay_state.as_deref(), Some("a&b=\"c d\""));
    let xml = decoded(&answer.response);
    for part in [
        "InResponseTo=\"_asked\"",
        "<saml:Attribute Name=\"email\"",
        ">Zoë</saml:AttributeValue>",
        ">zoe@example.test</saml:NameID>",
        "xmldsig-more#rsa-sha256",
        &idp.entity_id(),
    ] {
        assert!(xml.contains(part), "{part} is not in {xml}");
    }
    assert_eq!(xml.matches(&bare(&idp.certificate_pem())).count(), 2);
    let begun = decoded(&idp.answer(&idp.start_url()).response);
    assert!(!begun.contains("InResponseTo"), "{begun}");

    options.encrypted_for = Some(idp.certificate_pem());
    let idp = SimpleSamlIdp::start(&options);
    let xml = decoded(&idp.answer(&with_request(&idp.sso_url())).response);
    assert!(
        xml.contains("<saml:EncryptedAssertion") && !xml.contains("zoe@"),
        "{xml}"
    );
}

/// The verifier and the challenge are the example of RFC 7636.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

fn authorization(provider: &OidcProvider, is_proven: bool) -> String {
    let scope = "openid%20email%20profile";
    let proof = "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256";
    format!(
        "{}/auth?client_id={}&response_type=code&scope={scope}&state=here&nonce=once&redirect_uri={CALLBACK}{}",
        provider.issuer(),
        provider.client_id(),
        if is_proven { proof } else { "" },
    )
}

fn discovered(provider: &OidcProvider) -> Value {
    let page = Visitor::default().get(&format!("{}/.well-known/openid-configuration", provider.issuer()));
    serde_json::from_str(&page.body).unwrap()
}

/// What the token says, unchecked.
fn claims(provider: &OidcProvider, back: &str) -> Value {
    let query = back.strip_prefix(CALLBACK).unwrap().trim_start_matches('?');
    let fields: Vec<(&str, &str)> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    assert!(fields.contains(&("state", "here")), "{back}");
    let code = fields.iter().find(|field| field.0 == "code").unwrap().1;
    let token = discovered(provider)["token_endpoint"].as_str().unwrap().to_owned();
    let answer = Visitor::default().post(
        &token,
        &[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
            ("client_id", provider.client_id()),
            ("client_secret", provider.client_secret()),
        ],
    );
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let token = answer["id_token"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let payload = token.split('.').nth(1).unwrap();
    let code = "import base64, sys; print(base64.urlsafe_b64decode(sys.argv[1] + '==').decode())";
    serde_json::from_slice(&python(code, &[payload]).stdout).unwrap()
}

#[test]
fn the_oidc_provider_describes_itself() {
    let provider = OidcProvider::start(CALLBACK);
    let document = discovered(&provider);
    assert_eq!(document["issuer"], provider.issuer());
    assert!(document["response_types_supported"].to_string().contains("code"));
    assert_eq!(document["code_challenge_methods_supported"][0], "S256");
    let keys = Visitor::default().get(document["jwks_uri"].as_str().unwrap()).body;
    assert!(keys.contains("\"RSA\"") && !keys.contains("\"d\":"), "{keys}");
}

#[test]
fn the_oidc_provider_gives_a_token_for_whoever_fills_in_the_form() {
    for are_emails_verified in [true, false] {
        let provider = OidcProvider::start_with(&OidcOptions {
            redirect_uri: CALLBACK.to_owned(),
            are_emails_verified,
        });
        let back = provider.sign_in(&authorization(&provider, true), &zoe());
        let claims = claims(&provider, &back);
        assert_eq!(claims["iss"], provider.issuer());
        assert_eq!(claims["aud"], provider.client_id());
        assert_eq!(claims["nonce"], "once");
        assert_eq!(claims["sub"], "zoe@example.test");
        assert_eq!(claims["email"], "zoe@example.test");
        assert_eq!(claims["email_verified"], are_emails_verified);
        assert_eq!(claims["given_name"], "Zoë");
        assert_eq!(claims["family_name"], "O'Neill & Sons");
    }
}

#[test]
fn the_oidc_provider_refuses_what_is_not_proven_and_lets_people_cancel() {
    let provider = OidcProvider::start(CALLBACK);
    let page = Visitor::default().get(&authorization(&provider, false));
    let location = page.header("location").unwrap();
    assert!(location.contains("error=invalid_request"), "{location}");
    let back = provider.cancel(&authorization(&provider, true));
    assert!(
        back.starts_with(CALLBACK) && back.contains("error=access_denied"),
        "{back}"
    );
}
