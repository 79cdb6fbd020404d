//! The certificates of an identity provider: a key each, and the time in which it counts.
//!
//! There is no chain to verify. An administrator has said that these very certificates speak for the provider.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use ring::signature::UnparsedPublicKey;
use x509_cert::der::asn1::UintRef;
use x509_cert::der::{self, Decode, Reader, SliceReader};
use x509_cert::spki::ObjectIdentifier;

use super::algorithm::{KeyKind, SignatureMethod};
use super::refusal::{Refusal, Rule};

const MAX_TEXT: usize = 64 * 1024;
const MAX_CERTIFICATES: usize = 10;
const MIN_RSA_BITS: usize = 2048;
const MAX_RSA_BITS: usize = 8192;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");

/// One or more certificates. Several let a provider change its key without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates(Vec<Certificate>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Certificate {
    info: CertificateInfo,
    der: Vec<u8>,
    public_key: Vec<u8>,
}

/// What people want to know about a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    pub subject: String,
    pub issuer: String,
    pub not_before: DateTime<Utc>,
    pub not_after: DateTime<Utc>,
    /// SHA-256 of the certificate, in hexadecimal digits without separators.
    pub fingerprint: String,
    pub key: KeyKind,
}

impl CertificateInfo {
    pub fn is_valid_at(&self, now: DateTime<Utc>) -> bool {
        self.not_before <= now && now <= self.not_after
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("the text has no certificate")]
    Empty,
    #[error("the text is longer than {MAX_TEXT} characters")]
    TooLong,
    #[error("there are more than {MAX_CERTIFICATES} certificates")]
    TooMany,
    #[error("the text has a block {0:?}, but only CERTIFICATE belongs here")]
    NotACertificate(String),
    #[error("a PEM block has no matching end")]
    Unfinished,
    #[error("the text is neither PEM nor base64")]
    NotBase64,
    #[error("the bytes are not an X.509 certificate")]
    NotX509(#[source] der::Error),
    #[error("the RSA key has {0} bits; at least {MIN_RSA_BITS} and at most {MAX_RSA_BITS} are accepted")]
    RsaSize(usize),
    #[error("the key is neither RSA nor ECDSA on P-256 or P-384")]
    KeyKind,
}

impl Certificates {
    /// Reads PEM blocks, or the bare base64 of one certificate. Blanks and line breaks do not matter.
    pub fn parse(text: &str) -> Result<Self, CertificateError> {
        if text.len() > MAX_TEXT {
            return Err(CertificateError::TooLong);
        }
        let certificates: Vec<Certificate> = blocks(text)?
            .into_iter()
            .map(Certificate::parse)
            .collect::<Result<_, _>>()?;
        Self::new(certificates)
    }

    fn new(mut certificates: Vec<Certificate>) -> Result<Self, CertificateError> {
        let mut seen = std::collections::HashSet::new();
        certificates.retain(|certificate| seen.insert(certificate.der.clone()));
        match certificates.len() {
            0 => Err(CertificateError::Empty),
            1..=MAX_CERTIFICATES => Ok(Self(certificates)),
            _ => Err(CertificateError::TooMany),
        }
    }

    /// All of them together; what is in two of them is kept once.
    pub(super) fn merged(all: Vec<Certificates>) -> Result<Self, CertificateError> {
        Self::new(all.into_iter().flat_map(|certificates| certificates.0).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &CertificateInfo> {
        self.0.iter().map(|certificate| &certificate.info)
    }

    /// Whether at least one may be used now. If not, nobody can sign in.
    pub fn any_valid_at(&self, now: DateTime<Utc>) -> bool {
        self.iter().any(|info| info.is_valid_at(now))
    }

    /// The text to store: PEM, one block after the other.
    pub fn to_pem(&self) -> String {
        self.0.iter().map(Certificate::to_pem).collect()
    }

    /// Lets a message pass that one of the keys signed, if its certificate is valid now.
    pub(super) fn verify(
        &self,
        method: SignatureMethod,
        message: &[u8],
        signature: &[u8],
        now: DateTime<Utc>,
    ) -> Result<(), Refusal> {
        let signers: Vec<_> = self
            .0
            .iter()
            .filter(|it| it.has_signed(method, message, signature))
            .collect();
        if signers.iter().any(|signer| signer.info.is_valid_at(now)) {
            return Ok(());
        }
        if let Some(signer) = signers.first() {
            return Err(signer.out_of_date());
        }
        if !self.any_valid_at(now) {
            return Err(self.0[0].out_of_date());
        }
        Err(Refusal::new(
            Rule::SignatureInvalid,
            "the signature matches none of the configured certificates, or the signed part was changed; \
             compare the certificate at the identity provider with the one configured here",
        ))
    }
}

impl Certificate {
    fn parse(der: Vec<u8>) -> Result<Self, CertificateError> {
        let parsed = x509_cert::Certificate::from_der(&der).map_err(CertificateError::NotX509)?;
        let body = parsed.tbs_certificate();
        let key_info = body.subject_public_key_info();
        let public_key = key_info
            .subject_public_key
            .as_bytes()
            .ok_or(CertificateError::KeyKind)?
            .to_vec();
        let kind = match key_info.algorithm.oid {
            RSA => rsa_kind(&public_key)?,
            EC => curve(key_info.algorithm.parameters.as_ref())?,
            _ => return Err(CertificateError::KeyKind),
        };
        let info = CertificateInfo {
            subject: body.subject().to_string(),
            issuer: body.issuer().to_string(),
            not_before: body.validity().not_before.to_system_time().into(),
            not_after: body.validity().not_after.to_system_time().into(),
            fingerprint: hex::encode(ring::digest::digest(&ring::digest::SHA256, &der)),
            key: kind,
        };
        Ok(Self { info, der, public_key })
    }

    fn has_signed(&self, method: SignatureMethod, message: &[u8], signature: &[u8]) -> bool {
        method.algorithm_for(self.info.key).is_some_and(|algorithm| {
            UnparsedPublicKey::new(algorithm, &self.public_key)
                .verify(message, signature)
                .is_ok()
        })
    }

    fn out_of_date(&self) -> Refusal {
        let CertificateInfo {
            not_before,
            not_after,
            fingerprint,
            ..
        } = &self.info;
        Refusal::new(
            Rule::CertificateExpired,
            format!(
                "the configured certificate {}… is valid from {not_before} to {not_after} only; \
                 configure the provider's current one",
                &fingerprint[..16]
            ),
        )
    }

    fn to_pem(&self) -> String {
        let encoded = STANDARD.encode(&self.der);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|&byte| char::from(byte)));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }
}

/// The bytes of each PEM block, or of the whole text if it has none.
fn blocks(text: &str) -> Result<Vec<Vec<u8>>, CertificateError> {
    const BEGIN: &str = "-----BEGIN ";
    if !text.contains(BEGIN) {
        return Ok(vec![decode(text)?]);
    }
    text.split(BEGIN).skip(1).map(block).collect()
}

/// `CERTIFICATE-----…-----END CERTIFICATE-----`, and whatever stands behind it.
fn block(text: &str) -> Result<Vec<u8>, CertificateError> {
    let (label, rest) = text.split_once("-----").ok_or(CertificateError::Unfinished)?;
    if label != "CERTIFICATE" {
        return Err(CertificateError::NotACertificate(label.chars().take(40).collect()));
    }
    let (body, _) = rest
        .split_once("-----END CERTIFICATE-----")
        .ok_or(CertificateError::Unfinished)?;
    decode(body)
}

fn decode(text: &str) -> Result<Vec<u8>, CertificateError> {
    let compact: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    if compact.is_empty() {
        return Err(CertificateError::Empty);
    }
    STANDARD.decode(compact).map_err(|_| CertificateError::NotBase64)
}

fn rsa_kind(public_key: &[u8]) -> Result<KeyKind, CertificateError> {
    let bits = modulus_bits(public_key).map_err(CertificateError::NotX509)?;
    if (MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) {
        Ok(KeyKind::Rsa { bits })
    } else {
        Err(CertificateError::RsaSize(bits))
    }
}

/// `RSAPublicKey` is a sequence of the modulus and the exponent.
fn modulus_bits(public_key: &[u8]) -> der::Result<usize> {
    let mut reader = SliceReader::new(public_key)?;
    reader.sequence(|reader| -> der::Result<usize> {
        let modulus = UintRef::decode(reader)?;
        UintRef::decode(reader)?;
        let bytes = modulus.as_bytes();
        let leading = bytes.first().map_or(0, |byte| byte.leading_zeros() as usize);
        Ok(bytes.len() * 8 - leading)
    })
}

fn curve(parameters: Option<&der::Any>) -> Result<KeyKind, CertificateError> {
    let curve = parameters.and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
    match curve {
        Some(P256) => Ok(KeyKind::P256),
        Some(P384) => Ok(KeyKind::P384),
        _ => Err(CertificateError::KeyKind),
    }
}
