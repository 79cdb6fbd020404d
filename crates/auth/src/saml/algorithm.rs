//! The kinds of keys, and the methods that sign with them.

use ring::signature;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Rsa { bits: usize },
    P256,
    P384,
}

impl std::fmt::Display for KeyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rsa { bits } => write!(f, "RSA with {bits} bits"),
            Self::P256 => f.write_str("ECDSA P-256"),
            Self::P384 => f.write_str("ECDSA P-384"),
        }
    }
}

/// How a signature is made. SHA-1, HMAC, DSA and the rest have no variant, so nothing can lead to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureMethod {
    RsaSha256,
    RsaSha384,
    RsaSha512,
    EcdsaSha256,
    EcdsaSha384,
}

impl SignatureMethod {
    pub(super) fn from_uri(uri: &str) -> Option<Self> {
        Some(match uri {
            "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256" => Self::RsaSha256,
            "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384" => Self::RsaSha384,
            "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512" => Self::RsaSha512,
            "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256" => Self::EcdsaSha256,
            "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384" => Self::EcdsaSha384,
            _ => return None,
        })
    }

    /// What verifies it, if the key is of the kind that the method needs.
    pub(super) fn algorithm_for(self, key: KeyKind) -> Option<&'static dyn signature::VerificationAlgorithm> {
        Some(match (self, key) {
            (Self::RsaSha256, KeyKind::Rsa { .. }) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (Self::RsaSha384, KeyKind::Rsa { .. }) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Self::RsaSha512, KeyKind::Rsa { .. }) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (Self::EcdsaSha256, KeyKind::P256) => &signature::ECDSA_P256_SHA256_FIXED,
            (Self::EcdsaSha384, KeyKind::P384) => &signature::ECDSA_P384_SHA384_FIXED,
            _ => return None,
        })
    }
}
