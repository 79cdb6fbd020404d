//! Tokens signed with a private key that the export's owner gave (RS256).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pkcs8::der::Encode;
use pkcs8::der::asn1::{AnyRef, BitStringRef};
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Kdf;
use pkcs8::{
    AlgorithmIdentifierRef, EncryptedPrivateKeyInfo, ObjectIdentifier, SecretDocument, SubjectPublicKeyInfoRef,
};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::Error;

const NOT_A_KEY: &str = "the private key cannot be read; it must be an RSA key of at least 2048 bits in PEM, PKCS #8, \
                         which starts with -----BEGIN PRIVATE KEY-----";
const NO_PASSPHRASE: &str = "the private key is encrypted; enter its passphrase in private_key_passphrase";
const WRONG_PASSPHRASE: &str = "the private key cannot be decrypted with the passphrase; check private_key_passphrase, \
                                and that the key is encrypted with AES or 3DES (PBES2)";

const TOO_EXPENSIVE: &str =
    "the private key takes too long to decrypt; encrypt it with PBKDF2 and at most 10,000 rounds";

/// What the key itself says of how it is to be decrypted is not to keep anybody waiting, nor to fill the memory.
const MAX_ROUNDS: u32 = 10_000;
const MAX_SCRYPT_BYTES: u64 = 32 * 1024 * 1024;

/// Signs with somebody's private key.
pub(crate) struct Signer(RsaKeyPair);

/// Reads a key, decrypting it if need be.
///
/// Pasted keys have often lost their line breaks, or kept them as `\n`, as in JSON; both are repaired.
pub(crate) fn private_key(pem: &SecretString, passphrase: Option<&SecretString>) -> Result<Signer, Error> {
    let pem = SecretString::from(repaired(pem.expose_secret()));
    let (label, document) =
        SecretDocument::from_pem(pem.expose_secret()).map_err(|cause| not_a_key(cause.to_string()))?;
    let decrypted = match (label, passphrase) {
        ("ENCRYPTED PRIVATE KEY", None) => return Err(Error::plain(NO_PASSPHRASE).in_key("private_key_passphrase")),
        ("ENCRYPTED PRIVATE KEY", Some(passphrase)) => decrypted(&document, passphrase)?,
        _ => document,
    };
    let pair = RsaKeyPair::from_pkcs8(decrypted.as_bytes());
    pair.map(Signer).map_err(|cause| not_a_key(cause.to_string()))
}

fn decrypted(document: &SecretDocument, passphrase: &SecretString) -> Result<SecretDocument, Error> {
    let wrong =
        |cause: pkcs8::Error| Error::permanent(WRONG_PASSPHRASE, cause.to_string()).in_key("private_key_passphrase");
    let key = EncryptedPrivateKeyInfo::try_from(document.as_bytes()).map_err(wrong)?;
    if is_too_expensive(&key.encryption_algorithm) {
        return Err(Error::plain(TOO_EXPENSIVE).in_key("private_key"));
    }
    key.decrypt(passphrase.expose_secret()).map_err(wrong)
}

fn is_too_expensive(scheme: &EncryptionScheme<'_>) -> bool {
    match scheme {
        EncryptionScheme::Pbes2(parameters) => match &parameters.kdf {
            Kdf::Pbkdf2(kdf) => kdf.iteration_count > MAX_ROUNDS,
            Kdf::Scrypt(kdf) => {
                let bytes = kdf.cost_parameter.saturating_mul(128 * u64::from(kdf.block_size));
                bytes > MAX_SCRYPT_BYTES || kdf.parallelization > 1
            }
            _ => true,
        },
        _ => false,
    }
}

fn not_a_key(cause: String) -> Error {
    Error::permanent(NOT_A_KEY, cause).in_key("private_key")
}

impl Signer {
    /// A token of these claims.
    pub(crate) fn sign(&self, mut header: Value, claims: &Value) -> Result<String, Error> {
        header["alg"] = "RS256".into();
        header["typ"] = "JWT".into();
        let [header, claims] = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{header}.{claims}");
        let mut signature = vec![0; self.0.public().modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| Error::retryable("the sign-in token could not be signed", "signing failed"))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The public half, as certificates carry it (`SubjectPublicKeyInfo`, DER).
    pub(crate) fn public_key_info(&self) -> Vec<u8> {
        const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
        let info = SubjectPublicKeyInfoRef {
            algorithm: AlgorithmIdentifierRef {
                oid: RSA_ENCRYPTION,
                parameters: Some(AnyRef::NULL),
            },
            subject_public_key: BitStringRef::from_bytes(self.0.public().as_ref()).expect("a key has few bytes"),
        };
        info.to_der().expect("a key has few bytes")
    }
}

/// The same PEM with a line break wherever one belongs.
fn repaired(pem: &str) -> String {
    let pem = pem.trim().replace("\\n", "\n");
    let Some((begin, rest)) = pem
        .strip_prefix("-----BEGIN ")
        .and_then(|rest| rest.split_once("-----"))
    else {
        return pem;
    };
    let Some((body, _)) = rest.split_once("-----END ") else {
        return pem.clone();
    };
    let body: Vec<char> = body.chars().filter(|char| !char.is_whitespace()).collect();
    let lines: Vec<String> = body.chunks(64).map(|line| line.iter().collect()).collect();
    format!("-----BEGIN {begin}-----\n{}\n-----END {begin}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use pkcs8::pkcs5::pbes2::{self, Parameters, Pbkdf2Params, Pbkdf2Prf, ScryptParams};
    use sha2::{Digest, Sha256};

    use super::*;

    fn is_refused(kdf: Kdf<'_>) -> bool {
        let encryption = pbes2::EncryptionScheme::Aes256Cbc { iv: &[0; 16] };
        is_too_expensive(&EncryptionScheme::Pbes2(Parameters { kdf, encryption }))
    }

    #[test]
    fn a_key_cannot_ask_for_as_much_work_or_memory_as_it_likes() {
        let pbkdf2 = |iteration_count| {
            Kdf::Pbkdf2(Pbkdf2Params {
                salt: b"salt",
                iteration_count,
                key_length: None,
                prf: Pbkdf2Prf::HmacWithSha256,
            })
        };
        assert!(!is_refused(pbkdf2(2_048)) && !is_refused(pbkdf2(MAX_ROUNDS)));
        assert!(is_refused(pbkdf2(u32::MAX)));
        let scrypt = |cost_parameter, block_size, parallelization| {
            Kdf::Scrypt(ScryptParams {
                salt: b"salt",
                cost_parameter,
                block_size,
                parallelization,
                key_length: None,
            })
        };
        assert!(!is_refused(scrypt(1 << 14, 8, 1)), "what OpenSSL writes");
        assert!(is_refused(scrypt(1 << 40, 8, 1)) && is_refused(scrypt(1 << 63, 8, 1)));
        assert!(is_refused(scrypt(1 << 14, u16::MAX, 1)) && is_refused(scrypt(1 << 14, 8, 2)));
    }

    /// What `openssl pkey -pubout -outform DER | openssl dgst -sha256` says.
    #[test]
    fn the_public_half_is_what_openssl_writes() {
        let pem = include_str!("../../../../auth/tests/fixtures/saml/rsa.key");
        let info = private_key(&pem.into(), None).unwrap().public_key_info();
        assert_eq!(
            hex::encode(Sha256::digest(info)),
            "98df117c5b5f83d262385a48aa83ecbf7833244e7d57bfcca27536d90dc6e050"
        );
    }
}
