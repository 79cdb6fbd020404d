//! The metadata of an identity provider, as an administrator uploads it.
//!
//! Its signature is not verified: it would be made with a key that only the metadata itself vouches for. What is read is
//! shown to the administrator and stored, never fetched and believed on its own.

use chrono::{DateTime, Utc};
use roxmltree::Node;

use super::assertion::parse_time;
use super::certificate::Certificates;
use super::namespace::{DS, MD, SAMLP};
use super::refusal::{Refusal, Rule, shown};
use super::xml::{self, Comments};

const MAX_METADATA: usize = 512 * 1024;
const REDIRECT: &str = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect";
const SIGNING_USES: [Option<&str>; 2] = [None, Some("signing")];

/// What is needed to set up a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityProviderMetadata {
    pub entity_id: String,
    /// Where the HTTP-Redirect binding ends, the only one that [`super::sign_in_url`] speaks.
    pub sso_url: String,
    pub certificates: Certificates,
    /// After this the provider wants its metadata to be read again.
    pub valid_until: Option<DateTime<Utc>>,
}

/// Reads metadata that describes exactly one identity provider.
pub fn read_metadata(bytes: &[u8]) -> Result<IdentityProviderMetadata, Refusal> {
    if bytes.len() > MAX_METADATA {
        return Err(Refusal::new(
            Rule::TooLarge,
            format!("the metadata is larger than {MAX_METADATA} bytes"),
        ));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = xml::text(bytes.to_vec(), Comments::Allowed)?;
    let document = xml::parse(&text)?;
    let (entity, provider) = only_provider(document.root_element())?;
    let entity_id = xml::attribute(entity, "entityID").unwrap_or_default().trim();
    if entity_id.is_empty() {
        return Err(not_metadata("the metadata has no entityID"));
    }
    Ok(IdentityProviderMetadata {
        entity_id: entity_id.to_owned(),
        sso_url: sso_url(provider)?,
        certificates: certificates(provider)?,
        valid_until: valid_until(provider)?,
    })
}

/// The one entity with the role of an identity provider, alone or in a list.
fn only_provider<'a, 'i>(root: Node<'a, 'i>) -> Result<(Node<'a, 'i>, Node<'a, 'i>), Refusal> {
    if !xml::is(root, MD, "EntityDescriptor") && !xml::is(root, MD, "EntitiesDescriptor") {
        let name = shown(root.tag_name().name());
        return Err(not_metadata(&format!("the document is {name}, not SAML 2.0 metadata")));
    }
    let providers: Vec<_> = root
        .descendants()
        .filter(|node| xml::is(*node, MD, "IDPSSODescriptor"))
        .collect();
    match providers[..] {
        [] => Err(not_metadata(
            "the metadata describes no identity provider (IDPSSODescriptor)",
        )),
        [provider] => match provider
            .parent()
            .filter(|parent| xml::is(*parent, MD, "EntityDescriptor"))
        {
            Some(entity) => Ok((entity, provider)),
            None => Err(not_metadata(
                "the identity provider is not a child of an EntityDescriptor",
            )),
        },
        _ => Err(Refusal::new(
            Rule::SeveralProviders,
            "the metadata describes several identity providers; provide one",
        )),
    }
}

fn sso_url(provider: Node<'_, '_>) -> Result<String, Refusal> {
    let speaks_saml = xml::attribute(provider, "protocolSupportEnumeration").unwrap_or_default();
    if !speaks_saml.split_ascii_whitespace().any(|protocol| protocol == SAMLP) {
        return Err(not_metadata("the identity provider does not support SAML 2.0"));
    }
    xml::children(provider, MD, "SingleSignOnService")?
        .into_iter()
        .find(|service| xml::attribute(*service, "Binding") == Some(REDIRECT))
        .and_then(|service| xml::attribute(service, "Location"))
        .map(|location| location.trim().to_owned())
        .ok_or_else(|| {
            let detail = "the identity provider offers no sign-in with the HTTP-Redirect binding";
            Refusal::new(Rule::SsoUrlMissing, detail)
        })
}

/// Keys that sign. One that we cannot use is left out, as long as another is there.
fn certificates(provider: Node<'_, '_>) -> Result<Certificates, Refusal> {
    let mut found = Vec::new();
    let mut problem = String::from("there is none for signing");
    for key in xml::children(provider, MD, "KeyDescriptor")? {
        if !SIGNING_USES.contains(&xml::attribute(key, "use")) {
            continue;
        }
        for certificate in key.descendants().filter(|node| xml::is(*node, DS, "X509Certificate")) {
            match Certificates::parse(&xml::content(certificate)?) {
                Ok(certificates) => found.push(certificates),
                Err(error) => problem = error.to_string(),
            }
        }
    }
    if found.is_empty() {
        let detail = format!("the metadata has no usable certificate: {problem}");
        return Err(Refusal::new(Rule::CertificateMissing, detail));
    }
    Certificates::merged(found).map_err(|error| Refusal::new(Rule::CertificateMissing, error.to_string()))
}

/// The earliest of the ends that the provider, its entity and the lists around it name.
fn valid_until(provider: Node<'_, '_>) -> Result<Option<DateTime<Utc>>, Refusal> {
    let mut earliest: Option<DateTime<Utc>> = None;
    for node in provider.ancestors() {
        if let Some(text) = xml::attribute(node, "validUntil") {
            let end = parse_time(node, text)?;
            earliest = Some(earliest.map_or(end, |other| other.min(end)));
        }
    }
    Ok(earliest)
}

fn not_metadata(detail: &str) -> Refusal {
    Refusal::new(Rule::NotMetadata, detail)
}
