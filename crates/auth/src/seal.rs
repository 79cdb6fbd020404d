//! Secrets that must be read again: sealed with the instance's key, each for the one place it is kept in.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

const NONCE: usize = 24;
const KEY_ID: usize = 4;

/// The shortest text that can be an instance's secret key.
pub const MIN_LENGTH: usize = 32;

/// Seals with the newest key and opens with any of them, so that keys can be replaced one after the other.
#[derive(Clone)]
pub struct Sealer {
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    id: [u8; KEY_ID],
    cipher: XChaCha20Poly1305,
}

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("a secret key has at least {MIN_LENGTH} characters")]
    TooShort,
    #[error("this was sealed with another key, or for another place")]
    Unreadable,
}

impl Sealer {
    /// `secrets`: the newest first. Older ones only open.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Result<Self, SealError> {
        let keys = secrets.into_iter().map(Key::new).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(SealError::TooShort);
        }
        Ok(Self { keys })
    }

    /// Recognizes the newest key without telling anything about it.
    pub fn id(&self) -> [u8; KEY_ID] {
        self.keys[0].id
    }

    /// The newest first.
    pub fn ids(&self) -> impl Iterator<Item = [u8; KEY_ID]> {
        self.keys.iter().map(|key| key.id)
    }

    pub fn knows(&self, id: &[u8]) -> bool {
        self.ids().any(|known| known == id)
    }

    /// `place` says where the secret is kept, such as `domain/ID/oidc_client_secret`: moved elsewhere, it does not open.
    #[expect(clippy::missing_panics_doc, reason = "encrypting fails only beyond 256 GiB")]
    pub fn seal(&self, place: &str, plain: &[u8], nonce: [u8; NONCE]) -> Vec<u8> {
        let key = &self.keys[0];
        let payload = Payload {
            msg: plain,
            aad: place.as_bytes(),
        };
        let sealed = key
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("memory holds what it already held");
        [key.id.as_slice(), nonce.as_slice(), &sealed].concat()
    }

    pub fn open(&self, place: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (id, rest) = sealed.split_at_checked(KEY_ID).ok_or(SealError::Unreadable)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>().ok_or(SealError::Unreadable)?;
        let payload = Payload {
            msg: sealed,
            aad: place.as_bytes(),
        };
        let key = self.keys.iter().find(|key| key.id == id).ok_or(SealError::Unreadable)?;
        key.cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| SealError::Unreadable)
    }
}

impl Key {
    fn new(secret: &str) -> Result<Self, SealError> {
        if secret.len() < MIN_LENGTH {
            return Err(SealError::TooShort);
        }
        let key: [u8; 32] = Sha256::digest(format!("hedgerow sealing key\n{secret}")).into();
        let id: [u8; 32] = Sha256::digest(format!("hedgerow sealing key id\n{secret}")).into();
        Ok(Self {
            id: [id[0], id[1], id[2], id[3]],
            cipher: XChaCha20Poly1305::new(&key.into()),
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "an old secret key of thirty-two characters";
    const NEW: &str = "a new secret key of thirty-two characters!";

    #[test]
    fn what_is_sealed_opens_only_in_its_place() {
        let sealer = Sealer::new([NEW]).expect("a key");
        let secret = sealer.seal("domain/1/secret", b"hush", [7; 24]);
        assert!(!secret.windows(4).any(|window| window == b"hush"));
        assert_eq!(sealer.open("domain/1/secret", &secret).expect("opens"), b"hush");
        assert!(sealer.open("domain/2/secret", &secret).is_err());
        for place in 0..secret.len() {
            let mut changed = secret.clone();
            changed[place] ^= 1;
            assert!(sealer.open("domain/1/secret", &changed).is_err(), "byte {place}");
        }
        assert!(sealer.open("domain/1/secret", b"short").is_err());
    }

    #[test]
    fn an_older_key_still_opens_and_never_seals() {
        let old = Sealer::new([OLD]).expect("a key");
        let both = Sealer::new([NEW, OLD]).expect("keys");
        let sealed = old.seal("here", b"hush", [1; 24]);
        assert_eq!(both.open("here", &sealed).expect("opens"), b"hush");
        assert!(old.open("here", &both.seal("here", b"hush", [1; 24])).is_err());
        assert!(both.knows(&old.id()) && !old.knows(&both.id()));
    }

    #[test]
    fn a_short_key_is_refused() {
        assert!(Sealer::new(["short"]).is_err());
        assert!(Sealer::new([]).is_err());
    }
}
