//! One enveloped XML signature: what it must look like, and the bytes that it vouches for.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use ring::digest;
use roxmltree::Node;

use super::algorithm::SignatureMethod;
use super::canonical::Canonical;
use super::certificate::Certificates;
use super::namespace::{DS, EXC_C14N};
use super::refusal::{Refusal, Rule, shown};
use super::xml;

const ENVELOPED: &str = "http://www.w3.org/2000/09/xmldsig#enveloped-signature";

fn digest_from_uri(uri: &str) -> Option<&'static digest::Algorithm> {
    Some(match uri {
        "http://www.w3.org/2001/04/xmlenc#sha256" => &digest::SHA256,
        "http://www.w3.org/2001/04/xmldsig-more#sha384" => &digest::SHA384,
        "http://www.w3.org/2001/04/xmlenc#sha512" => &digest::SHA512,
        _ => return None,
    })
}

/// Verifies the signature that is a child of `signed`, and returns exactly the bytes that it covers.
///
/// The caller must read from these bytes and from nothing else. `KeyInfo` is not looked at: a signature cannot say
/// which key is to be trusted.
pub(super) fn verified_bytes(
    signed: Node<'_, '_>,
    certificates: &Certificates,
    now: DateTime<Utc>,
) -> Result<String, Refusal> {
    let signature = xml::only(signed, DS, "Signature")?;
    let signed_info = verified_signed_info(signature, certificates, now)?;
    let document = xml::parse(&signed_info)?;
    let reference = Reference::read(document.root_element())?;
    reference.must_point_to(signed)?;
    let canonical = Canonical {
        inclusive: reference.inclusive,
        without: Some(signature),
    };
    let bytes = canonical.bytes(signed)?;
    if digest::digest(reference.digest, bytes.as_bytes()).as_ref() != reference.value {
        let detail = "the signed part was changed after it was signed";
        return Err(Refusal::new(Rule::SignatureInvalid, detail));
    }
    Ok(bytes)
}

/// The canonical bytes of the `SignedInfo`, after a trusted key has verified them.
fn verified_signed_info(
    signature: Node<'_, '_>,
    certificates: &Certificates,
    now: DateTime<Utc>,
) -> Result<String, Refusal> {
    let (signed_info, value) = match xml::elements(signature)?[..] {
        [info, value] => (info, value),
        [info, value, key_info] if xml::is(key_info, DS, "KeyInfo") => (info, value),
        _ => {
            return Err(malformed(
                "a Signature must hold SignedInfo, SignatureValue and at most one KeyInfo",
            ));
        }
    };
    expect(signed_info, "SignedInfo")?;
    expect(value, "SignatureValue")?;
    let [canonicalization, method, _] = xml::elements(signed_info)?[..] else {
        return Err(malformed(
            "SignedInfo must hold one method of each kind and one Reference",
        ));
    };
    expect(canonicalization, "CanonicalizationMethod")?;
    expect(method, "SignatureMethod")?;
    let inclusive = exclusive_canonicalization(canonicalization)?;
    let method = leaf_algorithm(method, SignatureMethod::from_uri)?;
    let bytes = Canonical {
        inclusive,
        without: None,
    }
    .bytes(signed_info)?;
    certificates.verify(method, bytes.as_bytes(), &base64_content(value)?, now)?;
    Ok(bytes)
}

/// What was signed, and what its digest is. Read from verified bytes only.
struct Reference {
    uri: String,
    inclusive: BTreeSet<String>,
    digest: &'static digest::Algorithm,
    value: Vec<u8>,
}

impl Reference {
    fn read(signed_info: Node<'_, '_>) -> Result<Self, Refusal> {
        let reference = xml::only(signed_info, DS, "Reference")?;
        let [transforms, method, value] = xml::elements(reference)?[..] else {
            return Err(malformed(
                "a Reference must hold Transforms, DigestMethod and DigestValue",
            ));
        };
        expect(transforms, "Transforms")?;
        expect(method, "DigestMethod")?;
        expect(value, "DigestValue")?;
        Ok(Self {
            uri: xml::attribute(reference, "URI").unwrap_or_default().to_owned(),
            inclusive: transforms_of(transforms)?,
            digest: leaf_algorithm(method, digest_from_uri)?,
            value: base64_content(value)?,
        })
    }

    /// The signature must cover the element that it stands in: not another one, not the whole document, not a part.
    fn must_point_to(&self, signed: Node<'_, '_>) -> Result<(), Refusal> {
        let id = xml::attribute(signed, "ID").unwrap_or_default();
        if !id.is_empty() && self.uri.strip_prefix('#') == Some(id) {
            return Ok(());
        }
        let (uri, id) = (shown(&self.uri), shown(id));
        let detail = format!("the signature covers {uri}, but it is in the element with the ID {id}");
        Err(Refusal::new(Rule::ReferenceMismatch, detail))
    }
}

/// Exactly the two transforms that the SAML profile allows, in the order in which they make sense.
fn transforms_of(transforms: Node<'_, '_>) -> Result<BTreeSet<String>, Refusal> {
    let [enveloped, canonicalization] = xml::elements(transforms)?[..] else {
        return Err(algorithm_refused(
            "a signature must have the enveloped and the exclusive transform, nothing else",
        ));
    };
    expect(enveloped, "Transform")?;
    expect(canonicalization, "Transform")?;
    leaf_algorithm(enveloped, |uri| (uri == ENVELOPED).then_some(()))?;
    exclusive_canonicalization(canonicalization)
}

/// The prefixes of `InclusiveNamespaces`, if there is one.
fn exclusive_canonicalization(node: Node<'_, '_>) -> Result<BTreeSet<String>, Refusal> {
    let uri = xml::attribute(node, "Algorithm").unwrap_or_default();
    if uri != EXC_C14N {
        return Err(refused_uri(uri));
    }
    let list = match xml::elements(node)?[..] {
        [] => "",
        [child] if xml::is(child, EXC_C14N, "InclusiveNamespaces") && xml::elements(child)?.is_empty() => {
            xml::attribute(child, "PrefixList").unwrap_or_default()
        }
        _ => {
            return Err(malformed(
                "a canonicalization may hold one InclusiveNamespaces, nothing else",
            ));
        }
    };
    let prefix = |word: &str| {
        if word == "#default" {
            String::new()
        } else {
            word.to_owned()
        }
    };
    Ok(list.split_ascii_whitespace().map(prefix).collect())
}

/// The algorithm of an element that has no parameters.
fn leaf_algorithm<T>(node: Node<'_, '_>, from_uri: impl Fn(&str) -> Option<T>) -> Result<T, Refusal> {
    if !xml::elements(node)?.is_empty() {
        return Err(algorithm_refused(
            "an algorithm of the signature has parameters; none is accepted",
        ));
    }
    let uri = xml::attribute(node, "Algorithm").unwrap_or_default();
    from_uri(uri).ok_or_else(|| refused_uri(uri))
}

fn base64_content(node: Node<'_, '_>) -> Result<Vec<u8>, Refusal> {
    let text: String = xml::content(node)?.split_ascii_whitespace().collect();
    let bytes = STANDARD
        .decode(text)
        .map_err(|_| malformed("a value of the signature is not base64"))?;
    if bytes.is_empty() {
        return Err(malformed("a value of the signature is empty"));
    }
    Ok(bytes)
}

fn expect(node: Node<'_, '_>, name: &str) -> Result<(), Refusal> {
    if xml::is(node, DS, name) {
        return Ok(());
    }
    let found = shown(node.tag_name().name());
    Err(malformed(&format!("the signature has {found} where {name} belongs")))
}

fn malformed(detail: &str) -> Refusal {
    Refusal::new(Rule::SignatureMalformed, detail)
}

fn refused_uri(uri: &str) -> Refusal {
    algorithm_refused(&format!(
        "the algorithm {} is refused; use RSA or ECDSA with SHA-256, exclusive canonicalization and SHA-256 digests",
        shown(uri)
    ))
}

fn algorithm_refused(detail: &str) -> Refusal {
    Refusal::new(Rule::AlgorithmRefused, detail)
}
