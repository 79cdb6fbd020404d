//! What we send: the request to sign somebody in, and the description of our side.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, SecondsFormat, Utc};
use url::Url;

use super::canonical::escape_attribute;
use super::{IdentityProvider, ServiceProvider, namespace};

const POST: &str = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST";
/// The provider knows best what its users are called: asking for a format that it does not have ends in an error at
/// Entra ID, AD FS and Keycloak, while all of them fall back to what is configured.
const ANY_NAME_ID: &str = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified";
/// SAML bindings, section 3.4.3.
const MAX_RELAY_STATE: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the SSO URL of the identity provider is not an http or https URL")]
    SsoUrl,
    #[error("the relay state is longer than {MAX_RELAY_STATE} bytes")]
    RelayState,
    #[error("the request could not be compressed")]
    Compression,
}

/// An id for a request: 128 random bits, spelled so that XML takes it as an id.
pub fn new_request_id(random: [u8; 16]) -> String {
    format!("_{:032x}", u128::from_be_bytes(random))
}

/// Where to send the browser: the HTTP-Redirect binding, unsigned (a request says nothing that could be misused).
pub fn sign_in_url(
    sp: &ServiceProvider,
    idp: &IdentityProvider,
    request_id: &str,
    relay_state: &str,
    now: DateTime<Utc>,
) -> Result<Url, RequestError> {
    if relay_state.len() > MAX_RELAY_STATE {
        return Err(RequestError::RelayState);
    }
    let mut url = Url::parse(&idp.sso_url).map_err(|_| RequestError::SsoUrl)?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(RequestError::SsoUrl);
    }
    let request = deflated(&authn_request(sp, idp, request_id, now)).map_err(|_| RequestError::Compression)?;
    let mut query = url.query_pairs_mut();
    query.append_pair("SAMLRequest", &STANDARD.encode(request));
    if !relay_state.is_empty() {
        query.append_pair("RelayState", relay_state);
    }
    drop(query);
    Ok(url)
}

fn authn_request(sp: &ServiceProvider, idp: &IdentityProvider, request_id: &str, now: DateTime<Utc>) -> String {
    format!(
        "<samlp:AuthnRequest xmlns:samlp=\"{samlp}\" xmlns:saml=\"{saml}\" ID=\"{id}\" Version=\"2.0\" \
         IssueInstant=\"{instant}\" Destination=\"{destination}\" AssertionConsumerServiceURL=\"{acs}\" \
         ProtocolBinding=\"{POST}\"><saml:Issuer>{issuer}</saml:Issuer>\
         <samlp:NameIDPolicy Format=\"{ANY_NAME_ID}\" AllowCreate=\"true\"/></samlp:AuthnRequest>",
        samlp = namespace::SAMLP,
        saml = namespace::SAML,
        id = escaped(request_id),
        instant = now.to_rfc3339_opts(SecondsFormat::Secs, true),
        destination = escaped(&idp.sso_url),
        acs = escaped(&sp.acs_url),
        issuer = escaped(&sp.entity_id),
    )
}

/// Our metadata, for the administrator of the identity provider.
pub fn metadata(sp: &ServiceProvider) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <md:EntityDescriptor xmlns:md=\"{md}\" entityID=\"{entity_id}\">\n  \
         <md:SPSSODescriptor AuthnRequestsSigned=\"false\" WantAssertionsSigned=\"true\" \
         protocolSupportEnumeration=\"{samlp}\">\n    \
         <md:NameIDFormat>urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress</md:NameIDFormat>\n    \
         <md:NameIDFormat>{ANY_NAME_ID}</md:NameIDFormat>\n    \
         <md:AssertionConsumerService Binding=\"{POST}\" Location=\"{acs}\" index=\"0\" isDefault=\"true\"/>\n  \
         </md:SPSSODescriptor>\n\
         </md:EntityDescriptor>\n",
        md = namespace::MD,
        entity_id = escaped(&sp.entity_id),
        samlp = namespace::SAMLP,
        acs = escaped(&sp.acs_url),
    )
}

fn deflated(text: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

/// Safe in an attribute and, because `&` and `<` are escaped, in text as well.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape_attribute(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::super::Certificates;
    use super::*;

    fn sides(sso_url: &str) -> (ServiceProvider, IdentityProvider) {
        let sp = ServiceProvider {
            entity_id: "https://hedgerow.test/?a=1&b=<2>".to_owned(),
            acs_url: "https://hedgerow.test/saml/acs".to_owned(),
        };
        let certificates = Certificates::parse(include_str!("../../tests/fixtures/saml/rsa.crt")).expect("parses");
        let idp = IdentityProvider {
            entity_id: "https://idp.test".to_owned(),
            sso_url: sso_url.to_owned(),
            certificates,
        };
        (sp, idp)
    }

    fn now() -> DateTime<Utc> {
        "2026-11-15T12:00:00Z".parse().expect("a time")
    }

    #[test]
    fn a_request_survives_the_way_to_the_provider() {
        let (sp, idp) = sides("https://idp.test/sso?idpid=C1");
        let url = sign_in_url(&sp, &idp, "_1", "a b&c", now()).expect("a url");
        let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        assert_eq!(query[0], ("idpid".to_owned(), "C1".to_owned()));
        assert_eq!(query[2], ("RelayState".to_owned(), "a b&c".to_owned()));
        let deflated = STANDARD.decode(&query[1].1).expect("base64");
        let mut xml = String::new();
        flate2::read::DeflateDecoder::new(&deflated[..])
            .read_to_string(&mut xml)
            .expect("deflate");
        let document = roxmltree::Document::parse(&xml).expect("xml");
        let root = document.root_element();
        assert_eq!(root.attribute("ID"), Some("_1"));
        assert_eq!(root.attribute("IssueInstant"), Some("2026-11-15T12:00:00Z"));
        assert_eq!(root.attribute("Destination"), Some("https://idp.test/sso?idpid=C1"));
        assert_eq!(root.attribute("ProtocolBinding"), Some(POST));
        assert_eq!(
            root.first_element_child().and_then(|it| it.text()),
            Some(sp.entity_id.as_str())
        );
    }

    #[test]
    fn a_request_is_never_sent_to_a_script_or_a_file() {
        for sso_url in ["javascript:alert(1)", "file:///etc/passwd", "idp.test/sso", ""] {
            let (sp, idp) = sides(sso_url);
            assert_eq!(
                sign_in_url(&sp, &idp, "_1", "", now()),
                Err(RequestError::SsoUrl),
                "{sso_url}"
            );
        }
        let (sp, idp) = sides("https://idp.test");
        assert_eq!(
            sign_in_url(&sp, &idp, "_1", &"x".repeat(81), now()),
            Err(RequestError::RelayState)
        );
    }

    #[test]
    fn our_metadata_is_xml_and_asks_for_signed_assertions() {
        let (sp, _) = sides("https://idp.test");
        let xml = metadata(&sp);
        let document = roxmltree::Document::parse(&xml).expect("xml");
        assert_eq!(
            document.root_element().attribute("entityID"),
            Some(sp.entity_id.as_str())
        );
        let descriptor = document.root_element().first_element_child().expect("a descriptor");
        assert_eq!(descriptor.attribute("WantAssertionsSigned"), Some("true"));
    }

    #[test]
    fn request_ids_are_xml_ids() {
        assert_eq!(new_request_id([0xab; 16]), format!("_{}", "ab".repeat(16)));
        assert_eq!(new_request_id([0; 16]).len(), 33);
    }
}
