//! Codes to write down, each good for one sign-in without the app.

/// Crockford's: without letters that look like digits, so what is misread is put right by [`normalize`].
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const GROUPS: usize = 3;
const GROUP_LENGTH: usize = 4;

/// How many codes people get.
pub const COUNT: usize = 10;

/// Makes codes of 60 random bits each, such as `k7mw-3q9d-x2hf`. That is too many to guess, so
/// [`key::hash`](crate::key::hash) is enough to store them.
pub fn recovery_codes(random: [[u8; 8]; COUNT]) -> Vec<String> {
    random
        .into_iter()
        .map(|bytes| code(u64::from_le_bytes(bytes)))
        .collect()
}

/// A code as it was given out, from what someone typed. None if it cannot be one.
pub fn normalize(typed: &str) -> Option<String> {
    let digits: Vec<u8> = typed
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .take(GROUPS * GROUP_LENGTH + 1)
        .map(digit)
        .collect::<Option<_>>()?;
    (digits.len() == GROUPS * GROUP_LENGTH).then(|| grouped(&digits))
}

fn code(mut bits: u64) -> String {
    let mut digits = [0; GROUPS * GROUP_LENGTH];
    for digit in &mut digits {
        *digit = ALPHABET[(bits % 32) as usize];
        bits /= 32;
    }
    grouped(&digits)
}

fn digit(typed: char) -> Option<u8> {
    let digit = match typed.to_ascii_lowercase() {
        'o' => '0',
        'i' | 'l' => '1',
        other => other,
    };
    u8::try_from(digit).ok().filter(|byte| ALPHABET.contains(byte))
}

fn grouped(digits: &[u8]) -> String {
    let group = |group: &[u8]| group.iter().map(|&digit| char::from(digit)).collect::<String>();
    digits.chunks(GROUP_LENGTH).map(group).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn codes() -> Vec<String> {
        recovery_codes(rand::random())
    }

    #[test]
    fn codes_are_ten_and_differ() {
        let codes = codes();
        assert_eq!(codes.iter().collect::<HashSet<_>>().len(), COUNT);
        for code in codes {
            assert_eq!(code.len(), 14);
            assert_eq!(normalize(&code), Some(code));
        }
    }

    #[test]
    fn every_one_of_sixty_bits_counts() {
        let different: HashSet<_> = (0..60).map(|bit| code(1 << bit)).collect();
        assert_eq!(different.len(), 60);
        assert!(!different.contains(&code(0)));
    }

    #[test]
    fn codes_are_read_as_people_type_them() {
        for typed in [
            "k7mw-3q9d-x10f",
            "K7MW 3Q9D X10F",
            "k7mw3q9dx10f",
            " k7mw-3q9d-xlOf ",
            "k7mw-3q9d-xI0F-",
        ] {
            assert_eq!(normalize(typed).as_deref(), Some("k7mw-3q9d-x10f"), "{typed}");
        }
        let long = "k".repeat(1_000_000);
        for typed in [
            "",
            "k7mw-3q9d",
            "k7mw-3q9d-x10ff",
            "k7mw-3q9d-x10u",
            "ķ7mw-3q9d-x10f",
            long.as_str(),
        ] {
            assert_eq!(normalize(typed), None, "{typed:.20}");
        }
    }
}
