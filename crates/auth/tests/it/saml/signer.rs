//! An identity provider for tests. It writes documents that are canonical already, so that it needs no
//! canonicalization of its own and cannot share a mistake with the one that is tested.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};

use super::fixtures::{PLAIN, REQUEST, fixture};

pub(crate) const RSA_SHA256: &str = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256";
pub(crate) const DIGEST_SHA256: &str = "http://www.w3.org/2001/04/xmlenc#sha256";
pub(crate) const DIGEST_SHA1: &str = "http://www.w3.org/2000/09/xmldsig#sha1";
pub(crate) const EXCLUSIVE: &str = "http://www.w3.org/2001/10/xml-exc-c14n#";
pub(crate) const ENVELOPED: &str = "http://www.w3.org/2000/09/xmldsig#enveloped-signature";
pub(crate) const SAML: &str = "urn:oasis:names:tc:SAML:2.0:assertion";
const SAMLP: &str = "urn:oasis:names:tc:SAML:2.0:protocol";
const DS: &str = "http://www.w3.org/2000/09/xmldsig#";

/// Which elements are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signed {
    Nothing,
    Assertion,
    Response,
    Both,
}

/// A response in the making. Every field is written as it is, so that each can be wrong.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub signed: Signed,
    pub key: &'static str,
    pub response_id: String,
    pub assertion_id: String,
    pub issuer: String,
    pub response_issuer: String,
    pub status: String,
    /// ` Destination="…"`, or nothing.
    pub destination: String,
    /// ` InResponseTo="…"`, or nothing.
    pub in_response_to: String,
    pub subject: String,
    pub conditions: String,
    pub statements: String,
    pub signature_method: String,
    pub digest_method: String,
    pub canonicalization: String,
    pub transforms: String,
    /// Replaces the URI of the assertion's reference.
    pub reference: Option<String>,
    /// Replaces what the digest is made of.
    pub digested: Option<&'static str>,
}

impl Default for Template {
    fn default() -> Self {
        Self {
            signed: Signed::Assertion,
            key: fixture!("rsa.key"),
            response_id: "_response1".to_owned(),
            assertion_id: "_assertion1".to_owned(),
            issuer: PLAIN.to_owned(),
            response_issuer: format!(r#"<saml:Issuer xmlns:saml="{SAML}">{PLAIN}</saml:Issuer>"#),
            status: "urn:oasis:names:tc:SAML:2.0:status:Success".to_owned(),
            destination: r#" Destination="https://hedgerow.test/saml/acs""#.to_owned(),
            in_response_to: format!(r#" InResponseTo="{REQUEST}""#),
            subject: subject("anna@corp.test", &confirmation_data()),
            conditions: conditions(
                r#" NotBefore="2026-11-15T11:55:00Z" NotOnOrAfter="2026-11-15T12:05:00Z""#,
                &audience("https://hedgerow.test/saml"),
            ),
            statements: format!(
                r#"<saml:AuthnStatement AuthnInstant="2026-11-15T12:00:00Z"></saml:AuthnStatement>{}"#,
                attributes(&[
                    ("email", "anna@corp.test"),
                    ("firstName", "Anna"),
                    ("lastName", "Åkesson")
                ])
            ),
            signature_method: RSA_SHA256.to_owned(),
            digest_method: DIGEST_SHA256.to_owned(),
            canonicalization: algorithm("CanonicalizationMethod", EXCLUSIVE),
            transforms: algorithm("Transform", ENVELOPED) + &algorithm("Transform", EXCLUSIVE),
            reference: None,
            digested: None,
        }
    }
}

pub(crate) fn confirmation_data() -> String {
    format!(
        r#" InResponseTo="{REQUEST}" NotOnOrAfter="2026-11-15T12:05:00Z" Recipient="https://hedgerow.test/saml/acs""#
    )
}

pub(crate) fn subject(name_id: &str, data: &str) -> String {
    format!(
        "<saml:Subject><saml:NameID>{name_id}</saml:NameID>\
         <saml:SubjectConfirmation Method=\"urn:oasis:names:tc:SAML:2.0:cm:bearer\">\
         <saml:SubjectConfirmationData{data}></saml:SubjectConfirmationData></saml:SubjectConfirmation></saml:Subject>"
    )
}

pub(crate) fn conditions(times: &str, inside: &str) -> String {
    format!("<saml:Conditions{times}>{inside}</saml:Conditions>")
}

pub(crate) fn audience(entity_id: &str) -> String {
    format!("<saml:AudienceRestriction><saml:Audience>{entity_id}</saml:Audience></saml:AudienceRestriction>")
}

pub(crate) fn attributes(pairs: &[(&str, &str)]) -> String {
    let attribute = |(name, value): &(&str, &str)| {
        format!(r#"<saml:Attribute Name="{name}"><saml:AttributeValue>{value}</saml:AttributeValue></saml:Attribute>"#)
    };
    let inside: String = pairs.iter().map(attribute).collect();
    format!("<saml:AttributeStatement>{inside}</saml:AttributeStatement>")
}

pub(crate) fn algorithm(name: &str, uri: &str) -> String {
    format!(r#"<ds:{name} Algorithm="{uri}"></ds:{name}>"#)
}

impl Template {
    /// The response as XML.
    pub(crate) fn xml(&self) -> String {
        let assertion = match self.signed {
            Signed::Assertion | Signed::Both => self.assertion(&self.signature_of_assertion()),
            Signed::Nothing | Signed::Response => self.assertion(""),
        };
        let signature = match self.signed {
            Signed::Response | Signed::Both => {
                let uri = format!("#{}", self.response_id);
                self.signature(&uri, &self.response("", &assertion))
            }
            Signed::Nothing | Signed::Assertion => String::new(),
        };
        self.response(&signature, &assertion)
    }

    /// The form field that the browser would post.
    pub(crate) fn encoded(&self) -> String {
        encode(&self.xml())
    }

    pub(crate) fn response(&self, signature: &str, assertion: &str) -> String {
        let Self {
            destination,
            response_id,
            in_response_to,
            response_issuer,
            status,
            ..
        } = self;
        format!(
            "<samlp:Response xmlns:samlp=\"{SAMLP}\"{destination} ID=\"{response_id}\"{in_response_to} \
             Version=\"2.0\">{response_issuer}{signature}<samlp:Status><samlp:StatusCode Value=\"{status}\">\
             </samlp:StatusCode></samlp:Status>{assertion}</samlp:Response>"
        )
    }

    pub(crate) fn assertion(&self, signature: &str) -> String {
        let Self {
            assertion_id,
            issuer,
            subject,
            conditions,
            statements,
            ..
        } = self;
        format!(
            "<saml:Assertion xmlns:saml=\"{SAML}\" ID=\"{assertion_id}\" Version=\"2.0\">\
             <saml:Issuer>{issuer}</saml:Issuer>{signature}{subject}{conditions}{statements}</saml:Assertion>"
        )
    }

    pub(crate) fn signature_of_assertion(&self) -> String {
        let uri = self
            .reference
            .clone()
            .unwrap_or_else(|| format!("#{}", self.assertion_id));
        self.signature(&uri, &self.assertion(""))
    }

    /// A signature over content that is canonical.
    pub(crate) fn signature(&self, uri: &str, content: &str) -> String {
        let info = self.signed_info(uri, content);
        let value = sign(self.key, &info);
        // Where it stands, the prefix is declared on the parent already.
        let info = info.replacen(&format!(r#" xmlns:ds="{DS}""#), "", 1);
        format!(r#"<ds:Signature xmlns:ds="{DS}">{info}<ds:SignatureValue>{value}</ds:SignatureValue></ds:Signature>"#)
    }

    pub(crate) fn signed_info(&self, uri: &str, content: &str) -> String {
        let Self {
            canonicalization,
            transforms,
            ..
        } = self;
        let algorithms = if self.digest_method == DIGEST_SHA1 {
            &SHA1_FOR_LEGACY_USE_ONLY
        } else {
            &SHA256
        };
        let value = STANDARD.encode(digest(algorithms, self.digested.unwrap_or(content).as_bytes()));
        format!(
            "<ds:SignedInfo xmlns:ds=\"{DS}\">{canonicalization}{method}<ds:Reference URI=\"{uri}\">\
             <ds:Transforms>{transforms}</ds:Transforms>{digest}<ds:DigestValue>{value}</ds:DigestValue>\
             </ds:Reference></ds:SignedInfo>",
            method = algorithm("SignatureMethod", &self.signature_method),
            digest = algorithm("DigestMethod", &self.digest_method),
        )
    }
}

pub(crate) fn encode(xml: &str) -> String {
    STANDARD.encode(xml)
}

pub(crate) fn sign(key: &str, message: &str) -> String {
    let body: String = key.lines().filter(|line| !line.starts_with("-----")).collect();
    let key = RsaKeyPair::from_pkcs8(&STANDARD.decode(body).expect("base64")).expect("a key");
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        message.as_bytes(),
        &mut signature,
    )
    .expect("signs");
    STANDARD.encode(signature)
}
