//! Secrets that are random enough to be stored as a plain hash: API keys and session tokens.

use sha2::{Digest, Sha256};

/// How a personal API key begins, so that people and secret scanners know what they found.
pub const PREFIX: &str = "hgr_";

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM_LENGTH: usize = 43;
const CHECKSUM_LENGTH: usize = 6;

/// What is stored of a secret. Enough to recognize it, useless to an attacker.
pub type SecretHash = [u8; 32];

/// Makes a personal API key from 256 random bits.
pub fn new_key(random: [u8; 32]) -> String {
    let body = base62(&random);
    let checksum = checksum(&body);
    format!("{PREFIX}{body}{checksum}")
}

/// Makes a token without a checksum, for machines to pass on: `{prefix}{43 characters}`.
pub fn new_token(prefix: &str, random: [u8; 32]) -> String {
    format!("{prefix}{}", base62(&random))
}

/// What is kept of a key or token.
pub fn hash(secret: &str) -> SecretHash {
    Sha256::digest(secret.as_bytes()).into()
}

/// The first and last four characters, for people to tell their keys apart.
pub fn mask(key: &str) -> String {
    let chars: Vec<char> = key.chars().collect();
    let head: String = chars.iter().take(4).collect();
    let tail: String = chars[chars.len().saturating_sub(4)..].iter().collect();
    format!("{head}...{tail}")
}

/// Whether the text can be a key at all. A mistyped `hgr_` key is told apart here, without a look-up.
///
/// Keys without the prefix pass: an operator may have fixed the first one to any printable text.
pub fn is_well_formed(key: &str) -> bool {
    match key.strip_prefix(PREFIX) {
        Some(rest) if rest.len() == RANDOM_LENGTH + CHECKSUM_LENGTH && rest.is_ascii() => {
            let (body, given) = rest.split_at(RANDOM_LENGTH);
            checksum(body) == given
        }
        Some(_) => false,
        None => (16..=512).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()),
    }
}

fn checksum(body: &str) -> String {
    let mut rest = crc32fast::hash(body.as_bytes());
    let mut digits = [b'0'; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(rest % 62) as usize];
        rest /= 62;
    }
    digits.iter().map(|&digit| char::from(digit)).collect()
}

/// 256 bits as 43 base62 digits, most significant first.
fn base62(number: &[u8; 32]) -> String {
    let mut number = *number;
    let mut digits = [b'0'; RANDOM_LENGTH];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0_u32;
        for byte in &mut number {
            let value = remainder * 256 + u32::from(*byte);
            *byte = u8::try_from(value / 62).expect("a remainder below 62 keeps the quotient in a byte");
            remainder = value % 62;
        }
        *digit = ALPHABET[remainder as usize];
    }
    digits.iter().map(|&digit| char::from(digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_has_the_published_shape() {
        let key = new_key([0xff; 32]);
        assert_eq!(key.len(), 4 + 43 + 6);
        assert!(key[4..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert!(is_well_formed(&key));
        assert_eq!(new_key([0; 32])[..8], *"hgr_0000");
    }

    #[test]
    fn every_single_typing_error_is_caught() {
        let key = new_key(*b"0123456789abcdef0123456789abcdef");
        for position in PREFIX.len()..key.len() {
            let mut typo = key.clone().into_bytes();
            typo[position] = if typo[position] == b'x' { b'y' } else { b'x' };
            let typo = String::from_utf8(typo).expect("ascii");
            assert!(!is_well_formed(&typo), "{typo}");
        }
        assert!(!is_well_formed(&key[..key.len() - 1]));
    }

    #[test]
    fn a_fixed_key_needs_sixteen_printable_characters() {
        assert!(is_well_formed("automation-key-1"));
        assert!(!is_well_formed("too-short"));
        assert!(!is_well_formed("has a space in it!"));
    }

    #[test]
    fn a_mask_shows_eight_characters() {
        assert_eq!(mask("hgr_abcdefgh"), "hgr_...efgh");
    }
}
