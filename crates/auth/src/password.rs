//! Passwords, hashed with argon2id.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};

/// The shortest password that is accepted.
pub const MIN_LENGTH: usize = 8;
/// The longest: hashing is work, and work must be bounded.
pub const MAX_LENGTH: usize = 256;

#[derive(Debug, thiserror::Error)]
#[error("the password could not be hashed")]
pub struct HashError(#[source] argon2::password_hash::Error);

/// Hashes a password with a fresh salt. Takes tens of milliseconds on purpose.
pub fn hash(password: &str) -> Result<String, HashError> {
    let hash = Argon2::default()
        .hash_password(password.as_bytes())
        .map_err(HashError)?;
    Ok(hash.to_string())
}

/// Whether this is the password. A stored hash that cannot be read fits no password.
pub fn verify(password: &str, hash: &str) -> bool {
    if password.len() > MAX_LENGTH {
        return false;
    }
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_fits() {
        let stored = hash("correct horse").expect("hashes");
        assert!(stored.starts_with("$argon2id$"));
        assert!(verify("correct horse", &stored));
        assert!(!verify("correct hors", &stored));
        assert!(!verify("correct horse", "not a hash"));
    }
}
