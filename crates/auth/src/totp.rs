//! One-time codes from an authenticator app (RFC 6238), and recovery codes for when the app is lost.

use std::fmt;

use chrono::{DateTime, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use subtle::{Choice, ConstantTimeEq};
use totp_rs::{Builder, Totp};

mod qr;
pub mod recovery;

pub use qr::qr_svg;

const SECONDS_PER_STEP: u64 = 30;
const DIGITS: usize = 6;

/// Apps take everything else of a label literally.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What an authenticator app and we both know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 20]);

impl Secret {
    /// 160 random bits, as RFC 4226 recommends.
    pub fn new(random: [u8; 20]) -> Self {
        Self(random)
    }

    /// For storing it encrypted.
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// For people who type it in because they cannot scan it.
    pub fn base32(&self) -> String {
        totp_rs::Secret::from(self.0.to_vec()).to_base32()
    }

    fn codes(&self) -> Totp {
        // The defaults are those every app knows: SHA-1, 6 digits, 30 seconds. The length is right by type.
        Builder::new().with_secret(self.0.to_vec()).build_noncompliant()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([redacted])")
    }
}

/// What an authenticator app reads from the QR code.
pub fn provisioning_uri(secret: &Secret, email: &str, issuer: &str) -> String {
    let (issuer, email) = (
        utf8_percent_encode(issuer, ESCAPED),
        utf8_percent_encode(email, ESCAPED),
    );
    let secret = secret.base32();
    format!("otpauth://totp/{issuer}:{email}?secret={secret}&issuer={issuer}&algorithm=SHA1&digits=6&period=30")
}

/// Whether a code is right; if so, the step it belongs to, which the caller stores as `last_used_step`.
///
/// The step before and the one after count too, for clocks that differ. A step at or before the last used one does not:
/// a code that was seen over someone's shoulder is worth nothing (RFC 6238, section 5.2).
pub fn check(secret: &Secret, code: &str, now: DateTime<Utc>, last_used_step: Option<u64>) -> Option<u64> {
    let code = digits(code)?;
    let current = u64::try_from(now.timestamp()).ok()? / SECONDS_PER_STEP;
    let codes = secret.codes();
    let matches = |step: u64| -> Choice {
        let expected = codes.generate(step * SECONDS_PER_STEP).to_string();
        expected.as_bytes().ct_eq(code.as_bytes())
    };
    // All three are compared whatever the first ones say, so that the time taken tells nothing.
    let steps = current.saturating_sub(1)..=current + 1;
    let found: Vec<(u64, Choice)> = steps.map(|step| (step, matches(step))).collect();
    found
        .into_iter()
        .find(|(step, is_match)| bool::from(*is_match) && last_used_step.is_none_or(|last| *step > last))
        .map(|(step, _)| step)
}

/// Apps show codes in groups, and people type them so.
fn digits(code: &str) -> Option<String> {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).take(DIGITS + 1).collect();
    (code.len() == DIGITS && code.bytes().all(|byte| byte.is_ascii_digit())).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238, appendix B.
    fn secret() -> Secret {
        Secret::new(*b"12345678901234567890")
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    /// RFC 6238, appendix B, SHA-1; the last six of its eight digits.
    const VECTORS: [(i64, &str); 6] = [
        (59, "287082"),
        (1_111_111_109, "081804"),
        (1_111_111_111, "050471"),
        (1_234_567_890, "005924"),
        (2_000_000_000, "279037"),
        (20_000_000_000, "353130"),
    ];

    #[test]
    fn the_codes_of_the_standard_are_right() {
        for (seconds, code) in VECTORS {
            let step = u64::try_from(seconds).unwrap() / 30;
            assert_eq!(check(&secret(), code, at(seconds), None), Some(step), "{seconds}");
        }
    }

    #[test]
    fn a_code_holds_one_step_before_and_after() {
        let (seconds, code) = VECTORS[3];
        for (offset, is_right) in [(-60, false), (-30, true), (0, true), (30, true), (60, false)] {
            let step = check(&secret(), code, at(seconds + offset), None);
            assert_eq!(step.is_some(), is_right, "{offset}");
        }
    }

    #[test]
    fn no_code_is_right_twice() {
        let (seconds, code) = VECTORS[3];
        let step = check(&secret(), code, at(seconds), None).unwrap();
        assert_eq!(check(&secret(), code, at(seconds), Some(step - 1)), Some(step));
        assert_eq!(check(&secret(), code, at(seconds), Some(step)), None);
        assert_eq!(check(&secret(), code, at(seconds + 30), Some(step)), None);
        assert_eq!(check(&secret(), code, at(seconds), Some(step + 1)), None);
    }

    #[test]
    fn spaces_do_not_matter_and_all_else_does() {
        let now = at(1_111_111_109);
        for code in ["081804", "081 804", " 0 8 1 8 0 4 ", "081\u{a0}804"] {
            assert!(check(&secret(), code, now, None).is_some(), "{code:?}");
        }
        let long = "0".repeat(1_000_000);
        for code in [
            "",
            "81804",
            "0818040",
            "14081804",
            "08180x",
            "０８１８０４",
            "-81804",
            "000000",
            long.as_str(),
        ] {
            assert!(check(&secret(), code, now, None).is_none(), "{code:.20?}");
        }
    }

    #[test]
    fn times_at_the_edge_do_no_harm() {
        for seconds in [-1, 0, 29, i64::from(u32::MAX)] {
            assert_eq!(check(&secret(), "000000", at(seconds), None), None);
        }
    }

    #[test]
    fn an_app_can_read_the_uri() {
        let uri = provisioning_uri(&secret(), "ada+test@example.com", "Hedgerow");
        assert_eq!(
            uri,
            "otpauth://totp/Hedgerow:ada%2Btest%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\
             &issuer=Hedgerow&algorithm=SHA1&digits=6&period=30"
        );
        let odd = provisioning_uri(&secret(), "a&secret=x:#?", "Acme Ltd");
        assert!(odd.starts_with("otpauth://totp/Acme%20Ltd:a%26secret%3Dx%3A%23%3F?secret=GEZ"));
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", secret()), "Secret([redacted])");
    }
}
