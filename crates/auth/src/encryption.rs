//! Secrets that must be read again: encrypted with the instance's key, each for the one place it is kept in.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

const NONCE: usize = 24;
const KEY_ID: usize = 4;

/// The shortest text that can be an instance's secret key.
pub const MIN_LENGTH: usize = 32;

/// Encrypts with the newest key and opens with any of them, so that keys can be replaced one after the other.
#[derive(Clone)]
pub struct Encryptor {
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    id: [u8; KEY_ID],
    cipher: XChaCha20Poly1305,
}

#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    #[error("a secret key has at least {MIN_LENGTH} characters")]
    TooShort,
    #[error("this was encrypted with another key, or for another place")]
    Unreadable,
}

impl Encryptor {
    /// `secrets`: the newest first. Older ones only open.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Result<Self, EncryptionError> {
        let keys = secrets.into_iter().map(Key::new).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(EncryptionError::TooShort);
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
    pub fn encrypt(&self, place: &str, plain: &[u8], nonce: [u8; NONCE]) -> Vec<u8> {
        let key = &self.keys[0];
        let payload = Payload {
            msg: plain,
            aad: place.as_bytes(),
        };
        let encrypted = key
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("memory holds what it already held");
        [key.id.as_slice(), nonce.as_slice(), &encrypted].concat()
    }

    pub fn decrypt(&self, place: &str, encrypted: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        let (id, rest) = encrypted.split_at_checked(KEY_ID).ok_or(EncryptionError::Unreadable)?;
        let (nonce, encrypted) = rest.split_first_chunk::<NONCE>().ok_or(EncryptionError::Unreadable)?;
        let payload = Payload {
            msg: encrypted,
            aad: place.as_bytes(),
        };
        let key = self
            .keys
            .iter()
            .find(|key| key.id == id)
            .ok_or(EncryptionError::Unreadable)?;
        key.cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| EncryptionError::Unreadable)
    }
}

impl Key {
    fn new(secret: &str) -> Result<Self, EncryptionError> {
        if secret.len() < MIN_LENGTH {
            return Err(EncryptionError::TooShort);
        }
        let key: [u8; 32] = Sha256::digest(format!("hedgerow encrypting key\n{secret}")).into();
        let id: [u8; 32] = Sha256::digest(format!("hedgerow encrypting key id\n{secret}")).into();
        Ok(Self {
            id: [id[0], id[1], id[2], id[3]],
            cipher: XChaCha20Poly1305::new(&key.into()),
        })
    }
}

impl fmt::Debug for Encryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryptor").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "an old secret key of thirty-two characters";
    const NEW: &str = "a new secret key of thirty-two characters!";

    #[test]
    fn a_ciphertext_decrypts_only_for_its_own_row() {
        let encryptor = Encryptor::new([NEW]).expect("a key");
        let secret = encryptor.encrypt("domain/1/secret", b"hush", [7; 24]);
        assert!(!secret.windows(4).any(|window| window == b"hush"));
        assert_eq!(encryptor.decrypt("domain/1/secret", &secret).expect("opens"), b"hush");
        assert!(encryptor.decrypt("domain/2/secret", &secret).is_err());
        for place in 0..secret.len() {
            let mut changed = secret.clone();
            changed[place] ^= 1;
            assert!(encryptor.decrypt("domain/1/secret", &changed).is_err(), "byte {place}");
        }
        assert!(encryptor.decrypt("domain/1/secret", b"short").is_err());
    }

    #[test]
    fn an_older_key_decrypts_and_never_encrypts() {
        let old = Encryptor::new([OLD]).expect("a key");
        let both = Encryptor::new([NEW, OLD]).expect("keys");
        let encrypted = old.encrypt("here", b"hush", [1; 24]);
        assert_eq!(both.decrypt("here", &encrypted).expect("opens"), b"hush");
        assert!(old.decrypt("here", &both.encrypt("here", b"hush", [1; 24])).is_err());
        assert!(both.knows(&old.id()) && !old.knows(&both.id()));
    }

    #[test]
    fn a_short_key_is_refused() {
        assert!(Encryptor::new(["short"]).is_err());
        assert!(Encryptor::new([]).is_err());
    }
}
