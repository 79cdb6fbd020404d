//! JSON may spell what no text may hold: half a surrogate pair, and the NUL that databases refuse.

use memchr::memchr;

const REPLACEMENT: &[u8; 6] = b"\\ufffd";
const LENGTH: usize = REPLACEMENT.len();

/// Puts the replacement character in their place. It is spelled in as many bytes, so nothing moves.
pub(super) fn replace_bad_escapes(json: &mut [u8]) {
    let mut at = 0;
    while let Some(next) = memchr(b'\\', &json[at..]) {
        at += next;
        at += match unit(&json[at..]) {
            Some(0xd800..=0xdbff) if matches!(unit(&json[at + LENGTH..]), Some(0xdc00..=0xdfff)) => 2 * LENGTH,
            Some(0 | 0xd800..=0xdfff) => {
                json[at..at + LENGTH].copy_from_slice(REPLACEMENT);
                LENGTH
            }
            Some(_) => LENGTH,
            // Some other escape, such as that of a backslash itself.
            None => 2.min(json.len() - at),
        };
    }
}

/// The number of an escape such as `\u00e9`.
fn unit(json: &[u8]) -> Option<u16> {
    let digits = json.get(..LENGTH)?.strip_prefix(b"\\u")?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    u16::from_str_radix(digits, 16).ok()
}
