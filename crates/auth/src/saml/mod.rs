//! SAML 2.0, the side of the service provider: bytes in, a verified identity or a refusal out.
//!
//! Exactly one profile is understood: a response by HTTP POST, with an enveloped signature on the assertion, on the
//! response, or on both, exclusive canonicalization, RSA or ECDSA with SHA-2. Everything else is refused by name.
//!
//! # Why no SAML library
//!
//! The one library that needs no C verifies signatures with one XML parser and reads the assertion with another. Two
//! parsers that can be made to disagree are how most SAML implementations were broken, and no wrapper can undo that. It
//! also brings fifty thousand lines for the few hundred that one profile needs. Here there is one parser (`roxmltree`),
//! one source of cryptography (`ring`, which TLS uses as well), and one rule that makes the rest simple:
//!
//! **What is read is what was signed.** A verified signature yields the canonical bytes that were hashed. They are parsed
//! again, and the assertion is read from that second document only. Whatever an attacker adds, moves or hides around the
//! signed element is not in those bytes.
//!
//! What the caller still has to do, because it needs a database: find the request by [`unverified`], remember assertion
//! ids until [`Assertion::remember_until`] and refuse the second use, and check that the address belongs to a domain of
//! the organization whose identity provider spoke.

mod algorithm;
mod assertion;
mod attributes;
mod canonical;
mod certificate;
mod email;
mod expected;
mod metadata;
mod refusal;
mod request;
mod response;
mod shape;
mod signature;
mod xml;

pub use algorithm::KeyKind;
pub use assertion::Assertion;
pub use certificate::{CertificateError, CertificateInfo, Certificates};
pub use expected::{Expected, MAX_RESPONSE};
pub use metadata::{IdentityProviderMetadata, read_metadata};
pub use refusal::{Refusal, Rule};
pub use request::{RequestError, metadata, new_request_id, sign_in_url};
pub use response::{Unverified, unverified, verify};

/// Our side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceProvider {
    pub entity_id: String,
    /// Where responses are posted to: the assertion consumer service.
    pub acs_url: String,
}

/// The side that vouches for people.
#[derive(Debug, Clone)]
pub struct IdentityProvider {
    pub entity_id: String,
    pub sso_url: String,
    pub certificates: Certificates,
}

/// How far two clocks may be apart.
const SKEW: chrono::TimeDelta = chrono::TimeDelta::seconds(60);

/// Namespaces, by the prefix that specifications use for them.
mod namespace {
    pub(super) const SAML: &str = "urn:oasis:names:tc:SAML:2.0:assertion";
    pub(super) const SAMLP: &str = "urn:oasis:names:tc:SAML:2.0:protocol";
    pub(super) const MD: &str = "urn:oasis:names:tc:SAML:2.0:metadata";
    pub(super) const DS: &str = "http://www.w3.org/2000/09/xmldsig#";
    pub(super) const EXC_C14N: &str = "http://www.w3.org/2001/10/xml-exc-c14n#";
    pub(super) const XINCLUDE: &str = "http://www.w3.org/2001/XInclude";
}
